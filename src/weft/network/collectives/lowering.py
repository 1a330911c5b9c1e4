"""Lowering: a collective on a placement becomes flows on the links of the cluster, in one of two forms.

`route_collective` makes a chain of lock-step flow groups, one per stage. Neighbouring groups that load the wire in the
same way are merged (a ring is one group of 2(N-1)/N M per edge, with the latency of 2(N-1) messages). Every message of
a stage is one flow with a hash of its own, so equal-cost paths are chosen per pair of workers and stay the same for
every transfer of the job.

`open_collective` makes single flows between servers, with what each of them waits for. A ring is one flow from each
server to the next, 2(N-1)/N of the message each. Before anything has come in, a server can send the first chunks (1/N
of the message each) of all of its workers; after that it is never ahead of the flow that comes in. A parameter server
gets a push from every worker on another server, and its broadcasts are never ahead of the least advanced push. Any
other collective goes stage by stage, with one flow for each pair of workers.

Parameter servers that stand apart need no GPU. Each is drawn, by the job's key, from the servers that have no worker of
the job and none of its other parameter servers; where no such server is left they stand beside workers.

Messages between GPUs of one server load no link: a server's inner fabric is not a shared resource here, not even
between jobs on the same server. They cap the flows of their stage instead, at the speed of a GPU's port divided by the
number of messages that it sends or receives at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

from weft.errors import InputError
from weft.model.cluster import Cluster, Route, Topology
from weft.model.flows import FlowGroup
from weft.model.profile import APART
from weft.network.collectives.algorithms import NCCL, get_collective, host_ranks, stages
from weft.network.collectives.placed import candidates
from weft.network.collectives.stages import Pair, Stage, Stages
from weft.network.collectives.wiring import Wires

SHARP = "sharp"
_INF = float("inf")
_SPREAD = 1_000_003  # keeps (flow key, source rank, destination rank) apart in one number


@dataclass(frozen=True, slots=True)
class Leg:
    """A FlowGroup per byte of message: `share` bytes of each flow for every byte of the collective's message."""

    share: float
    links: tuple[tuple[int, int], ...]
    ports: tuple[int, ...]
    demand_bytes_per_s: float
    latency_s: float
    stripes: int = 1  # flows that a message is split into


@dataclass(frozen=True, slots=True)
class RoutedCollective:
    """A collective on a placement, ready for messages of any size: keep it where a job sends many."""

    legs: tuple[Leg, ...]
    latency_s: float = 0.0  # of one that NCCL may choose
    s_per_byte: float = 0.0
    choices: tuple[RoutedCollective, ...] = ()  # in place of legs: the fastest for the size of the message

    def within(self, cluster: Cluster, nic_bytes_per_s: float | None) -> RoutedCollective:
        """The same with flows so slow that those through one NIC together send at most this."""
        if nic_bytes_per_s is None:
            return self
        links = cluster.topology.links
        capped = []
        for leg in self.legs:
            through = max((n for link, n in leg.links if links[link].tier == "nic"), default=0)
            cap = nic_bytes_per_s / through if through else _INF
            capped.append(replace(leg, demand_bytes_per_s=min(leg.demand_bytes_per_s, cap)))
        return RoutedCollective(tuple(capped))

    def groups(self, message_bytes: float, demand_bytes_per_s: float | None = None) -> tuple[FlowGroup, ...]:
        """The chain for one message, its messages capped by `demand_bytes_per_s` too.

        Empty for an empty message. A group that would take no time at all is left out (inside one server whose fabric
        is unlimited, without latency).
        """
        if not 0 <= message_bytes < _INF:
            raise InputError(f"transfer: its message has {message_bytes} bytes; give a finite size of at least 0")
        cap = _INF if demand_bytes_per_s is None else demand_bytes_per_s
        if not cap > 0:
            raise InputError(f"transfer: its demand is {cap} bytes/s; give more than 0, or none")
        if message_bytes == 0:
            return ()
        if self.choices:
            best = min(self.choices, key=lambda one: one.latency_s + one.s_per_byte * message_bytes)
            return best.groups(message_bytes, demand_bytes_per_s)
        found = []
        for leg in self.legs:
            demand = min(cap / leg.stripes, leg.demand_bytes_per_s)
            if leg.links or leg.latency_s > 0 or demand < _INF:
                found.append(FlowGroup(leg.share * message_bytes, leg.links, leg.ports, demand, leg.latency_s))
        return tuple(found)


def route_collective(
    collective: str, placement: Sequence[int], cluster: Cluster, *, n_ps: int = 1, flow_key: int = 0
) -> RoutedCollective:
    """The part of lowering that does not depend on the size of the message."""
    if collective == NCCL:
        nodes = cluster.node_of_server[cluster.server_of_gpu[list(placement)]].tolist()
        names = candidates(cluster.gpu, tuple(nodes))
        routed = [route_collective(name, placement, cluster, flow_key=flow_key) for name in names]
        return RoutedCollective((), choices=tuple(_timed(one, cluster) for one in routed))
    known: list[Leg] = []  # the leg of each stage
    legs: list[Leg] = []
    for stage in placed_stages(collective, placement, cluster, n_ps, flow_key):
        leg = _leg(stage, cluster, flow_key) if stage.like < 0 else known[stage.like]
        known.append(leg)
        last = legs[-1] if legs else None
        if last and (last.links, last.ports, last.demand_bytes_per_s) == (leg.links, leg.ports, leg.demand_bytes_per_s):
            share, latency = last.share + leg.share, last.latency_s + leg.latency_s
            legs[-1] = replace(leg, share=share, latency_s=latency)
        else:
            legs.append(leg)
    return RoutedCollective(tuple(legs))


def _timed(route: RoutedCollective, cluster: Cluster) -> RoutedCollective:
    """The same with how long it takes alone, as NCCL's model has it: a latency, and seconds for each byte."""
    capacity, s_per_byte = cluster.topology.capacity, 0.0
    for leg in route.legs:
        links = min((float(capacity[link]) / n for link, n in leg.links), default=_INF)
        s_per_byte += leg.share / min(leg.demand_bytes_per_s, links)
    return replace(route, latency_s=sum(leg.latency_s for leg in route.legs), s_per_byte=s_per_byte)


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

    def paths(self, cluster: Cluster, pair: Pair, flow_key: int) -> Sequence[Route]:
        """The links that each flow of one of its messages takes."""
        src, dst = pair
        key = (flow_key * _SPREAD + src) * _SPREAD + dst
        if self.wires is not None:
            return self.wires.paths(pair, key)
        return (cluster.topology.router(self.servers[src], self.servers[dst], key),)


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


def _leg(stage: PlacedStage, cluster: Cluster, flow_key: int) -> Leg:
    """One stage on the wire."""
    paths = chain.from_iterable(stage.paths(cluster, pair, flow_key) for pair in stage.between)
    links = tuple(sorted(Counter(chain.from_iterable(paths)).items()))
    return Leg(stage.share, links, stage.ports, stage.demand_bytes_per_s, stage.latency_s, stage.stripes)


_NOBODY = (0, 0)


@dataclass(frozen=True, slots=True)
class OpenFlow:
    """One flow, per byte of message. `feed` are the flows that it may not be ahead of, but for its first `chunk`;
    `after` those that must have ended before it starts (both as ranges of the list it stands in)."""

    path: tuple[int, ...]
    share: float
    demand_bytes_per_s: float
    latency_s: float
    chunk: float = 0.0
    feed: tuple[int, int] = _NOBODY
    after: tuple[int, int] = _NOBODY


def open_collective(
    collective: str, placement: Sequence[int], cluster: Cluster, *, n_ps: int = 1, flow_key: int = 0
) -> tuple[OpenFlow, ...]:
    """The flows of a collective on these GPUs; none if nothing leaves a server."""
    if collective == NCCL and len(cluster.counts(placement)) > 1:
        raise InputError(
            "network.collective: nccl chooses by the size of a message, and here its flows are simulated one by one; "
            "name ring, double-tree, hierarchical or nvls"
        )
    rounds = placed_stages(collective, placement, cluster, n_ps, flow_key)
    if not any(stage.between for stage in rounds):
        return ()
    if collective == "ring":
        return _open_ring(rounds[0], len(placement), cluster, flow_key)
    if collective in ("parameter-server", APART):
        n = len(placement)
        hosts = host_ranks(n, n_ps) if collective != APART else range(n, n + n_ps)
        return _open_servers(rounds[0], rounds[-1], n, cluster, hosts, flow_key)
    flows: list[OpenFlow] = []
    last = _NOBODY
    for stage in rounds:
        paths = [path for pair in stage.between for path in stage.paths(cluster, pair, flow_key)]
        if not paths and stage.latency_s <= 0.0 and stage.demand_bytes_per_s == float("inf"):
            continue
        flows += [_flow(stage, path, after=last) for path in paths or [()]]
        last = (last[1], len(flows))
    return tuple(flows)


def _flow(
    stage: PlacedStage, path: Route, *, share: float | None = None, chunk: float = 0.0,
    feed: tuple[int, int] = _NOBODY, after: tuple[int, int] = _NOBODY,
) -> OpenFlow:  # fmt: skip
    part = stage.share if share is None else share
    return OpenFlow(path, part, stage.demand_bytes_per_s, stage.latency_s, chunk, feed, after)


def _open_ring(stage: PlacedStage, n: int, cluster: Cluster, flow_key: int) -> tuple[OpenFlow, ...]:
    """Messages between neighbours in the ring that stand on two servers, in the order of the ring; a ring for each
    NIC."""
    pairs = sorted(stage.between)
    paths = [stage.paths(cluster, pair, flow_key) for pair in pairs]
    share, flows = 2.0 * (n - 1) / n, []
    for stripe in range(stage.stripes):
        first = stripe * len(pairs)
        for i, (a, _) in enumerate(pairs):
            before = (i - 1) % len(pairs)
            workers = (a - pairs[before][0]) % n  # on the server that it leaves
            feed, part = (first + before, first + before + 1), 1.0 / stage.stripes
            flows.append(_flow(stage, paths[i][stripe], share=share * part, chunk=workers / n * part, feed=feed))
    return tuple(flows)


def _open_servers(
    push: PlacedStage, pull: PlacedStage, n: int, cluster: Cluster, hosts: Sequence[int], flow_key: int
) -> tuple[OpenFlow, ...]:
    flows: list[OpenFlow] = []
    for host in hosts:
        far = [r for r in range(n) if push.servers[r] != push.servers[host]]
        pushes = (len(flows), len(flows) + len(far))
        flows += [_flow(push, push.paths(cluster, (r, host), flow_key)[0]) for r in far]
        flows += [_flow(pull, pull.paths(cluster, (host, r), flow_key)[0], feed=pushes) for r in far]
    return tuple(flows)
