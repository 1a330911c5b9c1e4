"""What is measured of live jobs: how fast those of each kind are, and how each compares with what its user said.

A claim is what a user says about the length of a job. What a user's earlier jobs took, compared with their claims,
corrects the next one. A job that has run longer than its claim is treated as if nothing
had been claimed: it is taken to be as long as its time limit allows, so that it goes behind jobs whose claims hold. A
job that never reports cannot be gated. A gate that was made for iterations of another length is made anew from those
that were measured; until then, and where that is impossible, whatever applies the gate lets the job go (reports.py).
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from weft.model.cluster import Cluster
from weft.model.events import Learned
from weft.model.job import Job
from weft.model.plan import Placement
from weft.model.reason import because
from weft.model.view import Estimate, Spread
from weft.network.estimates import Estimates
from weft_live.attempt import Progress
from weft_live.description import Description
from weft_live.reports import RECENT, SEEN

_RECENT = 15  # attempts of one kind that count

_Kind = tuple[str, str, int, int, int]  # user, model (or job, if it names none), workers, servers, racks


class Speeds:
    """Iteration times by user, kind of job and spread: what a user's jobs report counts for that user's jobs only."""

    def __init__(self, cluster: Cluster) -> None:
        self.alone = Estimates(cluster)  # a server whose scenario describes the network puts its own here
        self._measured: dict[_Kind, deque[float]] = {}

    def measured(self, job: Job, workers: int, spread: Spread, iteration_s: float) -> None:
        """An attempt had this median iteration time."""
        if iteration_s > 0:
            self._measured.setdefault(_kind(job, workers, spread), deque(maxlen=_RECENT)).append(iteration_s)

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        """The median of what was measured of such jobs; else one iteration alone on the network, as simulated."""
        alone = self.alone.of(job.profiles[workers], job.model, spread)
        seen = self._measured.get(_kind(job, workers, spread))
        iteration_s = median(seen) if seen else max(alone.iteration_s, 1e-9)
        return Estimate(iteration_s, min(alone.compute_s, iteration_s))

    def alone_s(self, job: Job, gpus: Placement) -> float:
        """Seconds of an iteration alone on these GPUs, as its profile has it."""
        return self.alone.seconds(job.profiles[len(gpus)], gpus, job.model)

    def offset_s(self, job: Job, gpus: Placement, task: int, iteration_s: float = 0.0) -> float:
        """Seconds from the beginning of an iteration to a task of it, alone on these GPUs; `iteration_s` is what an
        iteration takes as measured, 0 if it takes what the profile says.

        A real job can be held only between iterations; for a task to meet its opening the iteration starts earlier by
        that task's offset.
        """
        profile, known = job.profiles[len(gpus)], self.alone
        factor = known.factor_for(profile, gpus, iteration_s) if iteration_s else 1.0
        return known.play(profile, gpus, 1.0 if factor is None else factor).start_s[task]


def _kind(job: Job, workers: int, spread: Spread) -> _Kind:
    return (job.user, job.model or f"job {job.id}", workers, spread.servers, spread.racks)


_ENDED = 100  # jobs of a user whose claims are remembered
_FEWEST = 3  # of them, before they say something
_TELLS_S = 60.0  # a job that took less tells nothing: any claim is good for a minute
_MOST_TIMES = 1000.0
_STATED = 0.99  # of its time limit: a claim as long as that is none


class Claims:
    """How much longer users' jobs took than they had claimed; kept in the ledger as `entries`.

    What counts is the median over a user's last jobs, each weighing as many GPU seconds as it took, so that many short
    ones do not make up for a long one. It is never below 1: who claims too much gains nothing.
    """

    def __init__(self, entries: dict[str, list[list[float]]] | None = None) -> None:
        self.tells_s = _TELLS_S
        self.entries = entries or {}  # by user: times as long as claimed, and GPU seconds

    def ended(self, said: Description, finished: bool, claimed_s: float, ran_s: float) -> bool:
        """A job that took `ran_s` on GPUs; whether that told something."""
        stated = said.iterations > 0 and claimed_s < _STATED * float(said.env.get("limit_s", _NO_LIMIT_S))
        if not stated or ran_s < self.tells_s or not (finished or ran_s > claimed_s):
            return False
        mine = self.entries.setdefault(said.user, [])
        mine.append([ran_s / max(claimed_s, 1e-9), ran_s * said.gpus])
        del mine[:-_ENDED]
        return True

    def times(self, user: str) -> float:
        """How much longer than claimed."""
        mine = sorted(self.entries.get(user, ()))
        if len(mine) < _FEWEST:
            return 1.0
        half = sum(gpu_s for _, gpu_s in mine) / 2
        sums_s = accumulate(gpu_s for _, gpu_s in mine)
        middle = next(times for (times, _), sum_s in zip(mine, sums_s, strict=True) if sum_s >= half)
        return min(max(middle, 1.0), _MOST_TIMES)

    def corrected(self, said: Description, iteration_s: float, now: float) -> list[Learned]:
        """How long weft expects a new job to be, if not as long as it says; at most its time limit."""
        times, most = self.times(said.user), float(said.env.get("limit_s", _NO_LIMIT_S)) / iteration_s
        iterations = round(min(said.iterations * times, most))
        if iterations <= said.iterations:
            return []
        why = because("live.claims", user=said.user, times=times, iterations=iterations)
        return [Learned(now, said.name, iterations, reason=why)]


SLACK_S = 60.0  # a job may exceed its claim by this before it is doubted: it may be writing its last checkpoint
_BEYOND = 1.5  # times its claim
_SLOWER = 10.0  # times its estimate: a report of a slower pace than that counts as this one
_SILENT = 10  # iterations after which a job that reports would have done so
_NO_LIMIT_S = 86400.0
_SAME = 0.95, 1.05  # times the iteration that a gate was made for: within this, no new gate is needed
_REFITS = 5  # new gates for one start: a job whose pace keeps changing is let go by the gate itself


@dataclass
class Doubts:
    """What has been learned about one start of a job."""

    outrun: bool = False
    silent: bool = False
    iteration_s: float = 0.0  # an iteration as measured, where its gate was made for others
    _claim: tuple[float, int] | None = None  # when it said that few iterations were left, and how few
    _enough: int = SEEN + 1  # reports before its pace is judged (again)
    _refits: int = 0
    _profiled_s: float = 0.0  # what its profile says about an iteration, once it has had a gate

    def look(
        self, job: Job, said: Description, progress: Progress, left: int, iteration_s: float, ran_s: float, now: float,
        slack_s: float = SLACK_S, gated_s: float = 0.0,
    ) -> list[Learned]:  # fmt: skip
        """What has changed about a job that has run for `ran_s` seconds since it had `left` iterations to do, of
        `iteration_s` each. `gated_s` is the length of an iteration by its profile, if it has a gate (0: it has
        none)."""
        found = []
        if not self.silent and progress.reports == 0 and ran_s > slack_s / 2 + _SILENT * iteration_s:
            self.silent = True
            found.append(Learned(now, job.id, silent=True, reason=because("live.silent")))
        found += self._pace(job, progress, gated_s, now)
        own_s = min(max(progress.iteration_s, iteration_s), _SLOWER * iteration_s)
        claimed_s, claimed = self._claimed(said, progress, left, iteration_s, ran_s)
        if not self.outrun and ran_s > _BEYOND * (claimed_s + claimed * own_s) + slack_s:
            self.outrun = True
            limit_s = float(said.env.get("limit_s", _NO_LIMIT_S))
            length = job.iterations + max(job.iterations, round(limit_s / iteration_s), 1)
            found.append(Learned(now, job.id, length, reason=because("live.outrun")))
        return found

    def _claimed(
        self, said: Description, progress: Progress, left: int, iteration_s: float, ran_s: float
    ) -> tuple[float, int]:
        """What the job is held to: the claim, made at its start or by a report, with which it would end first. A job
        can lie by reporting that it is nearly done as well as by stating few iterations."""
        self._claim = self._claim or (0.0, max(left, 0))
        now = (ran_s, max(said.iterations - progress.step, 0))
        if said.iterations and progress.reports and _end_s(now, iteration_s) < _end_s(self._claim, iteration_s):
            self._claim = now
        return self._claim

    def _pace(self, job: Job, progress: Progress, gated_s: float, now: float) -> list[Learned]:
        """Whether a job's iterations have another length than its gate was made for, so that a new gate would fit
        better."""
        # A job that is let go because its gate does not fit the others' is still measured, or no gate ever would.
        self._profiled_s = gated_s or self._profiled_s
        known_s, own_s = self.iteration_s or self._profiled_s, progress.iteration_s
        if (
            not self._profiled_s
            or own_s <= 0
            or progress.reports < self._enough
            or _SAME[0] * known_s <= own_s <= _SAME[1] * known_s
        ):
            return []
        self._refits += 1
        self._enough = progress.reports + RECENT if self._refits < _REFITS else sys.maxsize
        self.iteration_s = float(f"{own_s:.3g}")
        why = because("live.refit", takes_s=self.iteration_s, known_s=known_s)
        return [Learned(now, job.id, iteration_s=self.iteration_s, reason=why)]


def _end_s(claim: tuple[float, int], iteration_s: float) -> float:
    return claim[0] + claim[1] * iteration_s
