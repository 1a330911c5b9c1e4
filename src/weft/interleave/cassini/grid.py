"""The paper's own way to rotate: angles in steps, demand sampled at them (Table 1). Kept to compare with.

Sampling can report a full score where the integral is below it, because an overlap shorter than a step may lie between
two samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.interleave.cassini.circle import Circle, Periods
from weft.interleave.cassini.rotate import score_at

__all__ = ["GridRotation", "rotate_on_grid"]

Floats = npt.NDArray[np.float64]
_SWEEPS = 20


@dataclass(frozen=True)
class GridRotation:
    """Shifts found on a grid of angles, the score that its samples show, and the true one at these shifts."""

    shifts_s: tuple[float, ...]
    sampled_score: float
    score: float


def rotate_on_grid(circles: Sequence[Circle], capacity: float, periods: Periods, degrees: float = 5.0) -> GridRotation:
    """Best shifts on a grid: all combinations for up to three jobs, one job at a time beyond."""
    steps = max(1, round(360.0 / degrees))
    at = (np.arange(steps) + 0.0) * periods.perimeter_s / steps
    tables = [_sampled(c, p, at) for c, p in zip(circles, periods.periods_s, strict=True)]
    choices = [max(1, steps // turns) for turns in periods.turns]
    picked = _all(tables, choices, capacity) if len(circles) <= 3 else _in_turn(tables, choices, capacity)
    summed = np.sum([np.roll(table, k) for table, k in zip(tables, picked, strict=True)], axis=0)
    sampled = 1.0 - float(np.maximum(summed - capacity, 0.0).mean()) / capacity
    shifts = tuple(k * periods.perimeter_s / steps for k in picked)
    return GridRotation(shifts, sampled, score_at(circles, capacity, shifts, periods))


def _sampled(circle: Circle, period_s: float, at: Floats) -> Floats:
    phase = np.mod(at, period_s)
    demand = np.zeros(len(at))
    for start, end, level in circle.pieces:
        demand[(phase >= start) & (phase < end)] += level
    return demand


def _rolled(table: Floats, choices: int) -> Floats:
    return np.stack([np.roll(table, k) for k in range(choices)])


def _costs(base: Floats, table: Floats, choices: int, capacity: float) -> Floats:
    costs: Floats = np.maximum(base + _rolled(table, choices) - capacity, 0.0).sum(axis=-1)
    return costs


def _all(tables: Sequence[Floats], choices: Sequence[int], capacity: float) -> list[int]:
    if len(tables) == 1:
        return [0]
    if len(tables) == 2:
        return [0, int(np.argmin(_costs(tables[0], tables[1], choices[1], capacity)))]
    best, picked = np.inf, [0, 0, 0]
    for k, second in enumerate(_rolled(tables[1], choices[1])):
        costs = _costs(tables[0] + second, tables[2], choices[2], capacity)
        if costs.min() < best:
            best, picked = float(costs.min()), [0, k, int(np.argmin(costs))]
    return picked


def _in_turn(tables: Sequence[Floats], choices: Sequence[int], capacity: float) -> list[int]:
    picked = [0] * len(tables)
    for _ in range(_SWEEPS):
        before = list(picked)
        for j in range(1, len(tables)):
            others = np.sum(
                [np.roll(t, k) for i, (t, k) in enumerate(zip(tables, picked, strict=True)) if i != j], axis=0
            )
            picked[j] = int(np.argmin(_costs(others, tables[j], choices[j], capacity)))
        if picked == before:
            break
    return picked
