"""Recursive doubling: whole messages exchanged with partners 1, 2, 4, ... away; log2 N steps, for small messages."""

from __future__ import annotations

from weft.collectives.base import Stage, Stages, core_size, fold, unfold

__all__ = ["stages"]


def stages(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """log2 n exchanges of the whole message; workers beyond a power of two fold into a neighbour first."""
    if n < 2:
        return ()
    ranks, folded = fold(n)
    core = core_size(n)
    exchanges = []
    distance = 1
    while distance < core:
        exchanges.append(Stage(message_bytes, tuple((ranks[i], ranks[i ^ distance]) for i in range(core))))
        distance *= 2
    if not folded:
        return tuple(exchanges)
    return (Stage(message_bytes, folded), *exchanges, Stage(message_bytes, unfold(folded)))
