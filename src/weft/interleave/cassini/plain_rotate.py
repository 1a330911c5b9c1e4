"""The readable twin of rotate_kernel.py: the same questions, answered by trying every meeting of edges.

Demands are piecewise constant, so the excess is piecewise linear in the shifts, and some optimum lies where edges meet:
for two jobs an edge of one on an edge of the other, for n jobs along a spanning tree of such meetings.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from weft.interleave.cassini.circle import Circle, Periods

__all__ = ["best_shift", "demand_at", "excess", "optimum"]


def demand_at(circle: Circle, period_s: float, shift_s: float, at_s: float) -> float:
    """Demand of a shifted circle at a moment."""
    phase = (at_s - shift_s) % period_s
    return next((demand for start, end, demand in circle.pieces if start <= phase < end), 0.0)


def _edges(circle: Circle) -> list[float]:
    return [edge for start, end, _ in circle.pieces for edge in (start, end)]


def excess(circles: Sequence[Circle], periods: Periods, capacity: float, shifts_s: Sequence[float]) -> float:
    """Demand above capacity, integrated over the perimeter: constant between neighbouring edges."""
    cuts = {0.0, periods.perimeter_s}
    for circle, period, turns, shift in zip(circles, periods.periods_s, periods.turns, shifts_s, strict=True):
        for edge in _edges(circle):
            cuts |= {((edge + shift) % period + k * period) % periods.perimeter_s for k in range(turns)}
    ordered = sorted(cuts)
    total = 0.0
    for a, b in pairwise(ordered):
        middle = 0.5 * (a + b)
        demand = sum(
            demand_at(circle, period, shift, middle)
            for circle, period, shift in zip(circles, periods.periods_s, shifts_s, strict=True)
        )
        total += max(demand - capacity, 0.0) * (b - a)
    return total


def meetings(
    circles: Sequence[Circle], periods: Periods, shifts_s: Sequence[float], job: int, other: int
) -> set[float]:
    """Shifts of a job at which one of its edges lies on one of another's."""
    return {
        (shifts_s[other] + theirs + k * periods.periods_s[other] - mine) % periods.periods_s[job]
        for theirs in _edges(circles[other])
        for k in range(periods.turns[other])
        for mine in _edges(circles[job])
    }


def best_shift(
    circles: Sequence[Circle], periods: Periods, capacity: float, shifts_s: Sequence[float], job: int
) -> tuple[float, float]:
    """(shift, cost): the best place of one job among the others, which stay where they are."""
    tried = {0.0}
    for other in range(len(circles)):
        if other != job:
            tried |= meetings(circles, periods, shifts_s, job, other)
    costs = {}
    for shift in sorted(tried):
        moved = [*shifts_s[:job], shift, *shifts_s[job + 1 :]]
        costs[shift] = excess(circles, periods, capacity, moved)
    best = min(costs, key=costs.__getitem__)
    return best, costs[best]


def optimum(circles: Sequence[Circle], periods: Periods, capacity: float) -> float:
    """The least excess of all shifts, by trying every spanning tree of meetings. For a few jobs with few arcs."""
    return _search(circles, periods, capacity, [0.0] * len(circles), {0})


def _search(
    circles: Sequence[Circle], periods: Periods, capacity: float, shifts_s: list[float], placed: set[int]
) -> float:
    if len(placed) == len(circles):
        return excess(circles, periods, capacity, shifts_s)
    lowest = float("inf")
    for job in set(range(len(circles))) - placed:
        for other in placed:
            for shift in meetings(circles, periods, shifts_s, job, other) | {0.0}:
                moved = [*shifts_s[:job], shift, *shifts_s[job + 1 :]]
                lowest = min(lowest, _search(circles, periods, capacity, moved, placed | {job}))
    return lowest
