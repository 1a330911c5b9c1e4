"""ccml: jobs that could send at different times share a NIC unfairly, which moves them apart (the paper's CCML).

A host knows the jobs that send over its NIC: how long each computes and how much it sends in an iteration. It first
tests which of them are compatible. Among those, each job is more aggressive than the next: its flows have larger
weights. Everybody else shares fairly, and what a flow cannot use goes to the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import numpy as np

from weft.model.flows import FlowSet
from weft.model.policy import setting
from weft.policies.pace.base import RatedPace
from weft.policies.pace.rates import Demand, Ints, Limits, Moment, RateRule, Transport

FINE = 840.0  # the weight of a job that shares fairly: a number that up to 8 flows of a job share evenly
MOST = float(1 << 18)  # the weight of the first of many jobs; weights are whole numbers, and their sums small
CLOSE = 0.05  # part by which iterations may differ from a ratio of small whole numbers
LARGEST = 4  # such a number
SLACK = 1e-9  # part of a circle by which arcs may meet: they are sums of rounded numbers
TRIES = 500  # positions that are tried for one set of jobs


@dataclass(frozen=True)
class Circle:
    """A job on a NIC: seconds of an iteration alone, and seconds of it in which it sends there at full speed."""

    period_s: float
    arc_s: float


@lru_cache(maxsize=4096)  # jobs of a model have equal iterations, and every NIC is asked about
def common_s(one: float, other: float) -> float:
    """The time in which a relative shift of two jobs repeats itself: their periods' common divisor, if these are close
    to a ratio of whole numbers up to 4; else 0, since jobs that drift past each other cannot be kept apart."""
    found = 0.0
    for a, b in product(range(1, LARGEST + 1), repeat=2):
        if abs(a * one - b * other) <= CLOSE * min(a * one, b * other):
            found = max(found, min(one / b, other / a))
    return found


def compatible(jobs: Sequence[Circle]) -> list[int]:
    """Which of the jobs on a NIC can all send at different times: the largest such set, and of several the one whose
    jobs came first. A job that has no partner is in none."""
    return list(_compatible(tuple(jobs)))


@lru_cache(maxsize=65536)  # the same few models meet on many NICs
def _compatible(jobs: tuple[Circle, ...]) -> tuple[int, ...]:
    everybody = range(len(jobs))
    span = {(i, j): common_s(jobs[i].period_s, jobs[j].period_s) for i in everybody for j in everybody}
    pairs = {(i, j) for i, j in span if jobs[i].arc_s + jobs[j].arc_s <= span[i, j] * (1.0 + SLACK)}
    for size in range(len(jobs), 1, -1):
        for some in combinations(everybody, size):
            busy = sum(jobs[i].arc_s / jobs[i].period_s for i in some)
            if busy <= 1.0 + CLOSE and pairs.issuperset(combinations(some, 2)) and _Turning(jobs, span, some).found():
                return some
    return ()


class _Turning:
    """A search for angles of some circles at which no two arcs meet.

    The first circle stays where it is. If there are such angles, the others can be turned back together until the arc
    of one of them begins where an arc that stays ends; that one then stays, too, and so on. So it is enough to try
    positions in which an arc begins where another ends.
    """

    def __init__(self, jobs: tuple[Circle, ...], span: dict[tuple[int, int], float], some: Sequence[int]) -> None:
        self.jobs, self.span = jobs, span
        self.others = some[1:]
        self.angle = {some[0]: 0.0}
        self.seen: set[frozenset[tuple[int, float]]] = set()
        self.left = TRIES

    def found(self) -> bool:
        """Whether the circles that are not placed yet can be added to those that are. A search that is too long ends
        without an answer, and the jobs then count as not compatible."""
        missing = [j for j in self.others if j not in self.angle]
        if not missing:
            return True
        key = frozenset((j, round(angle, 9)) for j, angle in self.angle.items())
        if key in self.seen:
            return False
        self.seen.add(key)
        for j in missing:
            for angle in self._touching(j):
                self.left -= 1
                if self.left < 0:
                    return False
                if all(self._apart(i, j, angle - at) for i, at in self.angle.items()):
                    self.angle[j] = angle
                    if self.found():
                        return True
                    del self.angle[j]
        return False

    def _touching(self, j: int) -> Iterable[float]:
        period = self.jobs[j].period_s
        for i, at in list(self.angle.items()):
            for turn in range(round(period / self.span[i, j])):
                yield (at + self.jobs[i].arc_s + turn * self.span[i, j]) % period

    def _apart(self, i: int, j: int, shift: float) -> bool:
        """Whether two arcs do not meet if the second begins so much later than the first."""
        span = self.span[i, j]
        shift %= span
        slack = SLACK * span
        return self.jobs[i].arc_s - slack <= shift <= span - self.jobs[j].arc_s + slack


class CcmlRule(RateRule):
    """On a NIC each compatible job weighs `unfair` times as much as the next, whatever the number of its flows."""

    slot_s = math.inf

    def __init__(self, unfair: float = 4.0) -> None:
        self.unfair = unfair

    def begin(self, demand: Demand) -> None:
        """No job is known yet."""
        self.capacity = demand.capacity
        self.circles: dict[int, dict[int, Circle]] = {}  # by job, which is known by its uid, and NIC
        self.beside: dict[int, int] = {}  # most flows of a job on one NIC
        self.weight: dict[int, int] = {}
        self.on: dict[int, list[int]] = {}  # jobs on a NIC, by their uids, in the order in which they came
        self.ahead: dict[int, dict[int, int]] = {}  # by NIC and job: compatible jobs that came later

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """One weight for all flows of a job, since they keep step with each other."""
        uids, of_row = np.unique(flows.uid[live], return_inverse=True)
        weights = np.ones(len(flows), np.int64)
        weights[live] = np.array([self.weight[uid] for uid in uids.tolist()], np.int64)[of_row]
        return Limits(np.full(len(flows), math.inf), weights)

    def came(self, rows: Ints, flows: FlowSet) -> None:
        """Its profile is known in advance."""
        if len(rows):
            uid = int(flows.uid[rows[0]])
            self._learn(uid, flows, rows)
            self._weigh(uid, self.circles[uid])

    def gone(self, rows: Ints, flows: FlowSet) -> None:
        """The others share without it."""
        for uid in {*flows.uid[rows].tolist()} & {*self.weight}:
            nics = self.circles.pop(uid)
            del self.beside[uid], self.weight[uid]
            self._weigh(uid, nics)

    def _learn(self, uid: int, flows: FlowSet, rows: Ints) -> None:
        """What the profile of a job says: computing, then all bytes at line rate."""
        every: dict[int, float] = {}  # seconds that it needs of each link
        count: dict[int, int] = {}  # flows that leave each NIC
        for row in rows[flows.size[rows] > 0.0].tolist():
            path = [link for link in flows.path[row].tolist() if link >= 0]
            for link in path:
                every[link] = every.get(link, 0.0) + flows.size[row] / self.capacity[link]
            if path:
                count[path[0]] = count.get(path[0], 0) + 1
        period = float(flows.compute_s[rows].max(initial=0.0)) + max(every.values(), default=0.0)
        self.circles[uid] = {nic: Circle(period, every[nic]) for nic in count}
        self.beside[uid] = max(count.values(), default=1)
        self.weight[uid] = 1

    def _weigh(self, uid: int, nics: Iterable[int]) -> None:
        """Weights by the number of compatible jobs that came later, on the NIC where a job has most of them. This job
        has come or gone, and the jobs on its NICs are tested anew."""
        touched = {uid}
        for nic in nics:
            there = sorted({uid, *self.on.get(nic, ())} & self.circles.keys())
            members = compatible([self.circles[job][nic] for job in there])
            self.on[nic] = there
            self.ahead[nic] = {there[m]: len(members) - 1 - k for k, m in enumerate(members)}
            touched.update(there)
        deepest = math.log(MOST / FINE) / math.log(self.unfair) if self.unfair > 1.0 else 0.0
        for job in touched & self.circles.keys():
            steps = max((self.ahead[nic].get(job, 0) for nic in self.circles[job]), default=0)
            self.weight[job] = max(round(FINE * self.unfair ** min(steps, deepest) / self.beside[job]), 1)


@dataclass(eq=False)
class Ccml(RatedPace):
    """`ccml`, or `ccml:X` for X times the share of the next job."""

    name = "ccml"
    unfair: float = setting(4.0, within="[1, 1e6]")

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that react to congestion; a foreign flow is like a job that shares fairly."""
        return Transport(opened=True, foreign_weight=int(FINE))

    def rates(self) -> RateRule:
        """The rule of one run."""
        return CcmlRule(self.unfair)
