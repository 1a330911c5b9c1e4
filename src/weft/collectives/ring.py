"""Ring all-reduce: reduce-scatter, then all-gather, around a ring; bandwidth-optimal, 2(N-1) steps."""

from __future__ import annotations

from weft.collectives.base import Stage, Stages

__all__ = ["stages"]


def stages(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """2(n-1) steps between the same neighbours, one chunk of M/n each: every edge carries 2(n-1)/n M."""
    if n < 2:
        return ()
    return (Stage(message_bytes / n, tuple((r, (r + 1) % n) for r in range(n)), 2 * (n - 1)),)
