"""mltcp: a job's weight grows with what it has sent of its iteration, so jobs drift apart and interleave (MLTCP).

A flow of MLTCP opens its window faster the more of its iteration it has sent: by F = slope x ratio + intercept times
what its congestion control would. Here a job's share of a link is proportional to F: weighted max-min. Whoever began
first is ahead, gets more, and ends sooner; at the next iteration it is further ahead.

Weights are looked at when transfers start or end, and whenever the ratio of a job that shares a link with another has
grown by about 1/16. For equal jobs on one link that is exact: F is linear, and while both send the ratio of their
weights stays what it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weft.model.flows import FlowSet
from weft.model.policy import setting
from weft.policies.pace.base import RatedPace
from weft.policies.pace.rates import MOST_RANK, Bools, Demand, Floats, Ints, Limits, Moment, RateRule, Transport

SLOPE, INTERCEPT = 1.75, 0.25
FINE = float(1 << 16)  # weight of F = 1
STEP = 1.0 / 16.0  # of a ratio


@dataclass
class _Job:
    """A job's rows, its bytes in an iteration, and its ratio when it was last looked at."""

    rows: Ints
    total: float
    line: float  # bytes per second of all its flows together, at most
    done: set[int]  # rows that have ended in this iteration
    ratio: float = 0.0
    at_s: float = 0.0
    alone: bool = True  # with its links to itself when it was last looked at


class MltcpRule(RateRule):
    """One weight for all flows of a job: F of the part of its bytes that it has sent."""

    slot_s = math.inf
    everyone = True
    moves = True

    def __init__(self, slope: float = SLOPE, intercept: float = INTERCEPT) -> None:
        self.slope, self.intercept = slope, intercept

    def begin(self, demand: Demand) -> None:
        """No job is known yet."""
        self.jobs: dict[int, _Job] = {}  # by uid

    def came(self, rows: Ints, flows: FlowSet) -> None:
        """What it sends in an iteration is known from its profile."""
        mine = rows[(flows.size[rows] > 0.0) & (flows.path[rows, 0] >= 0)]
        if len(mine):
            total, line = float(flows.size[mine].sum()), float(flows.line[mine].sum())
            self.jobs[int(flows.uid[rows[0]])] = _Job(mine, total, line, set())

    def gone(self, rows: Ints, flows: FlowSet) -> None:
        """Forget it."""
        for uid in {*flows.uid[rows].tolist()}:
            self.jobs.pop(uid, None)

    def over(self, rows: Ints, flows: FlowSet) -> None:
        """What a flow has sent counts until the job begins another iteration."""
        for row, uid in zip(rows.tolist(), flows.uid[rows].tolist(), strict=True):
            if uid in self.jobs:
                self.jobs[uid].done.add(row)

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """F of all jobs that send, and when to look again."""
        uids, of_row = np.unique(flows.uid[live], return_inverse=True)
        soonest, factors = math.inf, np.ones(len(uids))
        meet = _meeting(flows.path[live].astype(np.int64), of_row, len(uids))
        for i, uid in enumerate(uids.tolist()):
            if (job := self.jobs.get(uid)) is not None:
                later = self._look(job, live[of_row == i], flows, when.now_s)
                soonest, job.alone = (min(soonest, later), False) if meet[i] else (soonest, True)
                factors[i] = self.slope * job.ratio + self.intercept
        self.again_s = soonest
        weights = np.ones(len(flows), np.int64)
        weights[live] = np.clip(np.rint(FINE * factors), 1, MOST_RANK).astype(np.int64)[of_row]
        return Limits(np.full(len(flows), math.inf), weights)

    def _look(self, job: _Job, live: Ints, flows: FlowSet, now: float) -> float:
        """Bring a job's ratio up to date; returns the seconds until it has grown by a step."""
        if job.done.intersection(live.tolist()):  # one of its flows sends again: another iteration
            job.done, job.ratio, job.at_s = set(), 0.0, now
        ended: Floats = flows.size[list(job.done)]
        ratio = min(1.0, float(ended.sum() + flows.sent[live].sum()) / job.total)
        most = job.line / job.total
        grew, passed = ratio - job.ratio, now - job.at_s
        speed = min(grew / passed, most) if grew > 0.0 and passed > 0.0 and not job.alone else most
        job.ratio, job.at_s = ratio, now
        return STEP / speed


def _meeting(path: Ints, of_row: Ints, n: int) -> Bools:
    """Which of n jobs share a link with another; only there do weights matter."""
    pairs = np.unique(np.stack([path.ravel(), np.repeat(of_row.ravel(), path.shape[1])], axis=1), axis=0)
    pairs = pairs[pairs[:, 0] >= 0]
    _, which, jobs = np.unique(pairs[:, 0], return_inverse=True, return_counts=True)
    meet = np.zeros(n, np.bool_)
    meet[pairs[jobs[which.ravel()] > 1, 1]] = True
    return meet


@dataclass(eq=False)
class Mltcp(RatedPace):
    """`mltcp`, or `mltcp:slope=X,intercept=Y` (1.75 and 0.25).

    Kept: F of the bytes that were sent, a ratio that begins anew with each iteration. Ours: rates are proportional to
    F, as the paper's analysis has it, and not what a window of Reno or CUBIC makes of it. All flows of a job have its
    ratio, since they keep step; several collectives of an iteration count as one volume. Left out: finding iterations
    by gaps in acknowledgements. Equal jobs that start at the same moment stay together.
    """

    name = "mltcp"
    slope: float = setting(SLOPE, "slope", within="[0, 15]")
    intercept: float = setting(INTERCEPT, "intercept", within="[1e-3, 1]")

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that react to congestion; a foreign flow is like one whose window grows as usual."""
        return Transport(opened=True, foreign_weight=int(FINE))

    def rates(self) -> RateRule:
        """The rule of one run."""
        return MltcpRule(self.slope, self.intercept)
