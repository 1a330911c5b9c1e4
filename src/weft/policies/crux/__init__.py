"""Crux: how intense jobs are, and how their priorities follow from that (Cao et al., SIGCOMM '24, section 4).

A job's intensity is the computing that it does for each second in which it keeps its slowest link busy. A correction
factor k says how much more (or less) a second of priority is worth to a job than to the job with the most traffic; it
comes from playing the two on one link. `levels` brings the priorities down to the few that a network has. Where the
paper is silent, our choices are in the docstrings.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)

ROUNDS = 300  # iterations of the slower job over which two jobs are played
MOST_STEPS = 20_000  # of one play; a pair whose iterations differ by much is played over a shorter time
SLACK = 1e-12


@dataclass(frozen=True)
class Load:
    """A job as Crux sees it: GPU seconds of computing in an iteration, seconds for which its busiest link sends, and
    seconds of computing one after another; communication starts after this part of them."""

    work: float
    comm_s: float
    compute_s: float
    starts: float = 1.0

    @property
    def intensity(self) -> float:
        """Computing for each second on the busiest link; infinite for a job that sends nothing."""
        return self.work / self.comm_s if self.comm_s > 0.0 else math.inf


class _Played:
    """A job on the link: it computes a part of its iteration, then computes the rest while it sends. The next iteration
    begins when both are done."""

    def __init__(self, load: Load, sending: bool) -> None:
        self.load, self.link_s, self.idle_s = load, 0.0, 0.0
        self._begin()
        if sending:  # as if it had computed all before time 0
            self.before = self.compute = 0.0

    def _begin(self) -> None:
        self.compute, self.comm = self.load.compute_s, self.load.comm_s
        self.before = self.load.starts * self.compute  # still to compute until it may send

    @property
    def sends(self) -> bool:
        return self.before <= SLACK and self.comm > SLACK

    def step_s(self, served: bool) -> float:
        """How long things stay as they are for it."""
        ends = [left for left in (self.before, self.compute) if left > SLACK]
        return min([*ends, self.comm] if served and self.sends else ends, default=math.inf)

    def go(self, step_s: float, served: bool) -> None:
        if served and self.sends:
            self.comm -= step_s
            self.link_s += step_s
        if self.compute > SLACK:
            self.compute -= step_s
            self.before -= step_s
        else:
            self.idle_s += step_s
        if self.compute <= SLACK and self.comm <= SLACK:
            self._begin()


def play(first: Load, second: Load, horizon_s: float, sending: bool = False) -> tuple[tuple[float, float], ...]:
    """Two jobs on one link, of which the first has priority: link seconds and GPU idle seconds of each.

    Both begin with their computing, or with `sending` with their communication.
    """
    return _timed(first, second, horizon_s, sending)[1]


def _timed(first: Load, second: Load, horizon_s: float, sending: bool) -> tuple[float, tuple[tuple[float, float], ...]]:
    """When the play ended, at the horizon or after the most steps, and what became of both."""
    jobs = _Played(first, sending), _Played(second, sending)
    now = 0.0
    steps = 0
    while now < horizon_s - SLACK and steps < MOST_STEPS:
        steps += 1
        served = True, not jobs[0].sends
        step = min(*(job.step_s(s) for job, s in zip(jobs, served, strict=True)), horizon_s - now)
        for job, s in zip(jobs, served, strict=True):
            job.go(step, s)
        now += step
    ended = horizon_s if now >= horizon_s - SLACK else now
    return ended, tuple((job.link_s, job.idle_s) for job in jobs)


@lru_cache(maxsize=65536)  # the same few models meet again and again
def correction(job: Load, reference: Load, horizon_s: float = 0.0, sending: bool = False) -> float:
    """k of a job beside the reference: what the job gains on the link by priority over what the reference would.

    Over 300 iterations of the slower of the two, unless a horizon is given: over the common multiple of their periods,
    which is what a figure of the paper shows, the reference may gain nothing. 0/0 is 1, and x/0 is infinite. If one of
    the two plays ends before that, at its most steps, both are played until then.
    """
    if min(job.comm_s, reference.comm_s) <= 0.0:
        return 1.0
    lasts = horizon_s or ROUNDS * max(each.comm_s + each.compute_s for each in (job, reference))
    lasts, ((mine_first, _), (theirs_second, _)) = _timed(job, reference, lasts, sending)
    ended, ((theirs_first, _), (mine_second, _)) = _timed(reference, job, lasts, sending)
    if ended < lasts:
        lasts, ((mine_first, _), (theirs_second, _)) = _timed(job, reference, ended, sending)
    gain, loss = mine_first - mine_second, theirs_first - theirs_second
    if loss <= 1e-9 * lasts:
        return 1.0 if gain <= 1e-9 * lasts else math.inf
    return max(gain, 0.0) / loss


def ranked(loads: Mapping[Name, Load]) -> list[Name]:
    """Jobs by falling priority k x intensity, all different: of equals the one that is named first goes first.

    The reference is the job that keeps its busiest link busy longest in an iteration, "most traffic" in the paper.
    """
    if not loads:
        return []
    reference = max(loads.values(), key=lambda load: load.comm_s)
    priority = {name: correction(load, reference) * load.intensity for name, load in loads.items()}
    return sorted(loads, key=lambda name: -priority[name])


def intense(loads: Mapping[Name, Load]) -> list[Name]:
    """Jobs by falling intensity: the order in which they choose paths."""
    return sorted(loads, key=lambda name: -loads[name].intensity)


def gpu_use(loads: Sequence[Load], idle_s: Sequence[float], horizon_s: float) -> float:
    """Part of the GPU time in which GPUs compute, where every job has as many."""
    return 1.0 - math.fsum(idle_s) / (len(loads) * horizon_s)
