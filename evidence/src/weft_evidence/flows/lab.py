"""The laboratory of the flow scheduling paper: few jobs on few servers, which are placed by hand.

Two jobs on one NIC (Figures 1 and 11a), one beside a foreign flow (11b), one under random loss (10), and how long a
host takes to decide (15).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from weft.model.cluster import Cluster
from weft.network.topologies import build_cluster
from weft.policies.pace.base import Pace
from weft.policies.pace.rates import Transport
from weft.sim.engine import Engine, EngineSpec
from weft.sim.foreign import Others
from weft.sim.lower import Lowering
from weft.sim.spec import Foreign, NetworkSpec
from weft.stacks.registry import make
from weft.workload import zoo

NIC_GBPS = 25.0
TWO_SERVERS = "[batch=64,parallel=parameter-server,servers=2,apart=true]"
GPU = "P100"  # the zoo's GPU that is nearest to the testbed's GTX 1080 Ti


@dataclass(frozen=True)
class Shared:
    """Two jobs on one NIC: mean iteration of each in seconds, and how they met there."""

    iteration_s: tuple[float, ...]
    both: float  # share of the time in which the NIC sends that both send
    crowded: float  # share of that time in which more was asked of it than it has


_Seen = list[tuple[float, dict[int, tuple[float, float]]]]  # moment; by job, what it sends out of server 0 and may send


class Played(NamedTuple):
    """The outcome of `play`. `seen` is what leaves server 0 between one change of rates and the next; `others` are the
    bytes per second of foreign flows while all jobs ran."""

    engine: Engine
    seen: _Seen
    others: float


def play(
    models: Sequence[str], servers: Sequence[Sequence[int]], pace: str, iterations: int, *, n_servers: int = 2,
    loss: float = 0.0, foreign: Sequence[Foreign] = (), nic_gbps: float = NIC_GBPS,
) -> Played:  # fmt: skip
    """Run jobs, each with a worker on each of its servers."""
    cluster = build_cluster("single-switch", servers=n_servers, gpus_per_server=len(models), nic_gbps=nic_gbps)
    network = NetworkSpec(packet_loss=loss, foreign=tuple(foreign))
    chosen = cast(Pace, make("pace", pace))
    transport = chosen.transport(loss)
    lowering = Lowering(cluster, network, transport=transport)
    engine = Engine(EngineSpec(lowering.capacity, lowering.ports, rule=chosen.rates, packet_loss=loss, skip=False))
    others = Others(cluster, network, 0, transport)
    nic = cluster.topology.route(0, 1)[0]
    for j, (model, where) in enumerate(zip(models, servers, strict=True)):
        gpus = tuple(cluster.servers[s].gpus[j] for s in where)
        profile = zoo.profile(model, len(gpus), gpu=GPU)
        engine.attach(j, lowering.program(profile, gpus, model, j), iterations)
    seen: _Seen = []
    running, beside = len(models), 0.0
    while running:
        if others.next_s <= engine.now:
            others.change(engine)
        finished = engine.step(others.next_s)
        if finished and running == len(models):
            beside = others.so_far(engine) / engine.now
        running -= len(finished)
        seen.append((engine.now, engine.on_link(nic)))
    return Played(engine, seen, beside)


def _stretches(seen: _Seen) -> Iterator[tuple[float, float, dict[int, tuple[float, float]]]]:
    """When each stretch begins, how long it lasts, and who sends in it."""
    for (start, sends), (end, _) in pairwise(seen):
        if end > start:
            yield start, end - start, sends


@lru_cache(maxsize=64)
def two_on_a_nic(pace: str, iterations: int = 100, nic_gbps: float = NIC_GBPS) -> Shared:
    """Figures 1 and 11(a): VGG19 and ResNet50 over rings, a worker of each on both of two servers."""
    models = ("vgg19[batch=64]", "resnet50[batch=64]")
    engine, seen, _ = play(models, ((0, 1), (0, 1)), pace, iterations, nic_gbps=nic_gbps)
    first, line = min(engine.finish_s(0), engine.finish_s(1)), nic_gbps / 8 * 1e9
    busy = both = crowded = 0.0
    for start, lasts, sends in _stretches(seen):
        sending = sum(rate > 0.0 for rate, _ in sends.values())
        if start < first and sending:
            busy += lasts
            both += lasts * (sending == 2)
            crowded += lasts * (sum(asked for _, asked in sends.values()) > line * (1 + 1e-9))
    return Shared(mean_iterations(engine, 2), both / busy, crowded / busy)


def mean_iterations(engine: Engine, jobs: int) -> tuple[float, ...]:
    """Seconds of an iteration of each job."""
    records = engine.records()
    mine = [records[records["uid"] == j] for j in range(jobs)]
    return tuple(float(np.average(rows["duration"], weights=rows["count"])) for rows in mine)


@lru_cache(maxsize=64)
def beside_foreign(pace: str, iterations: int = 60) -> float:
    """Figure 11(b): VGG19 on two servers, a TCP flow between them from 0.6 s on: the foreign flow's share of the NIC
    while VGG19 has bytes to send."""
    foreign = (Foreign("s0", "s1", start_s=0.6),)
    seen = play(("vgg19[batch=64]",), ((0, 1),), pace, iterations, foreign=foreign).seen
    ours = theirs = 0.0
    for start, lasts, sends in _stretches(seen):
        if start >= 0.6 and 0 in sends:
            ours += lasts * sends[0][0]
            theirs += lasts * sum(rate for uid, (rate, _) in sends.items() if uid != 0)
    return theirs / (ours + theirs)


@lru_cache(maxsize=256)
def speed(model: str, pace: str, loss: float = 0.0, iterations: int = 40) -> float:
    """Iterations per second of one job with 2 workers and 2 parameter servers on 4 machines, as in Figure 10."""
    played = play((model,), ((0, 1),), pace, iterations, n_servers=4, loss=loss)
    return iterations / played.engine.finish_s(0)


def delivered_alone(cluster: Cluster, network: NetworkSpec, seed: int, moments: Sequence[float]) -> list[float]:
    """Bytes that the traffic of others delivers by each of these moments, in ascending order, where no job sends."""
    capacity = cluster.topology.capacity
    engine = Engine(EngineSpec(capacity, np.zeros(len(capacity), np.bool_), n_gpus=cluster.n_gpus))
    others = Others(cluster, network, seed, Transport())
    found = []
    for moment in moments:
        while others.next_s <= moment:
            engine.run(others.next_s)
            others.change(engine)
        engine.run(moment)
        found.append(others.so_far(engine))
    return found


def decision_ms(slots: int) -> list[float]:
    """CPU time of one host's decisions in a slot, in milliseconds: those of all 16 flows on its NIC, one after the
    other, with paths of six links and everybody's load. Other work on the machine does not count."""
    from weft_live.flow.host import Answer, HostScheduler, OwnFlow, Peers

    rng, flows = np.random.default_rng(1), range(16)
    host = HostScheduler()
    for i in flows:
        host.begin(OwnFlow(i, 5e8, 5e7, tuple(range(6)), 1.25e9, (i + 16,), (i + 32,)))
    peers = [Peers({i + 16: 1e8, i + 32: 1e8}, {i + 16: 1e9, i + 32: 5e8}) for i in flows]
    took = []
    for slot in range(slots):
        links = {link: Answer((rng.random(10) * 1e9).tolist(), 1.25e9) for link in range(6)}
        began = time.thread_time()
        for i in flows:
            host.decide(i, slot, links, peers[i])
        took.append(1e3 * (time.thread_time() - began))
    return took
