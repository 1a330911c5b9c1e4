"""Stage: messages of a collective that travel at the same time."""

from __future__ import annotations

from dataclasses import dataclass

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
