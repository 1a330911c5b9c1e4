"""How many machines a job must use, and how its workers may be shared out among them (Titan, Algorithms 2 and 3).

The order of the objectives is lexicographic: first the fewest idle machines (O1), then the fewest machines (O2). Where
only room counts, both have a closed form: a machine that is used by somebody has less room than an idle one of its
size, so the fewest are the roomiest ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Share", "fewest", "sharings"]

Ints = npt.NDArray[np.int64]
Share = tuple[int, int]  # machine, workers on it


def fewest(free: Ints, idle: npt.NDArray[np.bool_], workers: int) -> tuple[int, int] | None:
    """(O1, O2): the fewest idle machines, and then the fewest machines in all, that have room; None if none have."""
    fragments = np.sort(free[~idle])[::-1]
    in_fragments = np.cumsum(fragments)
    room = int(in_fragments[-1]) if len(fragments) else 0
    new = 0
    fresh = 0
    if room < workers:
        whole = np.cumsum(np.sort(free[idle])[::-1])
        if not len(whole) or room + int(whole[-1]) < workers:
            return None
        new = int(np.searchsorted(whole, workers - room)) + 1
        fresh = int(whole[new - 1])
    if fresh >= workers:
        return new, new
    return new, new + int(np.searchsorted(in_fragments, workers - fresh)) + 1


def sharings(
    free: Ints, idle: npt.NDArray[np.bool_], workers: int, new: int, machines: int
) -> Iterator[tuple[Share, ...]]:
    """Ways to use just `new` idle machines and `machines` in all, roomiest first; several, for the pattern to choose.

    The machines filled one after another, the last as tight as possible; equal shares; and shares that are powers of
    two as far as that leaves room for the rest. A sharing that does not fit is left out.
    """
    fragments = np.flatnonzero(~idle & (free > 0))
    fragments = fragments[np.argsort(-free[fragments], kind="stable")]
    whole = np.flatnonzero(idle)
    whole = whole[np.argsort(-free[whole], kind="stable")][:new]
    rooms = free[whole].tolist() + free[fragments[: machines - new]].tolist()
    seen: set[tuple[int, ...]] = set()
    for counts in (_filled(rooms, workers), _even(rooms, workers), _blocks(rooms, workers)):
        if counts and counts not in seen and all(counts):
            seen.add(counts)
            shares = _matched(counts, free, whole, fragments)
            if shares:
                yield shares


def _filled(rooms: Sequence[int], workers: int) -> tuple[int, ...]:
    counts = []
    for room in rooms:
        counts.append(min(room, workers))
        workers -= counts[-1]
    return tuple(counts) if workers == 0 else ()


def _even(rooms: Sequence[int], workers: int) -> tuple[int, ...]:
    """As equal as the rooms allow: the smallest rooms are asked first for their part of what is left."""
    counts = [0] * len(rooms)
    for left, i in zip(range(len(rooms), 0, -1), np.argsort(rooms, kind="stable").tolist(), strict=True):
        counts[i] = min(rooms[i], workers // left)
        workers -= counts[i]
    return tuple(counts) if workers == 0 else ()


def _blocks(rooms: Sequence[int], workers: int) -> tuple[int, ...]:
    """Powers of two where what is left still fits into the other rooms."""
    later = np.cumsum([0, *reversed(rooms)])[::-1].tolist()
    counts = []
    for i, room in enumerate(rooms):
        most = min(room, workers)
        block = 1 << (most.bit_length() - 1) if most else 0
        count = block if workers - block <= later[i + 1] else most
        counts.append(count)
        workers -= count
    return tuple(counts) if workers == 0 else ()


def _matched(counts: Sequence[int], free: Ints, whole: Ints, fragments: Ints) -> tuple[Share, ...]:
    """Machines for shares: idle ones for the largest, for each of the others the tightest that has room."""
    ordered = sorted(counts, reverse=True)
    shares = list(zip(whole.tolist(), ordered, strict=False))
    if any(free[machine] < count for machine, count in shares):
        return ()
    rooms = free[fragments]  # descending
    taken = np.zeros(len(rooms), dtype=np.bool_)
    for count in ordered[len(whole) :]:
        last = int(np.searchsorted(-rooms, -count, side="right")) - 1  # the tightest that has room
        while last >= 0 and taken[last]:
            last -= 1
        if last < 0:
            return ()
        first = int(np.searchsorted(-rooms, -rooms[last], side="left"))  # of equal ones the lowest number
        pick = next(i for i in range(first, last + 1) if not taken[i])
        taken[pick] = True
        shares.append((int(fragments[pick]), count))
    return tuple(shares)
