"""Titan's last resort: where sharing machines out by room finds nothing within the limits, look through placements.

Limits that differ from pair to pair make some machines fit beside each other and others not, which neither the room of
a machine nor Algorithm 2 sees. Workers are put on machines one after another, those that talk most to the ones already
placed first; a worker that no machine takes is a dead end. Numbers of idle machines, then of machines, are tried in
turn, so what is found first is the best in both objectives, unless the search was cut short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from weft.policies.place.pattern import Ints, Kind, Load, Pattern, pattern_of

Placed = tuple[tuple[int, tuple[int, ...]], ...]  # machine and the ranks on it
TRIES = 4000  # workers that are tried on a machine, for all numbers of machines together
_LARGEST = 32  # workers; a larger job has too many placements for this many tries to find anything
_COMPARED = 32  # up to so many machines are told apart by their limits to all others; more, by those to machines in use


def search(
    kind: Kind, free: Ints, idle: npt.NDArray[np.bool_], between: Callable[[int, int], float], least: tuple[int, int]
) -> Placed | None:
    """Machines and ranks within the limits `between` machines (bytes per byte of message); None if none is found.

    `least` are the fewest idle machines and machines that have room.
    """
    pattern = pattern_of(kind)
    if pattern.n > _LARGEST:
        return None
    order, tries = _by_affinity(pattern), TRIES
    kinds = _kinds(np.flatnonzero(free > 0).tolist(), between)
    whole, used = np.flatnonzero(idle & (free > 0)), np.flatnonzero(~idle & (free > 0))
    for new in range(least[0], min(len(whole), pattern.n) + 1):
        for machines in range(max(new, least[1] if new == least[0] else 1), min(pattern.n, new + len(used)) + 1):
            attempt = _Search(pattern, order, free, idle, between, kinds, new, machines, tries)
            found, tries = attempt.run(), attempt.tries
            if found is not None or tries < 0:
                return found
    return None


def _by_affinity(pattern: Pattern) -> list[int]:
    """Workers, each the one that talks most to those before it."""
    order, left = [0], set(range(1, pattern.n))
    affinity = pattern.between[0].copy()
    while left:
        worker = max(left, key=lambda w: (affinity[w], -w))
        order.append(worker)
        left.discard(worker)
        affinity += pattern.between[worker]
    return order


def _kinds(machines: list[int], between: Callable[[int, int], float]) -> dict[int, int] | None:
    """For each machine the first that could change places with it: the limits of both to and from all others are the
    same. None where there are too many machines to compare."""
    if len(machines) > _COMPARED:
        return None

    def alike(a: int, b: int) -> bool:
        return between(a, b) == between(b, a) and all(
            between(a, other) == between(b, other) and between(other, a) == between(other, b)
            for other in machines
            if other not in (a, b)
        )

    found: dict[int, int] = {}
    for machine in machines:
        found[machine] = next((first for first in dict.fromkeys(found.values()) if alike(first, machine)), machine)
    return found


class _Search:
    """A search for placements on at most `new` idle machines and at most `machines` in all."""

    def __init__(
        self, pattern: Pattern, order: list[int], free: Ints, idle: npt.NDArray[np.bool_],
        between: Callable[[int, int], float], kinds: dict[int, int] | None, new: int, machines: int, tries: int,
    ) -> None:  # fmt: skip
        self.pattern, self.order = pattern, order
        self.free, self.idle, self.between, self.kinds = free, idle, between, kinds
        self.new, self.machines = new, machines
        self.tries = tries
        self.where: dict[int, int] = {}  # worker: machine
        self.rooms = {int(m): int(free[m]) for m in np.flatnonzero(free > 0)}

    def run(self) -> Placed | None:
        """The first placement that is found."""
        return self._result() if self._place(0, Load(self.pattern)) else None

    def _place(self, at: int, load: Load) -> bool:
        if at == len(self.order):
            return True
        worker = self.order[at]
        for machine in self._candidates(worker):
            self.tries -= 1
            if self.tries < 0:
                return False
            trial = load.copy()
            if not trial.admit(worker, machine, lambda a, b, size: size <= self.between(a, b) + 1e-12):
                continue
            self.where[worker] = machine
            self.rooms[machine] -= 1
            if self._enough(len(self.order) - at - 1) and self._place(at + 1, trial):
                return True
            del self.where[worker]
            self.rooms[machine] += 1
        return False

    def _candidates(self, worker: int) -> Iterator[int]:
        """Machines that have workers already, those it talks to most first; then further ones, the roomiest first. Of
        further ones that have as much room and the same limits, one is enough."""
        taken = set(self.where.values())
        talks = dict.fromkeys(taken, 0.0)
        for other, machine in self.where.items():
            talks[machine] += float(self.pattern.between[worker, other])
        yield from sorted((m for m in taken if self.rooms[m] > 0), key=lambda m: (-talks[m], m))
        if len(taken) < self.machines:
            n_new = sum(bool(self.idle[m]) for m in taken)
            firsts: dict[tuple[float, ...], int] = {}
            for m, room in self.rooms.items():  # in the order of their numbers
                if m not in taken and (not self.idle[m] or n_new < self.new):
                    firsts.setdefault((room, bool(self.idle[m]), *self._limits(m, taken)), m)
            yield from sorted(firsts.values(), key=lambda m: (-self.rooms[m], m))

    def _limits(self, machine: int, taken: set[int]) -> tuple[float, ...]:
        """The same for machines that are alike."""
        if self.kinds is not None:
            return (self.kinds[machine],)
        return tuple(self.between(*pair) for other in taken for pair in ((machine, other), (other, machine)))

    def _enough(self, left: int) -> bool:
        """Whether the machines in use and those that may be added have room for the workers that are left."""
        taken = set(self.where.values())
        more = self.machines - len(taken)
        n_new = self.new - sum(bool(self.idle[m]) for m in taken)
        rest = [m for m in self.rooms if m not in taken]
        fresh = sorted((self.rooms[m] for m in rest if self.idle[m]), reverse=True)[: max(0, n_new)]
        others = [self.rooms[m] for m in rest if not self.idle[m]]
        return sum(self.rooms[m] for m in taken) + sum(sorted([*fresh, *others], reverse=True)[:more]) >= left

    def _result(self) -> Placed:
        on: dict[int, list[int]] = {}
        for worker, machine in self.where.items():
            on.setdefault(machine, []).append(worker)
        return tuple((machine, tuple(sorted(ranks))) for machine, ranks in on.items())
