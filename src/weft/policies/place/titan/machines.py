"""How many machines a job must use, and how its workers may be shared out among them (Titan, Algorithms 2 and 3).

The order of the objectives is lexicographic: first the fewest idle machines (O1), then the fewest machines (O2). Where
only room counts, both have a closed form: a machine that is used by somebody has less room than an idle one of its
size, so the fewest are the roomiest ones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from operator import neg

import numpy as np
import numpy.typing as npt

from weft.policies.place.best_fit import Ints, Share


class Rooms:
    """Machines in use, and idle ones, by their room: the roomiest first, and among equals the lowest number.

    Plain lists: machines in use that have room are few, and the idle ones are seldom asked for.
    """

    def __init__(self, free: Ints, idle: npt.NDArray[np.bool_]) -> None:
        self._free, self._idle = free, idle
        self.fragments, self.rooms = _roomiest(free, ((free > 0) & ~idle).nonzero()[0])

    @cached_property
    def whole(self) -> tuple[list[int], list[int]]:
        """Idle machines and their rooms."""
        return _roomiest(self._free, self._idle.nonzero()[0])

    def one(self, workers: int) -> int | None:
        """The tightest machine in use with room for all, or an idle one if those in use have no room even together."""
        machines, rooms = self.fragments, self.rooms
        if (not rooms or rooms[0] < workers) and sum(rooms) < workers:
            machines, rooms = self.whole
        if not rooms or rooms[0] < workers:
            return None
        tightest = rooms[bisect_right(rooms, -workers, key=neg) - 1]
        return machines[bisect_left(rooms, -tightest, key=neg)]  # among equals, the lowest number

    def fewest(self, workers: int) -> tuple[int, int] | None:
        """(O1, O2): the fewest idle machines, then the fewest machines in all, that have room; None if none have."""
        lacking = workers - sum(self.rooms)
        new = fresh = 0
        if lacking > 0:
            for room in self.whole[1]:
                if fresh >= lacking:
                    break
                new, fresh = new + 1, fresh + room
            if fresh < lacking:
                return None
        used, left = 0, workers - fresh
        while left > 0:
            left -= self.rooms[used]
            used += 1
        return new, new + used

    def sharings(self, workers: int, new: int, machines: int) -> Iterator[tuple[Share, ...]]:
        """Ways to use exactly `new` idle machines and `machines` in all, roomiest first. The pattern of traffic chooses
        among them.

        There are three: the machines filled one after another, the last as tight as possible; equal shares; and shares
        that are powers of two as far as that leaves room for the rest. A sharing that does not fit is left out.
        """
        rooms = (self.whole[1][:new] if new else []) + self.rooms[: machines - new]
        seen: set[tuple[int, ...]] = set()
        for counts in (_filled(rooms, workers), _even(rooms, workers), _blocks(rooms, workers)):
            if counts and counts not in seen and all(counts):
                seen.add(counts)
                shares = self._matched(counts, new)
                if shares:
                    yield shares

    def _matched(self, counts: Sequence[int], new: int) -> tuple[Share, ...]:
        """Machines for shares: idle ones for the largest, for each of the others the tightest that has room."""
        ordered = sorted(counts, reverse=True)
        shares: list[Share] = []
        if new:
            whole, rooms = self.whole
            shares = list(zip(whole[:new], ordered, strict=False))
            if any(room < count for room, count in zip(rooms[:new], ordered, strict=False)):
                return ()
        taken: set[int] = set()
        for count in ordered[new:]:
            last = bisect_right(self.rooms, -count, key=neg) - 1  # the tightest that has room
            while last >= 0 and last in taken:
                last -= 1
            if last < 0:
                return ()
            pick = bisect_left(self.rooms, -self.rooms[last], key=neg)  # among equals, the lowest number
            while pick in taken:
                pick += 1
            taken.add(pick)
            shares.append((self.fragments[pick], count))
        return tuple(shares)


def _roomiest(free: Ints, among: Ints) -> tuple[list[int], list[int]]:
    rooms = free[among]
    order = (-rooms).argsort(kind="stable")
    return among[order].tolist(), rooms[order].tolist()


def _filled(rooms: Sequence[int], workers: int) -> tuple[int, ...]:
    counts = []
    for room in rooms:
        counts.append(min(room, workers))
        workers -= counts[-1]
    return tuple(counts) if workers == 0 else ()


def _even(rooms: Sequence[int], workers: int) -> tuple[int, ...]:
    """As equal as the rooms allow: the smallest rooms are asked first for their part of what is left."""
    counts = [0] * len(rooms)
    for left, i in zip(range(len(rooms), 0, -1), sorted(range(len(rooms)), key=rooms.__getitem__), strict=True):
        counts[i] = min(rooms[i], workers // left)
        workers -= counts[i]
    return tuple(counts) if workers == 0 else ()


def _blocks(rooms: Sequence[int], workers: int) -> tuple[int, ...]:
    """Powers of two where what is left still fits into the other rooms."""
    later = list(accumulate(reversed(rooms), initial=0))[::-1]
    counts = []
    for i, room in enumerate(rooms):
        most = min(room, workers)
        block = 1 << (most.bit_length() - 1) if most else 0
        count = block if workers - block <= later[i + 1] else most
        counts.append(count)
        workers -= count
    return tuple(counts) if workers == 0 else ()
