"""One iteration of a job that has the network to itself: when each task runs, and what each worker's NIC carries.

Every worker has a server of its own with one full-duplex NIC, and switches never limit. Transfers of the job itself do
share NICs, max-min fairly, in lock step as everywhere in weft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.collectives.registry import stages
from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer

__all__ = ["Alone", "Segment", "Span", "run_alone"]

_INF = float("inf")
_REST = 1e-9  # of a step: a leg that would need no more than this beyond it is done


@dataclass(frozen=True, slots=True)
class Span:
    """When a task ran."""

    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A time in which a NIC sent at one rate."""

    start_s: float
    end_s: float
    bytes_per_s: float


@dataclass(frozen=True)
class Alone:
    """The iteration: a span per task (in the profile's order), and what a worker sends over time."""

    profile: Profile
    nic_bytes_per_s: float
    spans: tuple[Span, ...]
    sent: tuple[tuple[Segment, ...], ...]  # by worker

    @property
    def iteration_s(self) -> float:
        """Length of the iteration: the perimeter of CASSINI's circle."""
        return max((s.end_s for s in self.spans), default=0.0)

    def up_phases(self, worker: int = 0, least_s: float = 0.0) -> tuple[Segment, ...]:
        """CASSINI's Up phases of a worker's NIC: times of sending without a pause, with their mean rate.

        Pauses of `least_s` or shorter are no Down phase.
        """
        merged: list[list[float]] = []  # start, end, bytes
        for s in self.sent[worker]:
            moved = (s.end_s - s.start_s) * s.bytes_per_s
            if merged and s.start_s - merged[-1][1] <= max(least_s, 1e-9 * self.iteration_s):
                merged[-1][1] = s.end_s
                merged[-1][2] += moved
            else:
                merged.append([s.start_s, s.end_s, moved])
        return tuple(Segment(a, b, moved / (b - a)) for a, b, moved in merged)

    def sent_bytes(self, worker: int) -> float:
        """Bytes that a worker's NIC sends in one iteration."""
        return sum((s.end_s - s.start_s) * s.bytes_per_s for s in self.sent[worker])


@dataclass
class _Leg:
    """Flows that advance in lock step: bytes each, and how many of them each port carries."""

    bytes: float
    sends: dict[int, int] = field(default_factory=dict)
    receives: dict[int, int] = field(default_factory=dict)


@dataclass
class _Flight:
    """A transfer under way: its legs still to go, and the bytes left of the first."""

    legs: list[_Leg]
    left: float
    cap: float


def run_alone(profile: Profile, nic_bytes_per_s: float, collective: str = "ring") -> Alone:
    """Play one iteration; `collective` is used for all-reduces that do not name one."""
    if not 0 < nic_bytes_per_s < _INF:
        raise InputError(f"the NIC's speed is {nic_bytes_per_s} bytes/s; it must be finite and more than 0")
    n = len(profile.tasks)
    waits = [len(set(t.after)) for t in profile.tasks]
    followers: list[list[int]] = [[] for _ in range(n)]
    for i, task in enumerate(profile.tasks):
        for p in set(task.after):
            followers[p].append(i)
    start, end = [0.0] * n, [0.0] * n
    sent: list[list[Segment]] = [[] for _ in range(profile.workers)]
    computing: dict[int, float] = {}  # task -> when it ends
    flying: dict[int, _Flight] = {}
    ready = [i for i in range(n) if waits[i] == 0]
    now = 0.0
    while ready or computing or flying:
        while ready:
            i = ready.pop(0)
            start[i] = now
            task = profile.tasks[i]
            if isinstance(task, Compute):
                computing[i] = now + task.seconds
            else:
                flying[i] = _flight(profile, task, collective)
        rates = _rates(flying, nic_bytes_per_s)
        step = min((f.left / rates[i] if f.legs else 0.0 for i, f in flying.items()), default=_INF)
        then = min(computing.values(), default=_INF)
        if then < now + step:
            step = then - now
        else:
            then = now + step
        _record(flying, rates, now, then, sent)
        done = [i for i, at in computing.items() if at <= then] + _advance(flying, rates, step)
        now = then
        for i in sorted(done):
            computing.pop(i, None)
            flying.pop(i, None)
            end[i] = now
            for j in followers[i]:
                waits[j] -= 1
                if waits[j] == 0:
                    ready.append(j)
    spans = tuple(Span(a, b) for a, b in zip(start, end, strict=True))
    return Alone(profile, nic_bytes_per_s, spans, tuple(tuple(_joined(s)) for s in sent))


def _flight(profile: Profile, task: Transfer, collective: str) -> _Flight:
    ranks = list(profile.ranks(task))
    legs = []
    if task.bytes > 0 and len(ranks) > 1:
        for stage in stages(task.collective or collective, len(ranks), task.bytes, task.servers):
            leg = _Leg(stage.bytes * stage.steps)
            for a, b in stage.pairs:
                leg.sends[ranks[a]] = leg.sends.get(ranks[a], 0) + 1
                leg.receives[ranks[b]] = leg.receives.get(ranks[b], 0) + 1
            legs.append(leg)
    return _Flight(legs, legs[0].bytes if legs else 0.0, task.demand_bytes_per_s or _INF)


def _rates(flying: dict[int, _Flight], nic: float) -> dict[int, float]:
    """Max-min rates per flow by filling up: raise all, freeze who meets a full port or its own cap, repeat."""
    rates: dict[int, float] = {}
    open_ = {i: f for i, f in flying.items() if f.legs}
    free: dict[tuple[str, int], float] = {}
    load: dict[tuple[str, int], dict[int, int]] = {}
    for i, f in open_.items():
        for port, count in _ports(f.legs[0]):
            free[port] = nic
            load.setdefault(port, {})[i] = count
    while open_:
        level, full = min(
            ((free[p] / sum(users.values()), p) for p, users in load.items() if users), key=lambda x: x[0]
        )
        capped = [i for i, f in open_.items() if f.cap <= level]
        if capped:
            level = min(open_[i].cap for i in capped)
            frozen = [i for i in capped if open_[i].cap == level]
        else:
            frozen = list(load[full])
        for i in frozen:
            rates[i] = level
            for port, count in _ports(open_[i].legs[0]):
                free[port] = max(0.0, free[port] - level * count)
                del load[port][i]
            del open_[i]
    return rates


def _ports(leg: _Leg) -> list[tuple[tuple[str, int], int]]:
    out = [(("out", rank), count) for rank, count in leg.sends.items()]
    return out + [(("in", rank), count) for rank, count in leg.receives.items()]


def _record(
    flying: dict[int, _Flight], rates: dict[int, float], now: float, then: float, sent: list[list[Segment]]
) -> None:
    if then <= now:
        return
    total: dict[int, float] = {}
    for i, flight in flying.items():
        if flight.legs:
            for rank, count in flight.legs[0].sends.items():
                total[rank] = total.get(rank, 0.0) + rates[i] * count
    for rank, rate in total.items():
        sent[rank].append(Segment(now, then, rate))


def _advance(flying: dict[int, _Flight], rates: dict[int, float], span: float) -> list[int]:
    """Move every transfer on; returns those that are done."""
    done = []
    for i, flight in flying.items():
        if flight.legs:
            if flight.left / rates[i] <= span * (1 + _REST):
                flight.legs.pop(0)
                flight.left = flight.legs[0].bytes if flight.legs else 0.0
            else:
                flight.left -= rates[i] * span
        if not flight.legs:
            done.append(i)
    return done


def _joined(segments: Sequence[Segment]) -> list[Segment]:
    """Neighbours of one rate become one."""
    out: list[Segment] = []
    for s in segments:
        last = out[-1] if out else None
        if last and s.start_s == last.end_s and abs(s.bytes_per_s - last.bytes_per_s) <= 1e-9 * last.bytes_per_s:
            out[-1] = Segment(last.start_s, s.end_s, last.bytes_per_s)
        else:
            out.append(s)
    return out
