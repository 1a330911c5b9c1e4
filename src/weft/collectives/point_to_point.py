"""Point to point: one worker sends its message to another (pipeline stages), or one half of them to the other half."""

from __future__ import annotations

from weft.collectives.base import Stage, Stages
from weft.errors import InputError

__all__ = ["stages"]


def stages(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """The whole message from rank i to rank i + n/2: of two workers from the first to the second, of more (replicas
    of two pipeline stages) pairwise."""
    if n < 2:
        return ()
    if n % 2:
        raise InputError(f"collective point-to-point: it has {n} workers; give senders, then as many receivers")
    half = n // 2
    return (Stage(message_bytes, tuple((r, r + half) for r in range(half))),)
