"""Alignment: the shifts and periods that the jobs of a group will keep, and whether keeping them is worth it.

Idle time that is added to iterations (padding) is a cost like excess demand. Of the periods tried, those with the least
sum of both are kept, and no gate is set where the jobs would lose less if nobody shifted them.

CASSINI discards candidates in which the links of a group form a loop (section 4.2). Here jobs move one after another to
the shift at which their links lose least in total. The shifts tried are those at which an edge of the job's demand
meets an edge of another job's, because the sum of scores is piecewise linear between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.interleave.cassini.affinity import components, unique_shifts
from weft.interleave.cassini.circle import Circle
from weft.interleave.cassini.layout import (
    Group,
    Layout,
    Meeting,
    circles_of,
    headroom,
    problem_of,
    with_the_others,
)
from weft.interleave.cassini.rotate import Problem, Rotation, rotate, score_at, uniform_score

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
    """The shift at which a job does least harm to the others that are placed.

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


COMPATIBLE = 0.999  # score from which jobs are held to their slots; below, only in periods with room for the rest
MARGIN = 1.1  # room beyond what is held up: iterations vary, and who misses a slot loses a whole period
_SCALES = 6
_STRETCHES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)  # of the part of a period that is short


@dataclass(frozen=True)
class Alignment:
    """Jobs that keep step: periods, shifts, the worst score on their links.

    `loss` is what an iteration loses with these shifts (excess and idle time, relative, summed over jobs), `loss_free`
    without any; `held`: jobs can keep these periods, so they are held to slots; `looped`: their links make loops;
    `forgone` is the score that links lose because of them, summed.
    """

    jobs: tuple[str, ...]
    periods_s: Mapping[str, float]
    shifts_s: Mapping[str, float]
    score: float
    loss: float
    loss_free: float
    held: bool
    looped: bool = False
    forgone: float = 0.0

    @property
    def pays(self) -> bool:
        """Whether it is better than leaving the jobs alone."""
        return self.loss < self.loss_free - 1e-12


def align(layout: Layout, group: Group, padding: float, consensus: bool) -> list[Alignment]:
    """One alignment per part of the group whose jobs fit each other; loops only by consensus, else left out."""
    kept = [[job for job in m.jobs if job in group.periods_s] for m in group.meetings]
    able = [i for i, jobs in enumerate(kept) if len(jobs) > 1]
    found = []
    for part in components([kept[i] for i in able]):
        meetings = [group.meetings[able[i]] for i in part.links]
        if part.is_tree or consensus:
            around = [m for m in group.meetings if not set(part.jobs).isdisjoint(m.jobs)]
            found.append(_best_periods(layout, meetings, around, part.jobs, group.periods_s, padding, not part.is_tree))
    return found


def _best_periods(
    layout: Layout,
    meetings: Sequence[Meeting],
    around: Sequence[Meeting],
    jobs: Sequence[str],
    periods_s: Mapping[str, float],
    padding: float,
    looped: bool,
) -> Alignment:
    """The best periods within `padding`; where jobs cannot keep even those, longer ones, if that pays.

    `around` are all meetings of these jobs: also those with jobs that drift past. Demand that does not fit (1 - score
    of a period, at most) is sent later all the same, so iterations of partly compatible jobs grow by up to that much
    whatever is done. Periods with room for it cost no more, and hold the jobs where they meet least.
    """
    time = {job: layout.traffic[job].iteration_s for job in jobs}
    need = 1.0 + max(headroom([layout.traffic[job] for job in m.jobs]) for m in around)
    free = _unshifted(layout, around, jobs)
    grows = [_growth(m) for m in around]

    def tried(scale: float) -> Alignment:
        periods = {job: periods_s[job] * scale for job in jobs}
        shifts, forgone = _shifts(layout, meetings, periods, looped)
        scores = [_score(layout, m, periods, shifts) for m in around]
        lost = {job: max(1.0 - s for m, s in zip(around, scores, strict=True) if job in m.jobs) for job in jobs}
        late = {job: max(g * (1.0 - s) for m, g, s in zip(around, grows, scores, strict=True) if job in m.jobs)
                for job in jobs}  # fmt: skip
        kept = all(periods[job] * (1.0 - late[job]) >= time[job] * need for job in jobs)
        idle = [periods[job] / time[job] - 1.0 for job in jobs]
        loss = math.fsum(idle if kept else [lost[job] + extra for job, extra in zip(jobs, idle, strict=True)])
        held = kept or min(scores) >= COMPATIBLE
        return Alignment(tuple(jobs), periods, shifts, min(scores), loss, free, held, looped, forgone)

    room = max(1.0, min((1.0 + padding) * time[job] / periods_s[job] for job in jobs))
    best = first = tried(1.0)
    scales = [1.0 + (room - 1.0) * k / _SCALES for k in range(1, _SCALES + 1)] if room > 1.0 + 1e-9 else []
    for scale in scales if first.score < 1.0 - 1e-9 else ():
        found = tried(scale)
        best = found if found.loss < best.loss - 1e-9 else best
        if found.score >= 1.0 - 1e-9:
            break  # more idle time gains nothing
    if not best.held and padding > 0:
        for part in _STRETCHES:
            found = tried(1.0 + (1.0 - first.score) * part)
            if found.held:
                return found if found.pays else best
    return best


def _growth(meeting: Meeting) -> float:
    """The most by which a delay can exceed the excess demand: a job that is delayed overlaps the next one for longer.

    Two jobs that send at rate a on a link of capacity C and overlap for o seconds of a period each need
    e = (1 - C / 2a) (o + 2 e) longer, which is C / 2 (C - a) times the excess (2a - C) o / C. It grows in
    proportion with the number of jobs.
    """
    worst = 1.0
    for capacity, arcs in meeting.problems:
        peak = max(rate for mine in arcs for _, _, rate in mine)
        left = max(1.0 - peak / capacity, 1e-9)
        worst = max(worst, 0.5 * (len(meeting.jobs) - 1) / left)
    return MARGIN * worst


def _unshifted(layout: Layout, meetings: Sequence[Meeting], jobs: Sequence[str]) -> float:
    """What iterations lose when nobody is shifted: the excess averaged over all positions."""
    lost = dict.fromkeys(jobs, 0.0)
    for meeting in meetings:
        for i, (capacity, _) in enumerate(meeting.problems):
            loss = 1.0 - uniform_score(list(circles_of(meeting, i, layout, {}).values()), capacity)
            for job in meeting.jobs:
                if job in lost:
                    lost[job] = max(lost[job], loss)
    return math.fsum(lost.values())


def _shifts(
    layout: Layout, meetings: Sequence[Meeting], periods_s: Mapping[str, float], looped: bool
) -> tuple[dict[str, float], float]:
    """Algorithm 1 over the tightest link of each meeting; where there are loops, a consensus from there."""
    wanted: list[dict[str, float]] = []
    tightest: list[tuple[list[str], Problem]] = []
    best = 0.0
    for meeting in meetings:
        solved: list[tuple[Rotation, Problem]] = []
        for i in range(len(meeting.problems)):
            problem = problem_of(meeting, i, layout, periods_s)
            if problem is not None:
                solved.append((rotate(*problem), problem))
        rotation, problem = min(solved, key=lambda pair: pair[0].score)
        jobs = [job for job in meeting.jobs if job in periods_s]
        wanted.append(dict(zip(jobs, rotation.shifts_s, strict=True)))
        tightest.append((jobs, problem))
        best += rotation.score
    shifts = unique_shifts(wanted, periods_s)
    if not looped:
        return shifts, 0.0
    shifts = settle(tightest, [shifts, {}], periods_s)
    return shifts, best - total_score(tightest, shifts)


def _score(layout: Layout, meeting: Meeting, periods_s: Mapping[str, float], shifts_s: Mapping[str, float]) -> float:
    """The worst link of a meeting at these shifts, with jobs that drift past."""
    worst = math.inf
    for i, (capacity, _) in enumerate(meeting.problems):
        circles: dict[str, Circle] = circles_of(meeting, i, layout, periods_s)
        worst = min(worst, with_the_others(circles, {j: shifts_s[j] for j in circles if j in shifts_s}, capacity))
    return worst
