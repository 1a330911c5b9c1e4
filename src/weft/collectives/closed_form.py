"""Time of an all-reduce alone on uniform links: T = a + b M (Ada-SRSF paper, equation 2 and Table I)."""

from __future__ import annotations

from math import log2

from weft.errors import InputError

__all__ = ["CLOSED_FORMS", "closed_form"]

CLOSED_FORMS = ("tree", "recursive-doubling", "halving-doubling", "ring")


def closed_form(algorithm: str, n: int, alpha: float, beta: float, gamma: float = 0.0) -> tuple[float, float]:
    """(a, b) of Table I: alpha seconds per message, beta seconds per byte sent, gamma seconds per byte added up.

    The table is for powers of two. For other numbers this continues it smoothly, which is less than whole rounds take.
    """
    if n < 1:
        raise InputError(f"collective {algorithm}: it has {n} workers; give at least 1")
    rounds = log2(n)
    if algorithm == "tree":
        return 2 * alpha * rounds, (2 * beta + gamma) * rounds
    if algorithm == "recursive-doubling":
        return alpha * rounds, (beta + gamma) * rounds
    if algorithm == "halving-doubling":
        return 2 * alpha * rounds, 2 * beta - (2 * beta + gamma) / n + gamma
    if algorithm == "ring":
        return 2 * (n - 1) * alpha, 2 * (n - 1) / n * beta + (n - 1) / n * gamma
    raise InputError(f"collective {algorithm!r} has no closed form; choose one of {', '.join(CLOSED_FORMS)}")
