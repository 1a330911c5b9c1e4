"""The laboratory of the flow scheduling paper: few jobs on few servers, placed by hand, looked at slot by slot.

Two jobs on one NIC (Figures 1 and 11a), one beside a foreign flow (11b), one under random loss (10), and how long a
host takes to decide (15).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np

from weft.model.topologies import build_cluster
from weft.pace.base import Pace
from weft.registry import make
from weft.sim.foreign import Others
from weft.sim.opened import open_flows
from weft.sim.slotted import Iteration, SlottedEngine, SlotView
from weft.sim.spec import Foreign
from weft.workload import zoo

__all__ = ["Shared", "beside_foreign", "decision_ms", "speed", "two_on_a_nic"]

NIC_GBPS = 25.0
TWO_SERVERS = "[parallel=parameter-server,servers=2]"
GPU = "P100"  # of the zoo's, the one nearest to the testbed's GTX 1080 Ti


@dataclass(frozen=True)
class Shared:
    """Two jobs on one NIC: mean iteration of each in seconds, and how they met there."""

    iteration_s: tuple[float, ...]
    both: float  # share of the time in which the NIC sends that both send
    crowded: float  # share of that time in which more was asked of it than it has


def _play(
    models: Sequence[str], servers: Sequence[Sequence[int]], pace: str, iterations: int, *, n_servers: int = 2,
    loss: float = 0.0, foreign: Sequence[Foreign] = (), nic_gbps: float = NIC_GBPS,
) -> tuple[SlottedEngine, list[list[float]]]:  # fmt: skip
    """Run jobs, each with a worker on each of its servers; also what each sends out of server 0, slot by slot."""
    cluster = build_cluster("single-switch", servers=n_servers, gpus_per_server=len(models), nic_gbps=nic_gbps)
    rule = cast(Pace, make("pace", pace)).rates()
    assert rule is not None
    others = Others(cluster, foreign, packet_loss=loss) if foreign else None
    nic = cluster.topology.route(0, 1)[0]
    seen: list[list[float]] = []

    def watch(view: SlotView) -> None:
        flows = view.engine.flows
        out = flows.path[:, 0] == nic
        mine = [float(flows.rate[out & (flows.job == j)].sum()) for j in range(len(models))]
        theirs = view.engine.foreign_bytes.sum()
        asked = float(view.asked[view.live][flows.path[view.live, 0] == nic].sum())
        goes_on = float(flows.active[out & (flows.job >= 0)].any())
        seen.append([view.slot, *mine, float(theirs), asked, goes_on])

    engine = SlottedEngine(cluster.topology.capacity, rule, packet_loss=loss, foreign=others, watch=watch)
    for j, (model, where) in enumerate(zip(models, servers, strict=True)):
        gpus = tuple(cluster.servers[s].gpus[j] for s in where)
        profile = zoo.profile(model, len(gpus), gpu=GPU)
        rows = open_flows(profile, gpus, cluster, "ring", j)
        engine.attach(j, Iteration(profile.compute_s, profile.gpu_s, rows), iterations)
    while engine.run(math.inf):
        pass
    return engine, seen


@lru_cache(maxsize=64)
def two_on_a_nic(pace: str, iterations: int = 100) -> Shared:
    """Figures 1 and 11(a): VGG19 and ResNet50 over rings, a worker of each on both of two servers."""
    engine, seen = _play(("vgg19", "resnet50"), ((0, 1), (0, 1)), pace, iterations)
    records = engine.records()
    first = [float(records["duration"][records["uid"] == j].mean()) for j in range(2)]
    rates = np.array(seen)
    together = rates[rates[:, 0] * engine.rule.slot_s < min(engine.finish_s(0), engine.finish_s(1))]
    busy = (together[:, 1:3] > 0.0).any(axis=1)
    both = (together[:, 1:3] > 0.0).all(axis=1)
    crowded = together[:, 4] > NIC_GBPS / 8 * 1e9 * (1 + 1e-9)
    return Shared(tuple(first), float(both.sum() / busy.sum()), float((busy & crowded).sum() / busy.sum()))


@lru_cache(maxsize=64)
def beside_foreign(pace: str, iterations: int = 60) -> tuple[float, float]:
    """Figure 11(b): VGG19 on two servers, a TCP flow between them from 0.6 s on.

    The foreign flow's share of the NIC in slots in which both send: in those in which VGG19 has more to send
    afterwards, and in all of them. (In the last slot of an iteration it asks for what is left, and the other has the
    rest.)
    """
    foreign = (Foreign("s0", "s1", start_s=0.6),)
    engine, seen = _play(("vgg19",), ((0, 1),), pace, iterations, foreign=foreign)
    rates = np.array(seen)
    line = NIC_GBPS / 8 * 1e9 * engine.rule.slot_s
    theirs = np.diff(rates[:, 2], prepend=0.0) / line
    both = (rates[:, 0] * engine.rule.slot_s >= 0.6) & (rates[:, 1] > 0.0) & (theirs > 0.0)
    going_on = both & (rates[:, 4] > 0.0)
    return float(theirs[going_on].mean()), float(theirs[both].mean())


@lru_cache(maxsize=256)
def speed(model: str, pace: str, loss: float = 0.0, iterations: int = 40) -> float:
    """Iterations per second of one job with 4 workers on 4 servers, as in Figure 10."""
    engine, _ = _play((model,), ((0, 1, 2, 3),), pace, iterations, n_servers=4, loss=loss)
    return 1.0 / float(engine.records()["duration"].mean())


def decision_ms(n: int) -> list[float]:
    """Time of one host's decisions, in milliseconds: 16 flows on its NIC, paths of six links, everybody's load."""
    from weft.pace.flow_host import Answer, HostScheduler, OwnFlow, Peers

    rng = np.random.default_rng(1)
    host = HostScheduler()
    for i in range(16):
        host.begin(OwnFlow(i, 5e8, 5e7, tuple(range(6)), 1.25e9, (i + 16,), (i + 32,)))
    took = []
    for k in range(n):
        flow = k % 16
        links = {link: Answer((rng.random(10) * 1e9).tolist(), 1.25e9) for link in range(6)}
        peers = Peers({flow + 16: 1e8, flow + 32: 1e8}, {flow + 16: 1e9, flow + 32: 5e8})
        began = time.perf_counter()
        host.decide(flow, k, links, peers)
        took.append(1e3 * (time.perf_counter() - began))
    return took
