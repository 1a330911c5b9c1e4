"""One iteration of a job on given GPUs, alone: what each link of the cluster carries, and when.

Transfers of the job itself share links max-min fairly, as everywhere in weft. (workload/alone.py is the same with a
NIC per worker and no links, for pictures of models.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from weft.collectives import route_collective
from weft.collectives.lowering import RoutedCollective
from weft.model.cluster import Cluster
from weft.model.flows import FlowGroup
from weft.model.plan import Placement
from weft.model.profile import Compute, Profile, Transfer
from weft.model.traffic import Arcs, Traffic

__all__ = ["iteration_s", "link_traffic"]

_INF = float("inf")
_REST = 1e-12  # of a group's bytes: less than this is nothing


@dataclass(slots=True)
class _Flight:
    """A transfer under way: its groups still to go, what is left of the first, and when its first byte goes."""

    groups: list[FlowGroup]
    left: float
    begins_s: float


def link_traffic(
    profile: Profile, gpus: Placement, cluster: Cluster, collective: str = "ring", flow_key: int = 0
) -> Traffic:
    """The traffic of one iteration; `flow_key` is the job's, for equal-cost paths."""
    groups = _groups(profile, gpus, cluster, collective, flow_key)
    kinds, alike, capacity = _alike(groups, cluster)
    task, offset, end, arcs = _alone(profile, alike, capacity)
    return Traffic(end, task, offset, 0.0, {link: arcs[kind] for link, kind in kinds.items() if kind in arcs})


def iteration_s(
    profile: Profile,
    gpus: Placement,
    cluster: Cluster,
    collective: str = "ring",
    flow_key: int = 0,
    compute_factor: float = 1.0,
) -> float:
    """Time of one iteration in which computing takes `compute_factor` times as long."""
    _, alike, capacity = _alike(_groups(profile, gpus, cluster, collective, flow_key), cluster)
    return _time(profile, alike, capacity, compute_factor)


_Groups = tuple[tuple[int, tuple[FlowGroup, ...]], ...]  # (transfer, its groups)


def _alike(
    groups: Mapping[int, tuple[FlowGroup, ...]], cluster: Cluster
) -> tuple[dict[int, int], _Groups, tuple[float, ...]]:
    """Links of one capacity that carry the same flows are one kind: (kind of each link, groups on kinds, capacities).

    What an iteration looks like depends on kinds alone, and most placements have the same few.
    """
    uses: dict[int, list[tuple[int, int, int]]] = {}
    for i, chain in groups.items():
        for k, group in enumerate(chain):
            for link, n in group.links:
                uses.setdefault(link, []).append((i, k, n))
    capacity = cluster.topology.capacity
    number: dict[tuple[float, tuple[tuple[int, int, int], ...]], int] = {}
    kinds = {}
    for link, mine in uses.items():
        kinds[link] = number.setdefault((float(capacity[link]), tuple(mine)), len(number))
    alike: _Groups = tuple((i, tuple(_on_kinds(group, kinds) for group in chain)) for i, chain in groups.items())
    return kinds, alike, tuple(room for room, _ in number)


def _on_kinds(group: FlowGroup, kinds: Mapping[int, int]) -> FlowGroup:
    links = tuple({kinds[link]: n for link, n in group.links}.items())
    return FlowGroup(group.bytes, links, (), group.demand_bytes_per_s, group.latency_s)


@lru_cache(maxsize=4096)
def _alone(
    profile: Profile, groups: _Groups, capacity: tuple[float, ...]
) -> tuple[int | None, float, float, dict[int, Arcs]]:
    """(first transfer over a link, when it begins, end of the iteration, arcs from there on each kind of link)."""
    arcs: dict[int, list[list[float]]] = {}
    starts, end = _play(profile, dict(groups), capacity, 1.0, arcs)
    sending = [i for i, begin in starts.items() if begin is not None]
    if not arcs or not sending:
        return None, 0.0, end, {}
    task = min(sending, key=lambda i: (starts[i], i))
    offset = starts[task] or 0.0
    return task, offset, end, {
        kind: tuple((a - offset, b - a, rate) for a, b, rate in pieces) for kind, pieces in arcs.items()
    }  # fmt: skip


@lru_cache(maxsize=4096)
def _time(profile: Profile, groups: _Groups, capacity: tuple[float, ...], factor: float) -> float:
    return _play(profile, dict(groups), capacity, factor, None)[1]


def _groups(
    profile: Profile, gpus: Placement, cluster: Cluster, collective: str, flow_key: int
) -> dict[int, tuple[FlowGroup, ...]]:
    routes: dict[object, RoutedCollective] = {}
    found = {}
    for i, task in enumerate(profile.tasks):
        if isinstance(task, Transfer):
            name = task.collective or collective
            key = (name, task.workers, task.servers)
            if key not in routes:
                where = [gpus[r] for r in profile.ranks(task)]
                routes[key] = route_collective(name, where, cluster, n_ps=task.servers, flow_key=flow_key)
            found[i] = routes[key].groups(task.bytes, task.demand_bytes_per_s)
    return found


def _play(
    profile: Profile,
    groups: Mapping[int, tuple[FlowGroup, ...]],
    capacity: Sequence[float],
    factor: float,
    arcs: dict[int, list[list[float]]] | None,
) -> tuple[dict[int, float | None], float]:
    """Run the graph once: when each transfer that uses links begins, and when all is done; fills `arcs`."""
    tasks = profile.tasks
    waits = [len(task.after) for task in tasks]
    followers: list[list[int]] = [[] for _ in tasks]
    for i, task in enumerate(tasks):
        for p in task.after:
            followers[p].append(i)
    starts: dict[int, float | None] = {}
    computing: dict[int, float] = {}
    flying: dict[int, _Flight] = {}
    ready = [i for i, n in enumerate(waits) if n == 0]
    now = 0.0
    while ready or computing or flying:
        done: list[int] = []
        for i in ready:
            task = tasks[i]
            if isinstance(task, Compute):
                computing[i] = now + task.seconds * factor
            elif chain := groups[i]:
                flying[i] = _Flight(list(chain), chain[0].bytes, now + chain[0].latency_s)
                starts[i] = now if any(group.links for group in chain) else None
            else:
                done.append(i)
        ready = []
        if not done:
            now = _step(now, computing, flying, capacity, arcs, done)
        for i in done:
            computing.pop(i, None)
            flying.pop(i, None)
            for j in followers[i]:
                waits[j] -= 1
                if waits[j] == 0:
                    ready.append(j)
    return starts, now


def _step(
    now: float,
    computing: Mapping[int, float],
    flying: Mapping[int, _Flight],
    capacity: Sequence[float],
    arcs: dict[int, list[list[float]]] | None,
    done: list[int],
) -> float:
    """Go on to the next change; tasks that end then are added to `done`."""
    moving = {i: f for i, f in flying.items() if f.begins_s <= now}
    rates = _rates(moving, capacity)
    then = min(computing.values(), default=_INF)
    for i, flight in flying.items():
        then = min(then, now + flight.left / rates[i] if i in moving else flight.begins_s)
    for i, flight in moving.items():
        group = flight.groups[0]
        if arcs is not None and then > now:
            for link, n in group.links:
                _add(arcs.setdefault(link, []), now, then, rates[i] * n)
        flight.left -= rates[i] * (then - now) if rates[i] < _INF else flight.left
        if flight.left <= _REST * group.bytes:
            flight.groups.pop(0)
            if flight.groups:
                flight.left, flight.begins_s = flight.groups[0].bytes, then + flight.groups[0].latency_s
            else:
                done.append(i)
    done += [i for i, end in computing.items() if end <= then]
    return then


def _add(pieces: list[list[float]], start: float, end: float, rate: float) -> None:
    last = pieces[-1] if pieces else None
    if last and last[1] == start and abs(last[2] - rate) <= 1e-9 * rate:
        last[1] = end
    else:
        pieces.append([start, end, rate])


def _rates(moving: Mapping[int, _Flight], capacity: Sequence[float]) -> dict[int, float]:
    """Max-min rates of each flow of the groups under way."""
    if len(moving) == 1:
        ((i, flight),) = moving.items()
        group = flight.groups[0]
        rate = min((capacity[link] / n for link, n in group.links), default=_INF)
        return {i: min(rate, group.demand_bytes_per_s)}
    rates: dict[int, float] = {}
    open_ = {i: flight.groups[0] for i, flight in moving.items()}
    free = {link: capacity[link] for group in open_.values() for link, _ in group.links}
    while open_:
        load: dict[int, int] = {}
        for group in open_.values():
            for link, n in group.links:
                load[link] = load.get(link, 0) + n
        tightest = min(load, key=lambda link: free[link] / load[link], default=-1)
        level = free[tightest] / load[tightest] if load else _INF
        capped = [i for i, group in open_.items() if group.demand_bytes_per_s <= level]
        if capped:
            level = min(open_[i].demand_bytes_per_s for i in capped)
            frozen: Sequence[int] = [i for i in capped if open_[i].demand_bytes_per_s == level]
        else:
            frozen = [i for i, group in open_.items() if not load or any(link == tightest for link, _ in group.links)]
        for i in frozen:
            rates[i] = level
            for link, n in open_.pop(i).links:
                free[link] = max(0.0, free[link] - level * n)
    return rates
