"""Recursive halving and doubling: reduce-scatter by halves, then all-gather back the same way."""

from __future__ import annotations

from weft.collectives.base import Stage, Stages, core_size, fold, unfold

__all__ = ["stages"]


def stages(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """Exchanges of M/2 with the worker half the group away, M/4 a quarter away, ..., and back in reverse.

    (The order of the Titan paper, section II: of four workers the first meets the third with K/2, then the second with
    K/4.) Workers beyond a power of two send their message to a neighbour first and get the result at the end.
    """
    if n < 2:
        return ()
    ranks, folded = fold(n)
    core = core_size(n)
    halving = []
    distance, size = core // 2, message_bytes / 2
    while distance:
        halving.append(Stage(size, tuple((ranks[i], ranks[i ^ distance]) for i in range(core))))
        distance, size = distance // 2, size / 2
    both = (*halving, *reversed(halving))
    if not folded:
        return both
    return (Stage(message_bytes, folded), *both, Stage(message_bytes, unfold(folded)))
