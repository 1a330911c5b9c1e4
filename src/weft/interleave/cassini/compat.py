"""Compat: how compatible jobs are on one link, with what it takes to keep them so. `weft compat` prints it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from weft.interleave.cassini.circle import Circle, Periods, common_periods, padded_periods
from weft.interleave.cassini.grid import GridRotation, rotate_on_grid
from weft.interleave.cassini.rotate import Rotation, rotate, uniform_score

__all__ = ["Compat", "compat"]

_WORK = 4_000_000  # nobody waits for a scheduler here


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
