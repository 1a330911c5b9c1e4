"""Stage, Collective: what an algorithm sends, before anyone knows where its workers are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Collective", "Pair", "Stage", "Stages", "core_size", "fold", "unfold"]

Pair = tuple[int, int]  # (source rank, destination rank)


@dataclass(frozen=True, slots=True)
class Stage:
    """Messages that travel at the same time, each of `bytes`; the next stage starts when all have arrived.

    All messages of a stage have one size (in every algorithm here they do), so a stage can advance in lock step
    without losing or inventing a byte. A pair that is listed twice is two messages. `steps` such rounds follow each
    other between the same pairs.
    """

    bytes: float
    pairs: tuple[Pair, ...]
    steps: int = 1


Stages = tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective operation by name: `stages(n, message_bytes, n_ps)`, where only parameter servers look at n_ps.

    `rack_aware`: which rank stands where in the algorithm is free, so ranks may be ordered by rack and server.
    `all_reduce`: every worker ends with the sum of all (the others move data and reduce nothing).
    """

    name: str
    stages: Callable[[int, float, int], Stages]
    summary: str
    rack_aware: bool = False
    all_reduce: bool = True


def core_size(n: int) -> int:
    """Largest power of two that is at most n: the workers that take part once the extra ones are folded in."""
    return 1 << (n.bit_length() - 1)


def fold(n: int) -> tuple[list[int], tuple[Pair, ...]]:
    """Ranks that stay, and who folds into whom, when an algorithm for powers of two runs on n workers.

    With r = n - 2^floor(log2 n) extra workers, rank 2i + 1 sends its whole message to rank 2i for each i < r and waits
    for the result; neighbours, because they are the likeliest to share a server.
    """
    extra = n - core_size(n)
    pairs = tuple((2 * i + 1, 2 * i) for i in range(extra))
    return [*range(0, 2 * extra, 2), *range(2 * extra, n)], pairs


def unfold(pairs: tuple[Pair, ...]) -> tuple[Pair, ...]:
    """The way back of a fold."""
    return tuple((dst, src) for src, dst in pairs)
