"""All-to-all: every worker has a different part of its message for every other one (embeddings, experts)."""

from __future__ import annotations

from weft.collectives.base import Stage, Stages

__all__ = ["stages"]


def stages(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """One stage: M/n from every worker to every other, all at once; the part for itself stays where it is."""
    if n < 2:
        return ()
    return (Stage(message_bytes / n, tuple((a, b) for a in range(n) for b in range(n) if a != b)),)
