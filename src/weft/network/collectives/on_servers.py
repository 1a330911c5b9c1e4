"""A collective on given servers, stage by stage, before its messages are routed.

Parameter servers that stand apart need no GPU. Each is drawn, by the job's key, from the servers that have no worker of
the job and none of its other parameter servers; where no such server is left they stand beside workers.

Messages between GPUs of one server load no link: a server's inner fabric is not a shared resource here, not even
between jobs on the same server. They cap the flows of their stage instead, at the speed of a GPU's port divided by the
number of messages that it sends or receives at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from weft.errors import InputError
from weft.model.cluster import Cluster, Route, Topology
from weft.model.profile import APART
from weft.network.collectives.algorithms import get_collective, host_ranks, stages
from weft.network.collectives.stages import Pair, Stage, Stages
from weft.network.collectives.wiring import Ends, Wires

if TYPE_CHECKING:
    from weft.network.collectives.routed import Chosen

SHARP = "sharp"
_INF = float("inf")
_SPREAD = 1_000_003  # keeps (flow key, source rank, destination rank) apart in one number


def check_sums(collective: str, topology: Topology, where: str = "") -> None:
    """Refuse sums in switches between servers where there are no such switches."""
    if collective == SHARP and not topology.sums:
        raise InputError(
            f'{where}collective is "{SHARP}", and a {topology.name} has no switch that sums for all servers; use ring, '
            "hierarchical, nvls or nccl"
        )


@dataclass(frozen=True, slots=True)
class PlacedStage:
    """A stage on given servers, not routed yet: messages between servers by place in the algorithm, and for each flow
    its bytes per byte of message, the speed that messages within a server leave for it, and its latency."""

    between: tuple[Pair, ...]
    servers: list[int]  # the server of each place
    ports: tuple[int, ...]
    share: float
    demand_bytes_per_s: float
    latency_s: float
    like: int  # an earlier stage that is the same, or -1
    wires: Wires | None = None  # where servers have several NICs, or NVLink joins them

    @property
    def stripes(self) -> int:
        """Flows that each of its messages is split into."""
        return 1 if self.wires is None else self.wires.stripes

    def ends(self, pair: Pair) -> Sequence[Ends]:
        """From which NIC to which each flow of one of its messages goes, and over which links before that."""
        if self.wires is not None:
            return self.wires.ends(pair)
        return (((), self.servers[pair[0]], self.servers[pair[1]]),)

    def paths(self, cluster: Cluster, pair: Pair, flow_key: int, chosen: Chosen | None = None) -> Sequence[Route]:
        """The links that each flow of one of its messages takes; of a flow that is split, those of its first part."""
        key, router = spread_key(flow_key, pair), cluster.topology.router
        if chosen is not None:
            return [hop + (chosen.of(a, b, key)[0][0] if a >= 0 else ()) for hop, a, b in self.ends(pair)]
        if self.wires is None:
            return (router(self.servers[pair[0]], self.servers[pair[1]], key),)
        return [hop + (router(a, b, key) if a >= 0 else ()) for hop, a, b in self.wires.ends(pair)]

    def loads(self, pair: Pair, flow_key: int, chosen: Chosen) -> Counter[int]:
        """How many parts of the flows of one of its messages each link carries."""
        key, found = spread_key(flow_key, pair), Counter[int]()
        for hop, a, b in self.ends(pair):
            for path, n in ((hop, chosen.finest), *(chosen.of(a, b, key) if a >= 0 else ())):
                for link in path:
                    found[link] += n
        return found


def spread_key(flow_key: int, pair: Pair) -> int:
    """What the hash of a flow between two places of a collective is made from."""
    return (flow_key * _SPREAD + pair[0]) * _SPREAD + pair[1]


def placed_stages(
    collective: str, placement: Sequence[int], cluster: Cluster, n_ps: int = 1, flow_key: int = 0
) -> list[PlacedStage]:
    """The stages of a collective on these GPUs."""
    spec, n = get_collective(collective), len(placement)
    servers: list[int] = cluster.server_of_gpu[list(placement)].tolist()
    nodes = tuple(cluster.node_of_server[servers].tolist()) if spec.placed else None
    if collective == SHARP and len(set(nodes or ())) > 1:
        check_sums(collective, cluster.topology)
    rounds = _unit_stages(collective, n, n_ps, nodes) if n > 1 else ()
    if not rounds:
        return []
    gpus = list(placement)
    if spec.rack_aware:
        if not cluster.plain:
            gpus.sort(key=lambda gpu: (cluster.rack_of_server[cluster.server_of_gpu[gpu]], cluster.server_of_gpu[gpu]))
        servers.sort(key=lambda server: (cluster.servers[server].rack, server))
    if collective == APART:
        servers += _standing_apart(servers, cluster, n_ps, flow_key)
    number = {server: i for i, server in enumerate(dict.fromkeys(servers))}
    shapes = _shapes(collective, n, n_ps, tuple([number[server] for server in servers]), nodes)
    if cluster.plain:
        return [_placed(stage, shape, servers, cluster) for stage, shape in zip(rounds, shapes, strict=True)]
    gpus += [-1] * (len(servers) - n)
    wires = Wires(cluster, servers, gpus, spec.striped, flow_key)
    return [_wired(stage, shape, wires) for stage, shape in zip(rounds, shapes, strict=True)]


def _standing_apart(workers: list[int], cluster: Cluster, n_ps: int, flow_key: int) -> list[int]:
    """Where the parameter servers of a job stand, given the servers of its workers."""
    taken = set(workers)
    free = [server.id for server in cluster.servers if server.id not in taken]
    hosts = []
    for j, rank in enumerate(host_ranks(len(workers), n_ps)):
        lot = ((flow_key + 1) * _SPREAD + j) * 0x9E3779B97F4A7C15 % 2**64 >> 32
        hosts.append(free.pop(lot % len(free)) if free else workers[rank])
    return hosts


@lru_cache(maxsize=512)
def _unit_stages(collective: str, n: int, n_ps: int, nodes: tuple[int, ...] | None = None) -> Stages:
    return stages(collective, n, 1.0, n_ps, nodes)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A stage once it is known which workers share a server, but not yet where the servers are."""

    between: tuple[Pair, ...]  # messages between servers
    inside: int  # most messages that one worker sends or receives at once within its server
    ports: tuple[int, ...]  # a rank on each server that the messages between servers use
    like: int  # an earlier stage that is the same, or -1


@lru_cache(maxsize=512)
def _shapes(
    collective: str, n: int, n_ps: int, together: tuple[int, ...], nodes: tuple[int, ...] | None
) -> tuple[_Shape, ...]:  # fmt: skip
    """The shape of each stage; `together` numbers the servers, rank by rank. Jobs of a trace have few of them."""
    rounds = _unit_stages(collective, n, n_ps, nodes)
    first = {stage: i for i, stage in reversed(list(enumerate(rounds)))}
    rank_on = {server: rank for rank, server in reversed(list(enumerate(together)))}
    found = []
    for i, stage in enumerate(rounds):
        between = [pair for pair in stage.pairs if together[pair[0]] != together[pair[1]]]
        within = [pair for pair in stage.pairs if together[pair[0]] == together[pair[1]]]
        busiest = max(max(Counter(ends).values()) for ends in zip(*within, strict=True)) if within else 0
        ports = tuple(rank_on[server] for server in {together[rank] for pair in between for rank in pair})
        found.append(_Shape(tuple(between), busiest, ports, first[stage] if first[stage] < i else -1))
    return tuple(found)


def _placed(stage: Stage, shape: _Shape, servers: list[int], cluster: Cluster) -> PlacedStage:
    demand, latency = _INF, 0.0
    if shape.inside:
        demand, latency = _slowest_inside(cluster, servers) / shape.inside, cluster.intra_latency_s
    if shape.between:
        latency = max(latency, cluster.latency_s)
    ports = tuple(sorted([servers[rank] for rank in shape.ports]))
    share = stage.bytes * stage.steps
    return PlacedStage(shape.between, servers, ports, share, demand, latency * stage.steps, shape.like)


def _slowest_inside(cluster: Cluster, servers: Sequence[int]) -> float:
    """Bytes per second of a GPU's port inside the slowest of these servers."""
    if cluster.alike_inside:
        return cluster.intra_server_bytes_per_s
    return min(cluster.intra_of_server[server] for server in set(servers))


def _wired(stage: Stage, shape: _Shape, wires: Wires) -> PlacedStage:
    """As `_placed`, with a choice of wires. Once a stage leaves a server, messages between GPUs of one server that is
    in an NVLink domain go over their NVLinks as others do."""
    cluster, servers, between = wires.cluster, wires.servers, list(shape.between)
    within = [pair for pair in stage.pairs if servers[pair[0]] == servers[pair[1]]]
    far = [pair for pair in between if not wires.over_nvlink(pair)]
    inside = wires.inside(within, far) if between else shape.inside
    demand, latency = _INF, 0.0
    if inside:
        demand = _slowest_inside(cluster, servers) / inside / wires.stripes
        latency = cluster.intra_latency_s
    if len(far) < len(between):
        latency = max(latency, cluster.nvlink_latency_s)
    if far:
        latency = max(latency, cluster.latency_s)
    if between:
        between += [pair for pair in within if wires.over_nvlink(pair)]
    ports = tuple(sorted({servers[rank] for pair in far for rank in pair}))
    share = stage.bytes * stage.steps / wires.stripes
    return PlacedStage(
        tuple(between), list(servers), ports, share, demand, latency * stage.steps, shape.like, wires
    )  # fmt: skip
