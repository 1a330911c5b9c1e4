"""One iteration of a job that has the network to itself: when each task runs, and what each link carries meanwhile.

This is the only place that answers "how long does an iteration take alone?": policies, the simulated and the live
worlds, workload generators, cost models and pictures of models all ask it. It does the same operations in the same
order as the engine, so that the simulation of a single job agrees with it to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from weft.model.cluster import Cluster
from weft.model.flows import FlowGroup
from weft.model.plan import Placement
from weft.model.profile import Compute, Profile, Transfer
from weft.model.units import rate_unit
from weft.network.collectives import Chosen, route_collective
from weft.network.collectives.kinds import alike
from weft.network.collectives.lowering import RoutedCollective

_INF = math.inf
_Open = Mapping[int, FlowGroup]
Chains = tuple[tuple[int, tuple[FlowGroup, ...]], ...]  # (transfer, the flow groups that it sends one after another)


@dataclass(frozen=True, slots=True)
class Sharing:
    """How transfers that overlap share the network: `max-min`, `ideal` or `k-way` (with the constants of Eq. 5)."""

    kind: str = "max-min"
    a_s: float = 0.0
    b_s_per_byte: float = 0.0
    eta_s_per_byte: float = 0.0


MAX_MIN = Sharing()


class Piece(NamedTuple):
    """A time in which a link carries one rate."""

    start_s: float
    end_s: float
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Iteration:
    """What happened: when each task started and ended (in the profile's order), and what each link carried."""

    start_s: tuple[float, ...]
    end_s: tuple[float, ...]
    links: Mapping[int, tuple[Piece, ...]]
    first: int | None = None  # the first transfer that goes over a link

    @property
    def seconds(self) -> float:
        """Length of the iteration."""
        return max(self.end_s)


@dataclass(slots=True)
class _Flight:
    """A transfer under way: the groups that it has yet to send, and how the first of them is getting on."""

    groups: list[FlowGroup]
    remaining: float = 0.0
    mark: float = 0.0  # when `remaining` was counted
    rate: float = 0.0  # 0: not sending yet, or no rate found yet
    event: float = _INF  # when its first byte goes, or when it ends
    sending: bool = False


def play_on(
    cluster: Cluster,
    profile: Profile,
    gpus: Placement,
    collective: str = "ring",
    flow_key: int = 0,
    sharing: Sharing = MAX_MIN,
    compute_factor: float = 1.0,
    chosen: Chosen | None = None,
) -> Iteration:
    """One iteration on these GPUs.

    `collective` is used for transfers that do not name one, `flow_key` (one per job) spreads flows over equal-cost
    paths, and computing takes `compute_factor` times as long as the profile says.
    `chosen` are the paths of a route policy.
    """
    routes = _routes_of(cluster, profile, gpus, collective, flow_key, chosen)
    if sharing.kind == "k-way":
        chains = _on_ports(profile, _chains(profile, collective, routes), sharing)
        played = _kept(profile, chains, sharing, compute_factor)
        return replace(played, links={})  # k-way sharing counts transfers on servers and knows no links
    kinds, on_kinds, capacity = alike(routes, cluster)
    rooms = (*capacity, cluster.topology.fastest)
    if chosen is not None and chosen.finest > 1:  # links count in parts of flows
        rooms = tuple(room * chosen.finest for room in rooms)
    played = _kept_on_kinds(profile, collective, on_kinds, rooms, sharing, compute_factor)
    links = {k: played.links[kind] for k, kind in kinds.items() if kind in played.links}
    if chosen is not None and chosen.finest > 1:
        links = {k: tuple(Piece(a, b, rate / chosen.finest) for a, b, rate in links[k]) for k in links}
    return Iteration(played.start_s, played.end_s, links, played.first)


class _Ways:
    """Numbers for transfers: those that have the same one take the same routes."""

    def __init__(self, collective: str) -> None:
        self.collective, self.number = collective, dict[object, int]()
        self.lists = dict[object, int]()  # a number for each list of workers
        self.known = dict[int, int]()  # the same by its identity, as long lists take long to compare

    def of(self, task: Transfer) -> int:
        """The number of a transfer."""
        if (workers := self.known.get(id(task.workers))) is None:
            workers = self.known[id(task.workers)] = self.lists.setdefault(task.workers, len(self.lists))
        way = (task.collective or self.collective, workers, task.servers)
        return self.number.setdefault(way, len(self.number))


def _routes_of(
    cluster: Cluster, profile: Profile, gpus: Placement, collective: str, flow_key: int, chosen: Chosen | None
) -> tuple[RoutedCollective, ...]:
    """The routes of the profile's transfers on these GPUs, in the order in which they first occur in it."""
    routes, ways = list[RoutedCollective](), _Ways(collective)
    for task in profile.tasks:
        if isinstance(task, Transfer) and ways.of(task) == len(routes):
            name, where = task.collective or collective, [gpus[r] for r in profile.ranks(task)]
            route = route_collective(name, where, cluster, n_ps=task.servers, flow_key=flow_key, chosen=chosen)
            routes.append(route.within(cluster, profile.nic_bytes_per_s))
    return tuple(routes)


def _chains(profile: Profile, collective: str, routes: Sequence[RoutedCollective]) -> Chains:
    """The flow groups of each transfer on its routes."""
    ways, sent = _Ways(collective), [(i, task) for i, task in enumerate(profile.tasks) if isinstance(task, Transfer)]
    return tuple([(i, routes[ways.of(task)].groups(task.bytes, task.demand_bytes_per_s)) for i, task in sent])


def _on_ports(profile: Profile, chains: Chains, sharing: Sharing) -> Chains:
    """Under k-way sharing a transfer between servers is one message, and its links are the servers that it uses."""
    found = []
    for i, chain in chains:
        ports = sorted({port for group in chain for port in group.ports})
        task = profile.tasks[i]
        if ports and isinstance(task, Transfer):
            demand = _INF if task.demand_bytes_per_s is None else task.demand_bytes_per_s
            number = tuple((k, 1) for k in ports)
            chain = (FlowGroup(task.bytes, number, (), demand, sharing.a_s),)
        found.append((i, chain))
    return tuple(found)


@lru_cache(maxsize=4096)
def _kept(profile: Profile, chains: Chains, sharing: Sharing, factor: float) -> Iteration:
    """`play` without links; results are remembered."""
    return play(profile, chains, (), sharing, factor)


@lru_cache(maxsize=4096)
def _kept_on_kinds(
    profile: Profile,
    collective: str,
    routes: tuple[RoutedCollective, ...],
    capacity: tuple[float, ...],
    sharing: Sharing,
    factor: float,
) -> Iteration:
    """`play` on kinds of links; results are remembered. The last of the capacities is that of the cluster's fastest
    link."""
    chains = _chains(profile, collective, routes)
    return play(profile, chains, capacity[:-1], sharing, factor, rate_unit(capacity[-1]))


def play(
    profile: Profile,
    chains: Chains,
    capacity: Sequence[float] = (),
    sharing: Sharing = MAX_MIN,
    factor: float = 1.0,
    unit: float = 1.0,
    in_turn: Sequence[int] = (),
) -> Iteration:
    """Run the graph of tasks once, with `chains` as its transfers over links of `capacity`.

    Max-min rates are whole multiples of `unit`. Each task in `in_turn` also waits for the one listed before it.
    """
    rates = _Rates(sharing, [_whole(c, unit) for c in capacity], unit, profile.link_weight)
    stage = _Stage(profile, dict(chains), rates, factor, in_turn)
    while stage.computing or stage.flying:
        stage.advance()
    links = {link: tuple(Piece(*piece) for piece in pieces) for link, pieces in stage.carried.items()}
    sent = (i for i, chain in chains if any(g.links for g in chain))
    first = min(sent, key=lambda i: (stage.start[i], i), default=None)
    return Iteration(tuple(stage.start), tuple(stage.end), links, first)


def _whole(rate: float, unit: float) -> float:
    return float(int(rate / unit)) if rate < _INF else _INF


def _share(units: float, flows: int) -> float:
    return units // flows if units < _INF else _INF


@dataclass
class _Rates:
    """Rates of the transfers under way. Floats hold the whole units exactly: there are at most 2^50 on a link."""

    sharing: Sharing
    units: Sequence[float]  # capacity of each link, in whole units
    unit: float
    weight: int = 1  # of each flow: all of a job have the same, which only changes how rates are rounded

    def of(self, flying: Mapping[int, _Flight]) -> dict[int, float]:
        """Bytes per second of each flow of the transfers that send."""
        sending = {i: flight.groups[0] for i, flight in flying.items() if flight.sending}
        if self.sharing.kind == "k-way":
            return {i: self._k_way(group, flying) for i, group in sending.items()}
        if self.sharing.kind == "ideal" or (len(sending) == 1 and self.weight == 1):
            return {i: self._alone(group) for i, group in sending.items()}
        return {i: units * self.unit for i, units in self._max_min(sending).items()}

    def _alone(self, group: FlowGroup) -> float:
        links = min((_share(self.units[link], n) for link, n in group.links), default=_INF)
        return min(_whole(group.demand_bytes_per_s, self.unit), links) * self.unit

    def _k_way(self, group: FlowGroup, flying: Mapping[int, _Flight]) -> float:
        """Rate by the busiest of its servers; transfers whose first byte has not been sent yet count too."""
        if not group.links:
            return group.demand_bytes_per_s
        there = [dict(flight.groups[0].links) for flight in flying.values()]
        k, how = max(sum(port in ports for ports in there) for port, _ in group.links), self.sharing
        return min(1.0 / (k * how.b_s_per_byte + (k - 1) * how.eta_s_per_byte), group.demand_bytes_per_s)

    def _max_min(self, sending: _Open) -> dict[int, float]:
        """Raise all rates together; a rate stops at a full link or at its demand. Shares are rounded down."""
        found, open_, weight = dict[int, float](), dict(sending), self.weight
        free = {link: self.units[link] for group in open_.values() for link, _ in group.links}
        while open_:
            load: dict[int, int] = {}
            for group in open_.values():
                for link, n in group.links:
                    load[link] = load.get(link, 0) + n * weight
            demands = {i: _whole(group.demand_bytes_per_s, self.unit) for i, group in open_.items()}
            tight = load if weight == 1 else self._tight(open_, demands, free)
            level, full = min(((_share(free[link], load[link]), link) for link in tight), default=(_INF, -1))
            shares = {i: _share(demand, weight) for i, demand in demands.items()}
            if (least := min(shares.values())) < level:
                fixed = {i: demands[i] for i, share in shares.items() if share == least}
            else:
                fixed = {i: level * weight for i, g in open_.items() if level == _INF or full in dict(g.links)}
            for i, rate in fixed.items():
                found[i] = rate
                for link, n in open_.pop(i).links:
                    free[link] -= rate * n
        return found

    def _tight(self, open_: _Open, demands: dict[int, float], free: Mapping[int, float]) -> list[int]:
        """The links that limit some transfer: others have room for all that theirs may have."""
        asked: dict[int, float] = {}
        for i, group in open_.items():
            if demands[i] >= min((_share(self.units[link], n) for link, n in group.links), default=_INF):
                demands[i] = _INF  # its links cannot carry that
            for link, n in group.links:
                asked[link] = asked.get(link, 0.0) + demands[i] * n
        return [link for link, much in asked.items() if much > free[link]]


@dataclass
class _Stage:
    """The tasks that run at one moment, and what has happened up to it."""

    profile: Profile
    chains: Mapping[int, tuple[FlowGroup, ...]]
    rates: _Rates
    factor: float
    in_turn: Sequence[int]
    now: float = 0.0
    computing: dict[int, float] = field(default_factory=dict)  # task: when it ends
    flying: dict[int, _Flight] = field(default_factory=dict)
    carried: dict[int, list[list[float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tasks = self.profile.tasks
        after = [list(task.after) for task in tasks]
        for before, i in zip(self.in_turn, self.in_turn[1:], strict=False):
            after[i].append(before)
        self.waits = [len(before) for before in after]
        self.followers: list[list[int]] = [[] for _ in tasks]
        for i, waited_for in enumerate(after):
            for p in waited_for:
                self.followers[p].append(i)
        self.start, self.end = [0.0] * len(tasks), [0.0] * len(tasks)
        self._settle([], [i for i, n in enumerate(self.waits) if n == 0])

    def advance(self) -> None:
        """Go on to the next moment at which a task ends or a first byte goes."""
        then = min([*self.computing.values(), *(flight.event for flight in self.flying.values())])
        self._record(then)
        self.now = then
        ended = [i for i, end in self.computing.items() if end == then]
        for i, flight in self.flying.items():
            if flight.event == then and not flight.sending:
                self._first_byte(i, flight, ended)
            elif flight.event == then:
                self._next_group(i, flight, ended)
        self._settle(ended, [])

    def _settle(self, ended: list[int], ready: list[int]) -> None:
        """Everything that happens at this moment; then the rates of the transfers are found anew."""
        while ended or ready:
            for i in ended:
                self.computing.pop(i, None)
                self.flying.pop(i, None)
                self.end[i] = self.now
                for j in self.followers[i]:
                    self.waits[j] -= 1
                    if self.waits[j] == 0:
                        ready.append(j)
            released, ended, ready = ready, [], []
            for i in released:
                self._begin(i, ended)
        for i, rate in self.rates.of(self.flying).items():
            flight = self.flying[i]
            if rate != flight.rate:
                if flight.rate:
                    flight.remaining = max(flight.remaining - flight.rate * (self.now - flight.mark), 0.0)
                flight.mark, flight.rate, flight.event = self.now, rate, self.now + flight.remaining / rate

    def _begin(self, i: int, ended: list[int]) -> None:
        self.start[i] = self.now
        task = self.profile.tasks[i]
        if isinstance(task, Compute):
            seconds = task.seconds * self.factor
            self.computing[i] = self.now + seconds
            if seconds <= 0.0:
                ended.append(i)
        elif self.chains[i]:
            self.flying[i] = _Flight(list(self.chains[i]))
            self._start_group(i, self.flying[i], ended)
        else:
            ended.append(i)

    def _start_group(self, i: int, flight: _Flight, ended: list[int]) -> None:
        flight.sending, flight.rate, flight.event = False, 0.0, self.now + flight.groups[0].latency_s
        if flight.groups[0].latency_s <= 0.0:
            self._first_byte(i, flight, ended)

    def _first_byte(self, i: int, flight: _Flight, ended: list[int]) -> None:
        group = flight.groups[0]
        flight.sending, flight.remaining, flight.mark, flight.event = True, group.bytes, self.now, _INF
        if group.bytes <= 0.0 or (not group.links and group.demand_bytes_per_s == _INF):
            self._next_group(i, flight, ended)

    def _next_group(self, i: int, flight: _Flight, ended: list[int]) -> None:
        flight.groups.pop(0)
        if flight.groups:
            self._start_group(i, flight, ended)
        else:
            ended.append(i)

    def _record(self, then: float) -> None:
        if then <= self.now:
            return
        load: dict[int, float] = {}
        for flight in self.flying.values():
            if flight.sending:
                for link, n in flight.groups[0].links:
                    load[link] = load.get(link, 0.0) + flight.rate * n
        for link, rate in load.items():
            _add(self.carried.setdefault(link, []), self.now, then, rate)


def _add(pieces: list[list[float]], start: float, end: float, rate: float) -> None:
    """Append a piece; neighbours of one rate become one."""
    last = pieces[-1] if pieces else None
    if last and last[1] == start and abs(last[2] - rate) <= 1e-9 * rate:
        last[1] = end
    else:
        pieces.append([start, end, rate])
