"""The time schedule of Foresight: a delay before each iteration, and a cap on its rate, so that links have room.

Iterations are placed one after another, always of the job with the least attained service (the sum of its periods so
far). An iteration sends within a window, and needs the most that it sends on each link for the whole of it. It waits
until all of its links have so much room; of several caps the one with which it ends first is taken.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

MOST = 4000  # iterations that are placed at once
SLACK = 1e-9

Link = Hashable


@dataclass(frozen=True)
class Way:
    """An iteration under one cap: its length, when it begins to send, for how long, and the most on each link."""

    period_s: float
    offset_s: float
    window_s: float
    loads: Mapping[Link, float]
    cap: float = 1.0
    squeezed: bool = False  # it needs more than there is; only where no other way fits

    def within(self, capacity: Mapping[Link, float]) -> Way:
        """The way on links that carry less than it asks for: its window is as many times as long, rounded up."""
        over = max((load / capacity[link] for link, load in self.loads.items()), default=0.0)
        if over <= 1.0 + SLACK:
            return self
        longer = math.ceil(over - SLACK) * self.window_s
        loads = {link: min(load, capacity[link]) for link, load in self.loads.items()}
        return replace(
            self, period_s=self.period_s + longer - self.window_s, window_s=longer, loads=loads, squeezed=True
        )


@dataclass(frozen=True)
class Slot:
    """One iteration: when the one before it ends, its delay, and how it goes."""

    ready_s: float
    delay_s: float
    way: Way

    @property
    def sends_s(self) -> float:
        """When it begins to send."""
        return self.ready_s + self.delay_s + self.way.offset_s

    @property
    def over_s(self) -> float:
        """When it has sent all."""
        return self.sends_s + self.way.window_s

    @property
    def ends_s(self) -> float:
        """When the next iteration may begin."""
        return self.ready_s + self.delay_s + self.way.period_s


@dataclass
class Room:
    """What is left of links over time: windows that were given away."""

    capacity: Mapping[Link, float]
    taken: dict[Link, list[tuple[float, float, float]]] = field(default_factory=dict)  # from, until, load

    def take(self, slot: Slot) -> None:
        """Give a slot its windows."""
        for link, load in slot.way.loads.items():
            self.taken.setdefault(link, []).append((slot.sends_s, slot.over_s, load))

    def forget(self, now: float) -> None:
        """Windows that are over."""
        for link, windows in self.taken.items():
            self.taken[link] = [window for window in windows if window[1] > now + SLACK]

    def free_from(self, ready_s: float, way: Way) -> float:
        """The first moment from which the window of a way fits; not before it is ready to send."""
        begins = ready_s + way.offset_s
        ends = {until for link in way.loads for _, until, _ in self.taken.get(link, ()) if until > begins}
        for at in [begins, *sorted(ends)]:
            if all(self._fits(link, load, at, at + way.window_s) for link, load in way.loads.items()):
                return at
        raise AssertionError("after the last window all is free")

    def _fits(self, link: Link, load: float, begins: float, until: float) -> bool:
        beside = [w for w in self.taken.get(link, ()) if w[0] < until - SLACK and w[1] > begins + SLACK]
        marks = {begins, *(w[0] for w in beside if w[0] > begins)}
        most = max(math.fsum(w[2] for w in beside if w[0] <= mark + SLACK and w[1] > mark + SLACK) for mark in marks)
        return most + load <= self.capacity[link] * (1.0 + SLACK)


def schedule(
    jobs: Mapping[str, Sequence[Way]], room: Room, ready_s: Mapping[str, float], horizon_s: float
) -> dict[str, list[Slot]]:
    """Iterations of all jobs until each has attained so many seconds of its periods."""
    ways = {job: [way.within(room.capacity) for way in mine] for job, mine in jobs.items()}
    slots: dict[str, list[Slot]] = {job: [] for job in jobs}
    attained, ready = dict.fromkeys(jobs, 0.0), dict(ready_s)
    for _ in range(MOST):
        able = [job for job in jobs if attained[job] < horizon_s * (1.0 - SLACK)]
        if not able:
            break
        job = min(able, key=attained.__getitem__)
        mine = [way for way in ways[job] if not way.squeezed] or ways[job]
        found = [Slot(ready[job], room.free_from(ready[job], w) - ready[job] - w.offset_s, w) for w in mine]
        slot = min(found, key=lambda slot: slot.ends_s)
        room.take(slot)
        slots[job].append(slot)
        attained[job] += slot.way.period_s
        ready[job] = slot.ends_s
        room.forget(min(ready.values()))
    return slots
