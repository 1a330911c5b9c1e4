"""Rotation: how well circles fit on a link, and the shifts with which they fit best (CASSINI Table 1, exactly).

Demands are piecewise constant, so the excess is piecewise linear in the shifts, and some optimum lies where edges meet:
for two jobs an edge of one on an edge of the other, for n jobs along a spanning tree of such meetings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from weft.kernels import load
from weft.policies.interleave.cassini.circle import Circle, Periods, common_periods

RESTARTS = 12
WORK = 80_000  # edges that the exact search for three jobs and more looks at before it gives up: about 10 ms


@dataclass(frozen=True)
class Rotation:
    """The best rotations found on one link.

    `score` is 1 - mean excess / capacity at `shifts_s` (below 0 where jobs overload the link grossly); no shifts reach
    more than `bound`, and `exact` says that they are the same. `slack_s`: by how much any one job may be
    early or late without loss.
    """

    score: float
    shifts_s: tuple[float, ...]
    perimeter_s: float
    slack_s: float
    exact: bool
    bound: float


def rotate(
    circles: Sequence[Circle],
    capacity: float,
    periods: Periods | None = None,
    restarts: int = RESTARTS,
    work: int = WORK,
) -> Rotation:
    """Rotations of circles on a link; `periods` are those that the jobs keep (default: their own, as they are)."""
    periods = periods or common_periods([c.period_s for c in circles])
    if not periods.fit:
        score = uniform_score(circles, capacity)
        return Rotation(score, (0.0,) * len(circles), periods.perimeter_s, 0.0, True, score)
    sends = [j for j, circle in enumerate(circles) if circle.pieces]
    if 2 < len(circles) > len(sends) > 0:  # a job that sends nothing has no edge at which others could be placed
        kept = replace(periods, periods_s=tuple(periods.periods_s[j] for j in sends),
                       repeats=tuple(periods.repeats[j] for j in sends))  # fmt: skip
        some = rotate([circles[j] for j in sends], capacity, kept, restarts, work)
        placed = dict(zip(sends, some.shifts_s, strict=True))
        return replace(some, shifts_s=tuple(placed.get(j, 0.0) for j in range(len(circles))))
    shifts, cost, slack, exact, bound = _kernel("rotate").solve(_packed(circles, capacity, periods), restarts, work)
    whole = capacity * periods.perimeter_s
    slack = min(slack, *(0.5 * p for p in periods.periods_s))
    found = tuple(float(s) for s in shifts)
    return Rotation(1.0 - cost / whole, found, periods.perimeter_s, float(slack), bool(exact), 1.0 - bound / whole)


Problem = tuple[Sequence[Circle], float, Periods]


def rotate_all(
    problems: Sequence[Problem], threads: int = 1, restarts: int = RESTARTS, work: int = WORK
) -> list[Rotation]:
    """Many links at once, in parallel (Algorithm 2, line 2); the result does not depend on the number of threads."""

    def some(part: Sequence[Problem]) -> list[Rotation]:
        return [rotate(*problem, restarts, work) for problem in part]

    if threads <= 1 or len(problems) < 32:
        return some(problems)
    with ThreadPoolExecutor(threads) as pool:
        parts = pool.map(some, (problems[i : i + 16] for i in range(0, len(problems), 16)))
        return [rotation for part in parts for rotation in part]


Links = Sequence[tuple[Sequence[str], Problem]]  # the jobs of each link, and its problem
_SWEEPS = 16


def settle(links: Links, starts: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], float]:
    """One shift per job with the best sum of the links' scores, and that sum.

    Where links make a loop, there may be no shifts that suit them all. From each start jobs move one after another to
    the place that is best for all of their links together; an empty start places them one by one.
    """
    jobs = list(dict.fromkeys(job for members, _ in links for job in members))
    number = {job: j for j, job in enumerate(jobs)}
    packed = [_packed(*problem) for _, problem in links]
    sizes = [len(members) for members, _ in links]
    pieces = np.cumsum([0, *(len(p.starts) for p in packed)])
    members = np.array([number[job] for some, _ in links for job in some], np.int64)
    fields = [p._replace(first=p.first + offset) for p, offset in zip(packed, pieces, strict=False)]
    net = _kernel("settle").Net(
        _kernel("settle").PackedLinks(*(np.hstack(field) for field in zip(*fields, strict=True))), members,
        np.cumsum([0, *sizes]), np.repeat(np.arange(len(links)), sizes),
    )  # fmt: skip
    uses = np.argsort(members, kind="stable")
    first_use = np.searchsorted(members[uses], np.arange(len(jobs) + 1))
    best, least = np.zeros(len(jobs)), math.inf
    for start in starts:
        shifts = np.array([start.get(job, 0.0) for job in jobs])
        placed = np.array([job in start for job in jobs])
        cost = _kernel("settle").settle(net, first_use, uses, shifts, placed, _SWEEPS)
        if cost < least - 1e-9:
            best, least = shifts, cost
    return dict(zip(jobs, best.tolist(), strict=True)), len(links) - least


def score_at(circles: Sequence[Circle], capacity: float, shifts_s: Sequence[float], periods: Periods) -> float:
    """The score at given shifts, by exact integral."""
    packed = _packed(circles, capacity, periods)
    cost = _kernel("rotate").excess(packed, np.array(shifts_s, np.float64), np.ones(len(circles), np.bool_))
    return float(1.0 - cost / (capacity * periods.perimeter_s))


def uniform_score(circles: Sequence[Circle], capacity: float) -> float:
    """The score averaged over all relative positions: that of jobs that are not shifted, or that drift."""
    levels: dict[float, float] = {0.0: 1.0}  # demand: probability
    for circle in circles:
        own = [(demand, (end - start) / circle.period_s) for start, end, demand in circle.pieces]
        own.append((0.0, 1.0 - math.fsum(p for _, p in own)))
        joint: dict[float, float] = {}
        for level, p in levels.items():
            for demand, q in own:
                if q > 0.0:
                    key = min(level + demand, 1e6 * capacity)
                    joint[key] = joint.get(key, 0.0) + p * q
        levels = joint
    return 1.0 - math.fsum(max(level - capacity, 0.0) * p for level, p in levels.items()) / capacity


def _kernel(name: str) -> Any:
    return load(f"weft.policies.interleave.cassini.{name}_kernel")


def _packed(circles: Sequence[Circle], capacity: float, periods: Periods) -> Any:
    pieces = [piece for circle in circles for piece in circle.pieces]
    table = np.array(pieces, np.float64).reshape(len(pieces), 3).T.copy()
    first = np.array([0, *accumulate(len(circle.pieces) for circle in circles)], np.int64)
    return _kernel("rotate").Link(
        *table, first, np.array(periods.periods_s), np.array(periods.repeats, np.int64),
        float(periods.perimeter_s), float(capacity),
    )  # fmt: skip
