"""Shifts for groups whose links make loops: the least damage that one shift per job can do to all links together.

CASSINI discards such candidates (section 4.2). Here jobs move one after another to where their links lose least in all;
the places tried are those at which an edge of the job meets one of another job on a link, because the sum of scores is
piecewise linear between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from weft.interleave.cassini.rotate import Problem, score_at

__all__ = ["settle", "total_score"]

Links = Sequence[tuple[Sequence[str], Problem]]
_SWEEPS = 8
_EVEN = 1e-9


def total_score(links: Links, shifts_s: Mapping[str, float]) -> float:
    """Sum of the scores of links at these shifts; jobs without a shift are not there yet."""
    total = []
    for jobs, (circles, capacity, periods) in links:
        here = [i for i, job in enumerate(jobs) if job in shifts_s]
        if len(here) == len(jobs):
            total.append(score_at(circles, capacity, [shifts_s[job] for job in jobs], periods))
        elif len(here) > 1:
            shifts = [shifts_s.get(job, 0.0) for job in jobs]
            some = [circle if i in here else type(circle)(circle.period_s, ()) for i, circle in enumerate(circles)]
            total.append(score_at(some, capacity, shifts, periods))
        else:
            total.append(1.0)
    return math.fsum(total)


def settle(links: Links, starts: Sequence[Mapping[str, float]], periods_s: Mapping[str, float]) -> dict[str, float]:
    """The best shifts reached from several starts; an empty start places jobs one after another."""
    jobs = list(dict.fromkeys(job for members, _ in links for job in members))
    best: dict[str, float] = {}
    highest = -math.inf
    for start in starts:
        now = dict(start)
        for job in jobs:
            if job not in now:
                now[job] = _best_place(links, now, job, periods_s, centre=False)
        for sweep in range(_SWEEPS):
            before = dict(now)
            for job in jobs[1:]:
                now[job] = _best_place(links, now, job, periods_s, centre=sweep >= _SWEEPS // 2)
            if before == now and sweep >= _SWEEPS // 2:
                break
        found = total_score(links, now)
        if found > highest + _EVEN:
            best, highest = now, found
    return best


def _best_place(
    links: Links, now: Mapping[str, float], job: str, periods_s: Mapping[str, float], centre: bool
) -> float:
    """Where a job does least harm among the others that are placed.

    It stays where it is if that is as good; with `centre` it takes the middle of the widest of its best stretches.
    """
    mine = [(jobs, problem) for jobs, problem in links if job in jobs]
    period = periods_s[job]
    places = {now.get(job, 0.0) % period}
    for jobs, (circles, _, periods) in mine:
        own = [e for start, end, _ in circles[jobs.index(job)].pieces for e in (start, end)]
        for other, circle, other_period, turns in zip(jobs, circles, periods.periods_s, periods.turns, strict=True):
            if other == job or other not in now:
                continue
            edges = [
                e + k * other_period for start, end, _ in circle.pieces for e in (start, end) for k in range(turns)
            ]
            places |= {(now[other] + theirs - e) % period for theirs in edges for e in own}
    order = sorted(places)
    scores = [total_score(mine, {**now, job: place}) for place in order]
    good = [score >= max(scores) - _EVEN for score in scores]
    held = now.get(job, 0.0) % period
    if all(good) or (not centre and job in now and good[order.index(held)]):
        return held
    return _middle(order, good, period) if centre else order[good.index(True)]


def _middle(order: Sequence[float], good: Sequence[bool], period: float) -> float:
    n = len(order)
    first = good.index(False)
    widest, middle = -1.0, 0.0
    begun: float | None = None
    for k in range(1, n + 1):
        i = (first + k) % n
        at = order[i] + (period if i <= first else 0.0)
        if not good[i]:
            begun = None
            continue
        begun = at if begun is None else begun
        if at - begun > widest:
            widest, middle = at - begun, 0.5 * (begun + at)
    return middle % period
