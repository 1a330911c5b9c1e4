"""Tiers that overlap: while one all-reduce is on the links of a rack, the next may be on those of a machine.

Each tier carries one collective at a time, and of those that wait for it the last to come goes first, as in ASTRA-sim
1.0 with one chunk for each dimension and LIFO. An all-reduce goes through the tiers in turn: whole on each, or, where
outer tiers carry only their part, scattered on the way out and gathered on the way back. A collective waits for the
computations before it, not for the collectives that one communicator would have sent first.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.model.profile import Compute, Profile, Transfer
from weft.network.hierarchy import Hierarchy

Passage = tuple[tuple[int, float], ...]  # tier and seconds, one after another


def passage(hierarchy: Hierarchy, size: float, units: Sequence[int]) -> Passage:
    """What an all-reduce of `size` bytes does over so many units of each tier."""
    used = [(k, d, n) for k, (d, n) in enumerate(zip(hierarchy.dimensions, units, strict=True)) if n > 1]
    if not hierarchy.shrinking:
        return tuple((k, 2.0 * d.scatter_s(size, n)) for k, d, n in used)
    out, part = [], size
    for k, d, n in used:
        out.append((k, d.scatter_s(part, n)))
        part /= n
    *inner, (last, seconds) = out or [(0, 0.0)]
    return (*inner, (last, 2.0 * seconds), *reversed(inner))


def ends(profile: Profile, passages: Sequence[Passage]) -> list[float]:
    """When each task of an iteration ends; `passages` has one for each task, empty for a computation."""
    return _Play(profile, passages).run()


def _causes(profile: Profile) -> list[frozenset[int]]:
    """The tasks that each task waits for: a transfer those computations that its predecessors wait for."""
    found: list[frozenset[int]] = []
    for task in profile.tasks:
        mine = frozenset(task.after)
        if isinstance(task, Transfer):
            sums = [found[p] if isinstance(profile.tasks[p], Transfer) else {p} for p in mine]
            mine = frozenset().union(*sums)
        found.append(mine)
    return found


@dataclass
class _Play:
    """The tasks, what each waits for, and the tiers: who is on them and who waits, the last to come at the end."""

    profile: Profile
    passages: Sequence[Passage]
    events: list[tuple[float, int, int, int]] = field(default_factory=list)  # when, serial, task, stages done
    busy: set[int] = field(default_factory=set)
    waiting: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    serial: int = 0

    def run(self) -> list[float]:
        """Play one iteration."""
        tasks = self.profile.tasks
        causes = _causes(self.profile)
        missing = [len(each) for each in causes]
        followers: list[list[int]] = [[] for _ in tasks]
        for i, mine in enumerate(causes):
            for before in mine:
                followers[before].append(i)
        found = [0.0] * len(tasks)
        for i in (i for i, n in enumerate(missing) if n == 0):
            self._begin(i, 0.0)
        while self.events:
            now, _, i, done = heapq.heappop(self.events)
            stages = self.passages[i]
            if stages and done:
                self.busy.discard(stages[done - 1][0])
            if done < len(stages):
                self._ask(i, done, now)
            else:
                found[i] = now
                for j in followers[i]:
                    missing[j] -= 1
                    if missing[j] == 0:
                        self._begin(j, now)
            if stages and done:
                self._next(stages[done - 1][0], now)
        return found

    def _begin(self, i: int, now: float) -> None:
        task = self.profile.tasks[i]
        if isinstance(task, Compute) or not self.passages[i]:
            self._at(now + (task.seconds if isinstance(task, Compute) else 0.0), i, 0)
        else:
            self._ask(i, 0, now)

    def _ask(self, i: int, stage: int, now: float) -> None:
        tier = self.passages[i][stage][0]
        self.waiting.setdefault(tier, []).append((i, stage))
        self._next(tier, now)

    def _next(self, tier: int, now: float) -> None:
        if tier not in self.busy and self.waiting.get(tier):
            i, stage = self.waiting[tier].pop()
            self.busy.add(tier)
            self._at(now + self.passages[i][stage][1], i, stage + 1)

    def _at(self, when: float, i: int, done: int) -> None:
        self.serial += 1
        heapq.heappush(self.events, (when, self.serial, i, done))
