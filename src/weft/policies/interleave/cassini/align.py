"""Alignment: the shifts and periods that the jobs of a group will keep, and whether keeping them is worth it.

Idle time that is added to iterations (padding) is a cost like excess demand. Of the periods tried, those with the least
sum of both are kept, and no gate is set where the jobs would lose less if they were not shifted.

CASSINI discards candidates in which the links of a group form a loop (section 4.2). Hardly any placement of a cluster
is free of loops, so by default a looping group gets the shifts on which its links disagree least (`settle`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.policies.interleave.cassini.affinity import components, unique_shifts
from weft.policies.interleave.cassini.layout import (
    Group,
    Layout,
    Meeting,
    circles_of,
    headroom,
    problem_of,
    worst_score,
)
from weft.policies.interleave.cassini.rotate import RESTARTS, WORK, Problem, Rotation, rotate, settle, uniform_score

COMPATIBLE = 0.999  # score from which jobs are held to their gates; below it only if periods have room for the rest
MARGIN = 1.1  # room beyond what is delayed, as iterations vary and a job that misses an opening loses a whole period
_SCALES = 6
_MANY = 64  # jobs of a looping group: with more, no longer periods and no second start are tried
_STRETCHES = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)  # periods tried: longer by these parts of what is missing


@dataclass(frozen=True)
class Alignment:
    """Jobs that keep step: periods, shifts, the worst score on their links.

    `loss` is what an iteration loses with these shifts (excess and idle time, relative, summed over jobs), `loss_free`
    without any; `held`: jobs can keep these periods, so they are held to gates; `looped`: their links make loops;
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
        if consensus or not part.loops:
            around = [m for m in group.meetings if not set(part.jobs).isdisjoint(m.jobs)]
            found.append(_best_periods(layout, meetings, around, part.jobs, group.periods_s, padding, part.loops > 0))
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

    `around` holds all meetings of these jobs, including those with jobs that drift past. Demand that does not fit (1 -
    score of a period, at most) is sent later all the same, so iterations of partly compatible jobs grow by up to that
    much whatever is done. Periods with room for it cost no more, and hold the jobs where they meet least.
    """
    time = {job: layout.traffic[job].iteration_s for job in jobs}
    need = 1.0 + max(headroom([layout.traffic[job] for job in m.jobs]) for m in around)
    free = _unshifted(layout, around, jobs)
    grows = [_growth(m) for m in around]

    def tried(scale: float) -> Alignment:
        periods = {job: periods_s[job] * scale for job in jobs}
        shifts, forgone = _shifts(layout, meetings, periods, looped)
        scores = [worst_score(m, layout, periods, shifts) for m in around]
        lost, late = dict.fromkeys(jobs, -math.inf), dict.fromkeys(jobs, -math.inf)
        for m, grow, score in zip(around, grows, scores, strict=True):
            for job in lost.keys() & m.jobs:
                lost[job] = max(lost[job], 1.0 - score)
                late[job] = max(late[job], grow * (1.0 - score))
        kept = all(periods[job] * (1.0 - late[job]) >= time[job] * need for job in jobs)
        idle = [periods[job] / time[job] - 1.0 for job in jobs]
        loss = math.fsum(idle if kept else [lost[job] + extra for job, extra in zip(jobs, idle, strict=True)])
        held = kept or min(scores) >= COMPATIBLE
        return Alignment(tuple(jobs), periods, shifts, min(scores), loss, free, held, looped, forgone)

    room = max(1.0, min((1.0 + padding) * time[job] / periods_s[job] for job in jobs))
    best = first = tried(1.0)
    if looped and len(jobs) > _MANY:
        return first
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
    """What iterations lose when no job is shifted: the excess averaged over all positions."""
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
                effort = (3, 0) if looped else (RESTARTS, WORK)  # a loop changes these shifts again
                solved.append((rotate(*problem, *effort), problem))
        rotation, problem = min(solved, key=lambda pair: pair[0].score)
        jobs = [job for job in meeting.jobs if job in periods_s]
        wanted.append(dict(zip(jobs, rotation.shifts_s, strict=True)))
        tightest.append((jobs, problem))
        best += rotation.score
    shifts = unique_shifts(wanted, periods_s)
    if not looped:
        return shifts, 0.0
    shifts, total = settle(tightest, [shifts] if len(shifts) > _MANY else [shifts, {}])
    return shifts, best - total
