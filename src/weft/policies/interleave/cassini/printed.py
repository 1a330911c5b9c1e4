"""CASSINI to the letter of its paper, beside what runs by default: `cassini:printed`.

Table 1 on a grid of 5 degrees, where iterations last whole milliseconds and the perimeter is their least common
multiple; candidates with a loop are discarded, and if all have one the planner's own plan is taken, unshifted; the best
mean score of links wins, whatever its restarts cost; then Algorithm 1. Jobs whose links all score 1 are held to their
own iteration time (section 5.7: only compatible jobs respect their shifts), the others are delayed once. Nobody asks
whether a shift pays, iterations get no room for jitter, and periods that do not fit are not padded.

One thing is not as printed: links with the same jobs are one vertex. Else the two ends of a way that two jobs share
would be a loop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from weft.model.flows import Arcs, Traffic
from weft.model.plan import Candidate
from weft.model.view import ClusterView
from weft.policies.interleave.cassini.affinity import Component, components, merged, unique_shifts
from weft.policies.interleave.cassini.align import Alignment
from weft.policies.interleave.cassini.circle import Circle, Periods
from weft.policies.interleave.cassini.compat import grid_shifts
from weft.policies.interleave.cassini.layout import traffic_of

DEGREES = 5.0
_MS = 1e-3
_Link = tuple[tuple[str, ...], dict[str, float], float]  # jobs, the shift of each, the score


def choice(view: ClusterView, candidates: Sequence[Candidate]) -> tuple[int, list[Alignment], dict[str, Traffic]]:
    """Algorithm 2: the place of the candidate that is taken, the shifts of its jobs, and what they send."""
    capacity = view.cluster.topology.capacity
    best, taken = -math.inf, (0, list[Alignment](), dict[str, Traffic]())
    for i, traffic in enumerate(traffic_of(view, [candidate.plan.placements for candidate in candidates])):
        users: dict[int, list[str]] = {}
        for job, found in traffic.items():
            for link in found.links:
                users.setdefault(link, []).append(job)
        vertices = merged(users)
        parts = components(list(vertices))
        if any(part.loops for part in parts):
            continue
        links = [
            min((_link(traffic, jobs, link, float(capacity[link])) for link in mine), key=lambda found: found[2])
            for jobs, mine in vertices.items()
        ]
        score = math.fsum(score for _, _, score in links) / len(links) if links else 1.0
        if score > best + 1e-12:
            best, taken = score, (i, [_aligned(part, links, traffic) for part in parts], traffic)
    return taken


def _link(traffic: Mapping[str, Traffic], jobs: tuple[str, ...], link: int, capacity: float) -> _Link:
    shifts, score = _rotated(tuple((traffic[j].iteration_s, traffic[j].links[link]) for j in jobs), capacity)
    return jobs, dict(zip(jobs, shifts, strict=True)), score


@lru_cache(maxsize=4096)
def _rotated(jobs: tuple[tuple[float, Arcs], ...], capacity: float) -> tuple[tuple[float, ...], float]:
    """Table 1, and Eq. (5): shifts modulo the iteration."""
    whole = [_whole_ms(iteration_s) for iteration_s, _ in jobs]
    around = math.lcm(*whole)
    zero = (0.0,) * len(jobs)
    periods = Periods(around * _MS, tuple(w * _MS for w in whole), tuple(around // w for w in whole), zero, zero)
    circles = [Circle(period, arcs) for period, (_, arcs) in zip(periods.periods_s, jobs, strict=True)]
    shifts, score = grid_shifts(circles, capacity, periods, DEGREES)
    return tuple(t % period for t, period in zip(shifts, periods.periods_s, strict=True)), score


def _whole_ms(iteration_s: float) -> int:
    return math.ceil(iteration_s / _MS - 1e-6)


def _aligned(part: Component, links: Sequence[_Link], traffic: Mapping[str, Traffic]) -> Alignment:
    """Algorithm 1 over a part of the graph."""
    mine = [links[i] for i in part.links]
    periods = {job: _whole_ms(traffic[job].iteration_s) * _MS for job in part.jobs}
    worst = min(score for _, _, score in mine)
    shifts = unique_shifts([shifts for _, shifts, _ in mine], periods)
    return Alignment(part.jobs, periods, shifts, worst, 0.0, 0.0, held=worst >= 1.0 - 1e-9)
