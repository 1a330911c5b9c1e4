"""Compat: how compatible jobs are on one link, and what it takes to keep them so. `weft compat` prints it.

`rotate_on_grid` is the paper's own way to rotate (Table 1): angles in steps, with demand sampled at them. It is kept
for comparison. Sampling can report a full score where the integral is below it, because an overlap that is shorter than
a step may lie between two samples.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.policies.interleave.cassini.circle import Circle, Periods, common_periods, padded_periods
from weft.policies.interleave.cassini.rotate import Rotation, rotate, score_at, uniform_score

Floats = npt.NDArray[np.float64]
_SWEEPS = 20


@dataclass(frozen=True)
class GridRotation:
    """Shifts found on a grid of angles, the score that its samples show, and the true one at these shifts."""

    shifts_s: tuple[float, ...]
    sampled_score: float
    score: float


def rotate_on_grid(circles: Sequence[Circle], capacity: float, periods: Periods, degrees: float = 5.0) -> GridRotation:
    """Best shifts on a grid, with the score by exact integral."""
    shifts, sampled = grid_shifts(circles, capacity, periods, degrees)
    return GridRotation(shifts, sampled, score_at(circles, capacity, shifts, periods))


def grid_shifts(
    circles: Sequence[Circle], capacity: float, periods: Periods, degrees: float = 5.0
) -> tuple[tuple[float, ...], float]:
    """Best shifts on a grid, and the score of its samples: all combinations for up to three jobs, one job at a time
    beyond. A job that repeats more often than the grid has angles is sampled as it comes, and not shifted."""
    steps = max(1, round(360.0 / degrees))
    at = (np.arange(steps) + 0.0) * periods.perimeter_s / steps
    tables = [_sampled(c, p, at) for c, p in zip(circles, periods.periods_s, strict=True)]
    choices = [max(1, steps // repeats) for repeats in periods.repeats]
    picked = _all(tables, choices, capacity) if len(circles) <= 3 else _in_turn(tables, choices, capacity)
    summed = np.sum([np.roll(table, k) for table, k in zip(tables, picked, strict=True)], axis=0)
    sampled = 1.0 - float(np.maximum(summed - capacity, 0.0).mean()) / capacity
    return tuple(k * periods.perimeter_s / steps for k in picked), sampled


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


_WORK = 4_000_000  # more than in a scheduler, because nothing waits for the answer


@dataclass(frozen=True)
class Compat:
    """The answer: periods kept, rotations, the score without any shift (averaged over positions), the paper's grid."""

    jobs: tuple[str, ...]
    circles: tuple[Circle, ...]
    capacity: float
    periods: Periods
    rotation: Rotation
    unshifted: float
    grid: GridRotation | None
    wall_s: float

    def to_dict(self) -> dict[str, object]:
        """What `weft compat --json` prints."""
        found = self.rotation
        answer: dict[str, object] = {
            "score": found.score,
            "perimeter_s": found.perimeter_s,
            "shifts_s": dict(zip(self.jobs, found.shifts_s, strict=True)),
            "slack_s": found.slack_s,
            "exact": found.exact,
            "bound": found.bound,
            "wall_s": self.wall_s,
            "fits": self.periods.fit,
            "score_unshifted": self.unshifted,
            "periods_s": dict(zip(self.jobs, self.periods.periods_s, strict=True)),
            "padding_s": dict(zip(self.jobs, self.periods.padding_s, strict=True)),
            "drift_s": dict(zip(self.jobs, self.periods.drift_s, strict=True)),
        }
        if self.grid is not None:
            answer["grid"] = {
                "score": self.grid.score,
                "sampled_score": self.grid.sampled_score,
                "shifts_s": dict(zip(self.jobs, self.grid.shifts_s, strict=True)),
            }
        return answer


def compat(
    circles: Mapping[str, Circle],
    capacity: float,
    quantum_s: float = 1e-6,
    padding: float = 0.0,
    grid_degrees: float | None = None,
) -> Compat:
    """Compatibility of jobs on a link.

    With `padding`, iterations may be made longer by that part so that their circles fit; else iteration times are
    rounded to `quantum_s` and the perimeter is their least common multiple.
    """
    began = time.perf_counter()
    shapes = list(circles.values())
    times = [circle.period_s for circle in shapes]
    periods = padded_periods(times, padding) if padding > 0 else common_periods(times, quantum_s)
    if not periods.fit and padding > 0:
        periods = common_periods(times, quantum_s)
    found = rotate(shapes, capacity, periods, work=_WORK)
    grid = rotate_on_grid(shapes, capacity, periods, grid_degrees) if grid_degrees and periods.fit else None
    alone = uniform_score(shapes, capacity)
    wall_s = time.perf_counter() - began
    return Compat(tuple(circles), tuple(shapes), capacity, periods, found, alone, grid, wall_s)
