"""Layout: one candidate plan as CASSINI sees it: which jobs meet on which links, with which circles and periods."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.model.flows import Arcs, Traffic
from weft.model.plan import Placement
from weft.model.view import ClusterView
from weft.policies.interleave.cassini.affinity import Component, components, merged
from weft.policies.interleave.cassini.circle import FRACTIONS, Circle, Periods
from weft.policies.interleave.cassini.rotate import Problem, Rotation, rotate_all, score_at, uniform_score

TOLERANCE = 0.05  # fraction of a period: a job that is later waits for its next opening (section 5.7)
_RATIOS = sorted({q for q, _, _ in FRACTIONS} | {1.0 / q for q, _, _ in FRACTIONS})


@dataclass
class Meeting:
    """Links that carry the same jobs: one vertex of the affinity graph.

    `problems` are the different ways in which these links are used, as (capacity, arcs of each job). Links that even
    the peaks of all jobs together cannot fill are left out. `score` is the worst score of the links that are left.
    """

    jobs: tuple[str, ...]
    problems: list[tuple[float, tuple[Arcs, ...]]]
    score: float = 1.0
    shifts_s: dict[str, float] = field(default_factory=dict)


@dataclass
class Group:
    """A connected part of the graph: its meetings, and the period that each of its jobs would keep.

    `periods_s` has no entry for jobs that fit no other job's period: these are left alone.
    """

    part: Component
    meetings: list[Meeting]
    periods_s: dict[str, float]


@dataclass
class Layout:
    """A candidate: the iteration of each job, groups of jobs that meet, and the compatibility score."""

    traffic: dict[str, Traffic]
    groups: list[Group]
    free_meetings: int  # meetings on links that cannot be filled: their score is 1
    loops: int = 0

    def score(self, tail: bool = False) -> float:
        """Mean over link vertices (Algorithm 2, line 24), or the worst of them; 1 where no jobs meet."""
        scores = [m.score for g in self.groups for m in g.meetings]
        if tail or not scores:
            return min(scores, default=1.0)
        return (math.fsum(scores) + self.free_meetings) / (len(scores) + self.free_meetings)


def traffic_of(view: ClusterView, plans: Sequence[Mapping[str, Placement]]) -> list[dict[str, Traffic]]:
    """The traffic of the jobs of each plan that send anything; the same job on the same GPUs is asked for once."""
    known: dict[tuple[str, Placement], Traffic] = {}
    found = []
    for placements in plans:
        mine = {}
        for job_id, gpus in placements.items():
            if len(gpus) > 1:
                if (job_id, gpus) not in known:
                    known[job_id, gpus] = view.traffic(view.job(job_id).job, gpus)
                if known[job_id, gpus].task is not None:
                    mine[job_id] = known[job_id, gpus]
        found.append(mine)
    return found


def lay_out(traffic: dict[str, Traffic], capacity: npt.NDArray[np.float64], padding: float) -> Layout:
    """The layout of jobs with this traffic on links of this capacity."""
    users: dict[int, list[str]] = {}
    for job, found in traffic.items():
        for link in found.links:
            users.setdefault(link, []).append(job)
    meetings: list[Meeting] = []
    idle = 0
    distinct = {id(arcs): arcs for found in traffic.values() for arcs in found.links.values()}  # links share arcs
    peak = {known: max(rate for _, _, rate in arcs) for known, arcs in distinct.items()}
    for jobs, links in merged(users).items():
        problems: dict[tuple[float, tuple[Arcs, ...]], None] = {}
        for link in links:
            arcs = tuple(traffic[job].links[link] for job in jobs)
            room = float(capacity[link])
            if math.fsum([peak[id(a)] for a in arcs]) > room * (1 + 1e-9):
                problems[room, arcs] = None
        if problems:
            meetings.append(Meeting(jobs, list(problems)))
        else:
            idle += 1
    groups = []
    loops = 0
    for part in components([m.jobs for m in meetings]):
        mine = [meetings[i] for i in part.links]
        groups.append(Group(part, mine, periods_of(part, mine, traffic, padding)))
        kept = [[j for j in m.jobs if j in groups[-1].periods_s] for m in mine]
        loops += sum(c.loops for c in components([jobs for jobs in kept if len(jobs) > 1]))
    return Layout(traffic, groups, idle, loops)


def periods_of(
    part: Component, meetings: list[Meeting], traffic: Mapping[str, Traffic], padding: float
) -> dict[str, float]:
    """Periods in small ratios for jobs that meet, none more than `padding` longer than the iteration needs.

    Found along the graph, from the longest iteration outwards: only jobs that meet must fit each other. The first
    period is tried as it is and, where that lets more jobs in, somewhat longer. Jobs that find no period are left out.
    """
    room = 1.0 + max((headroom([traffic[job] for job in m.jobs]) for m in meetings), default=0.0)
    need = {job: traffic[job].iteration_s * room for job in part.jobs}
    at: dict[str, list[int]] = {}
    for i, meeting in enumerate(meetings):
        for job in meeting.jobs:
            at.setdefault(job, []).append(i)
    first = max(part.jobs, key=lambda job: need[job])
    scales = {1.0}
    for i in at[first]:
        for job in meetings[i].jobs:
            wanted = (need[job] / (need[first] * q) for q in _RATIOS)
            scales |= {round(s, 12) for s in wanted if 1.0 < s <= 1.0 + padding}
    best: dict[str, float] = {}
    least = math.inf
    for scale in sorted(scales):
        found = _spread({first: need[first] * scale}, need, at, meetings, padding)
        idle = sum(period / need[job] - 1.0 for job, period in found.items())
        if len(found) > len(best) or (len(found) == len(best) and idle < least - 1e-12):
            best, least = found, idle
    left = [job for job in part.jobs if job not in best]
    while left:  # jobs that fit nobody found so far may still fit each other
        again = _spread({left[0]: need[left[0]]}, {j: need[j] for j in left}, at, meetings, padding)
        if len(again) > 1:
            best |= again
        left = [job for job in left if job not in again]
    return best if len(best) > 1 else {}


def _spread(
    found: dict[str, float],
    need: Mapping[str, float],
    at: Mapping[str, list[int]],
    meetings: list[Meeting],
    padding: float,
) -> dict[str, float]:
    queue = deque(found)
    while queue:
        job = queue.popleft()
        for i in at[job]:
            for other in meetings[i].jobs:
                if other in found or other not in need:
                    continue
                low, high = need[other] * (1 - 1e-9), need[other] * (1 + padding) * (1 + 1e-9)
                fits = [p for q in _RATIOS if low <= (p := found[job] * q) <= high]
                mates = [found[k] for k in meetings[i].jobs if k in found and k != job] if fits else []
                period = next((p for p in fits if all(_in_small_ratio(p, mate) for mate in mates)), None)
                if period is not None:
                    found[other] = period
                    queue.append(other)
    return found


def _in_small_ratio(a: float, b: float) -> bool:
    """Whether a few iterations of one job take as long as a few of the other, so that a shift matters."""
    ratio = a / b
    return any(abs(round(k * ratio) / (k * ratio) - 1.0) < 1e-9 for k in range(1, 13) if round(k * ratio))


def headroom(together: Sequence[Traffic]) -> float:
    """How much longer than the mean iteration a period should be, relative, so that jitter makes jobs miss no openings.

    Lateness at the gate is a random walk, reflected at 0, with steps of the iteration's standard deviation s and drift
    -h. From 0 it reaches the tolerance t after s^2 / 2h^2 (exp(2 h t / s^2) - 1) - t / h iterations on average (a
    Brownian motion's first passage), and then nearly a period is lost; h itself costs h. The sum is smallest here, but
    h is at least s / 2, so that lateness (s^2 / 2h on average) stays within one step: on a circle that is nearly full
    a job that is later than that delays the next. For that reason, too, s^2 is the sum over the two jobs of a link that
    vary most: each inherits the other's lateness.
    """
    spreads = sorted((t.spread_s / t.iteration_s for t in together if t.iteration_s > 0), reverse=True)
    s = math.hypot(*spreads[:2])
    if s <= 0.0:
        return 0.0

    def cost(h: float) -> float:
        grows = min(2 * h * TOLERANCE / s**2, 600.0)
        passage = max(1.0, s**2 / (2 * h**2) * math.expm1(grows) - TOLERANCE / h)
        return h + (1.0 - TOLERANCE) / passage

    return min((s * k / 20.0 for k in range(10, 81)), key=cost)


def circles_of(meeting: Meeting, problem: int, layout: Layout, periods_s: Mapping[str, float]) -> dict[str, Circle]:
    """The circle of each job of a meeting, on the period that it keeps (or, if left alone, on its own)."""
    _, arcs = meeting.problems[problem]
    found = {}
    for job, own in zip(meeting.jobs, arcs, strict=True):
        time = layout.traffic[job].iteration_s
        found[job] = _circle(max(periods_s.get(job, time), time), own)
    return found


_circle = lru_cache(maxsize=16384)(Circle)  # many links carry the same circle, whose pieces are then worked out once


def problem_of(meeting: Meeting, problem: int, layout: Layout, periods_s: Mapping[str, float]) -> Problem | None:
    """The rotation problem among the jobs of a meeting that keep periods; None if there are not two of them."""
    circles = {j: c for j, c in circles_of(meeting, problem, layout, periods_s).items() if j in periods_s}
    if len(circles) < 2:
        return None
    periods = ratio_periods(tuple(c.period_s for c in circles.values()))
    return list(circles.values()), meeting.problems[problem][0], periods


@lru_cache(maxsize=4096)
def ratio_periods(periods_s: tuple[float, ...]) -> Periods:
    """The unified circle of periods that are in small ratios."""
    longest = max(periods_s)
    zero = (0.0,) * len(periods_s)
    repeats = np.arange(1.0, 145.0)[:, None] * longest / np.array(periods_s)
    fits = np.flatnonzero((np.abs(np.round(repeats) - repeats) <= 1e-6 * repeats).all(axis=1))
    if len(fits):
        perimeter = (int(fits[0]) + 1) * longest
        whole = tuple(round(t) for t in repeats[fits[0]].tolist())
        return Periods(perimeter, tuple(perimeter / t for t in whole), whole, zero, zero)
    return Periods(longest, periods_s, (0,) * len(periods_s), zero, zero)


def score_links(layouts: Sequence[Layout], threads: int = 0) -> None:
    """Score all links of all layouts; links that are alike are solved once, in parallel (threads = 0: one per core).

    A few descents per link suffice to rank candidates; the links of the chosen one are solved again thoroughly.
    """
    number: dict[tuple[tuple[Circle, ...], float], int] = {}
    problems: list[Problem] = []
    asked: list[tuple[Layout, Group, Meeting, list[int | None]]] = []
    for layout in layouts:
        for group in layout.groups:
            for meeting in group.meetings:
                mine: list[int | None] = []
                for i in range(len(meeting.problems)):
                    problem = problem_of(meeting, i, layout, group.periods_s)
                    if problem is None:
                        mine.append(None)
                        continue
                    key = (tuple(problem[0]), problem[1])
                    if key not in number:
                        number[key] = len(problems)
                        problems.append(problem)
                    mine.append(number[key])
                asked.append((layout, group, meeting, mine))
    solved = rotate_all(problems, threads or os.cpu_count() or 1, restarts=3, work=0)
    for layout, group, meeting, mine in asked:
        _take_scores(meeting, layout, group, [None if k is None else solved[k] for k in mine])


def _take_scores(meeting: Meeting, layout: Layout, group: Group, solved: Sequence[Rotation | None]) -> None:
    """Note the score of a meeting and the shifts of its tightest link, given the rotations of its problems."""
    meeting.score = math.inf
    kept = [job for job in meeting.jobs if job in group.periods_s]
    for i, ((capacity, _), rotation) in enumerate(zip(meeting.problems, solved, strict=True)):
        shifts = dict(zip(kept, rotation.shifts_s, strict=True)) if rotation is not None else {}
        if rotation is not None and len(kept) == len(meeting.jobs):
            score = rotation.score
        else:
            score = with_the_others(circles_of(meeting, i, layout, group.periods_s), shifts, capacity)
        if score < meeting.score:
            meeting.score, meeting.shifts_s = score, shifts
    if meeting.shifts_s and len(meeting.problems) > 1:  # the other links carry the same jobs at the same shifts
        meeting.score = min(meeting.score, worst_score(meeting, layout, group.periods_s, meeting.shifts_s))


def worst_score(
    meeting: Meeting, layout: Layout, periods_s: Mapping[str, float], shifts_s: Mapping[str, float]
) -> float:  # fmt: skip
    """The score of a meeting's worst link at these shifts; jobs without a shift drift past."""
    worst = math.inf
    for i, (capacity, _) in enumerate(meeting.problems):
        circles = circles_of(meeting, i, layout, periods_s)
        worst = min(worst, with_the_others(circles, {j: shifts_s[j] for j in circles if j in shifts_s}, capacity))
    return worst


def with_the_others(circles: Mapping[str, Circle], shifts_s: Mapping[str, float], capacity: float) -> float:
    """Score of jobs at these shifts together with jobs that have none and drift past them."""
    kept = [circles[job] for job in shifts_s]
    others = [circle for job, circle in circles.items() if job not in shifts_s]
    if not kept:
        return uniform_score(others, capacity)
    periods = ratio_periods(tuple(c.period_s for c in kept))
    if not others:
        return score_at(kept, capacity, list(shifts_s.values()), periods)
    arcs = [
        ((start + shift + k * period, length, rate))
        for circle, shift, period, repeats in zip(
            kept, shifts_s.values(), periods.periods_s, periods.repeats, strict=True
        )
        for k in range(repeats)
        for start, length, rate in circle.arcs
    ]
    return uniform_score([Circle(periods.perimeter_s, tuple(arcs)), *others], capacity)
