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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, cast

from weft.errors import InputError
from weft.model.cluster import Cluster, Route
from weft.model.flows import FlowGroup
from weft.model.profile import APART
from weft.network.collectives.algorithms import NCCL, host_ranks
from weft.network.collectives.on_servers import PlacedStage, placed_stages
from weft.network.collectives.placed import candidates
from weft.network.collectives.stages import Pair

if TYPE_CHECKING:
    from weft.network.collectives.routed import Chosen

_INF = float("inf")
_ROUTES = 4096  # of a cluster, that are known


@dataclass(frozen=True, slots=True)
class Leg:
    """A FlowGroup per byte of message: `share` bytes of each flow for every byte of the collective's message. Links
    count flows in parts, `finest` to a flow."""

    share: float
    links: tuple[tuple[int, int], ...]
    ports: tuple[int, ...]
    demand_bytes_per_s: float
    latency_s: float
    stripes: int = 1  # flows that a message is split into
    finest: int = 1


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
            cap = nic_bytes_per_s * leg.finest / through if through else _INF
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
    collective: str,
    placement: Sequence[int],
    cluster: Cluster,
    *,
    n_ps: int = 1,
    flow_key: int = 0,
    chosen: Chosen | None = None,
) -> RoutedCollective:
    """The part of lowering that does not depend on the size of the message. With `chosen` a route policy says which
    paths flows take, and the groups of a job do not depend on what it says.

    Where a server has one NIC it does not matter which of its GPUs take part, and on one server alone not even which
    server it is; then it is known from the last time."""
    if chosen is not None or not cluster.plain:
        return _routed(collective, placement, cluster, n_ps, flow_key, chosen)
    servers = cluster.ends(placement)
    key: object = (collective, servers, n_ps, flow_key)
    if cluster.alike_inside and collective != APART and servers.count(servers[0]) == len(servers):
        key = (collective, len(servers), n_ps)
    routes = cluster.known["routes"]
    if (found := routes.get(key)) is None:
        if len(routes) >= _ROUTES:
            routes.clear()
        found = routes[key] = _routed(collective, placement, cluster, n_ps, flow_key, None)
    return cast("RoutedCollective", found)


def _routed(
    collective: str, placement: Sequence[int], cluster: Cluster, n_ps: int, flow_key: int, chosen: Chosen | None
) -> RoutedCollective:
    if collective == NCCL:
        nodes = cluster.node_of_server[cluster.server_of_gpu[list(placement)]].tolist()
        names = candidates(cluster.gpu, tuple(nodes))
        plain = [route_collective(name, placement, cluster, flow_key=flow_key) for name in names]
        timed = tuple(_timed(one, cluster) for one in plain)
        if chosen is not None:
            routed = [route_collective(name, placement, cluster, flow_key=flow_key, chosen=chosen) for name in names]
            timed = tuple(replace(was, legs=now.legs) for was, now in zip(timed, routed, strict=True))
        return RoutedCollective((), choices=timed)
    known: list[Leg] = []  # the leg of each stage
    legs: list[Leg] = []
    pairs: tuple[Pair, ...] = ()  # of the last stage
    for stage in placed_stages(collective, placement, cluster, n_ps, flow_key):
        leg = _leg(stage, cluster, flow_key, chosen) if stage.like < 0 else known[stage.like]
        known.append(leg)
        last = legs[-1] if legs and (chosen is None or pairs == stage.between) else None
        pairs = stage.between
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
        links = min((float(capacity[link]) * leg.finest / n for link, n in leg.links), default=_INF)
        s_per_byte += leg.share / min(leg.demand_bytes_per_s, links)
    return replace(route, latency_s=sum(leg.latency_s for leg in route.legs), s_per_byte=s_per_byte)


def standing_for(placement: Sequence[int], cluster: Cluster, flow_key: int, message_bytes: float) -> str:
    """The collective that NCCL chooses for a message of this size."""
    nodes = cluster.node_of_server[cluster.server_of_gpu[list(placement)]].tolist()
    names = candidates(cluster.gpu, tuple(nodes))
    timed = route_collective(NCCL, placement, cluster, flow_key=flow_key).choices
    seconds = [one.latency_s + one.s_per_byte * message_bytes for one in timed]
    return names[seconds.index(min(seconds))]


def _leg(stage: PlacedStage, cluster: Cluster, flow_key: int, chosen: Chosen | None) -> Leg:
    """One stage on the wire."""
    if chosen is not None:
        total: Counter[int] = Counter()
        for pair in stage.between:
            total.update(stage.loads(pair, flow_key, chosen))
        links, rest = tuple(sorted(total.items())), (stage.demand_bytes_per_s, stage.latency_s, stage.stripes)
        return Leg(stage.share, links, stage.ports, *rest, chosen.finest)
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
    collective: str,
    placement: Sequence[int],
    cluster: Cluster,
    *,
    n_ps: int = 1,
    flow_key: int = 0,
    chosen: Chosen | None = None,
) -> tuple[OpenFlow, ...]:
    """The flows of a collective on these GPUs, each on one path; none if nothing leaves a server."""
    if collective == NCCL and len(cluster.counts(placement)) > 1:
        raise InputError(
            "network.collective: nccl chooses by the size of a message, and here its flows are simulated one by one; "
            "name ring, double-tree, hierarchical or nvls"
        )
    rounds = placed_stages(collective, placement, cluster, n_ps, flow_key)
    if not any(stage.between for stage in rounds):
        return ()
    if collective in ("ring", "one-ring"):
        return _open_ring(rounds[0], len(placement), cluster, flow_key, chosen)
    if collective in ("parameter-server", APART):
        n = len(placement)
        hosts = host_ranks(n, n_ps) if collective != APART else range(n, n + n_ps)
        return _open_servers(rounds[0], rounds[-1], n, cluster, hosts, flow_key, chosen)
    flows: list[OpenFlow] = []
    last = _NOBODY
    for stage in rounds:
        paths = [path for pair in stage.between for path in stage.paths(cluster, pair, flow_key, chosen)]
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


def _open_ring(
    stage: PlacedStage, n: int, cluster: Cluster, flow_key: int, chosen: Chosen | None
) -> tuple[OpenFlow, ...]:
    """Messages between neighbours in the ring that stand on two servers, in the order of the ring; a ring for each
    NIC."""
    pairs = sorted(stage.between)
    paths = [stage.paths(cluster, pair, flow_key, chosen) for pair in pairs]
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
    push: PlacedStage, pull: PlacedStage, n: int, cluster: Cluster, hosts: Sequence[int], flow_key: int,
    chosen: Chosen | None,
) -> tuple[OpenFlow, ...]:  # fmt: skip
    flows: list[OpenFlow] = []
    for host in hosts:
        far = [r for r in range(n) if push.servers[r] != push.servers[host]]
        pushes = (len(flows), len(flows) + len(far))
        flows += [_flow(push, push.paths(cluster, (r, host), flow_key, chosen)[0]) for r in far]
        flows += [_flow(pull, pull.paths(cluster, (host, r), flow_key, chosen)[0], feed=pushes) for r in far]
    return tuple(flows)
