"""What a running job turns out to be, against what its submission said: longer than it claimed, or silent.

A claim is a user's word. A job that has outrun it is treated as one that said nothing: as long as its time limit
allows, so that it goes behind those whose claims hold. A job that never reports cannot be gated. A gate that was made
for iterations of another length is made anew from those that were measured; meanwhile, or where that cannot be, who
holds the gate lets the job go (hearing.py).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from weft.live.attempt import Progress
from weft.live.description import Description
from weft.live.hearing import RECENT, SEEN
from weft.model.events import Learned
from weft.model.job import Job

__all__ = ["SLACK_S", "Doubts"]

SLACK_S = 60.0  # beyond its claim before a job is doubted: it may be writing its last checkpoint
_BEYOND = 1.5  # times its claim
_SLOWER = 10.0  # times its estimate, at most, is what a job may say about its own pace
_SILENT = 10  # iterations after which a job that reports would have done so
_NO_LIMIT_S = 86400.0
_SAME = 0.95, 1.05  # times what a gate was made for: such iterations need no other
_REFITS = 5  # of one start: a job whose pace keeps changing is let go by the gate itself


@dataclass
class Doubts:
    """What has been learned about one start of a job."""

    outrun: bool = False
    silent: bool = False
    iteration_s: float = 0.0  # an iteration as measured, where its gate was made for others
    _enough: int = SEEN + 1  # reports before its pace is judged (again)
    _refits: int = 0

    def look(
        self, job: Job, said: Description, progress: Progress, left: int, iteration_s: float, ran_s: float, now: float,
        slack_s: float = SLACK_S, gated_s: float = 0.0,
    ) -> list[Learned]:  # fmt: skip
        """What is new. The job has run for `ran_s` seconds since it had `left` iterations to do, each of which should
        take `iteration_s`; `gated_s` is what its profile says about one, if it has a gate (0: it has none)."""
        found = []
        if not self.silent and progress.reports == 0 and ran_s > slack_s / 2 + _SILENT * iteration_s:
            self.silent = True
            found.append(Learned(now, job.id, silent=True, reason="it reports no progress, so it is not shifted"))
        found += self._pace(job, progress, gated_s, now)
        own_s = min(max(progress.iteration_s, iteration_s), _SLOWER * iteration_s)
        if not self.outrun and ran_s > _BEYOND * max(left, 0) * own_s + slack_s:
            self.outrun = True
            limit_s = float(said.env.get("limit_s", _NO_LIMIT_S))
            length = job.iterations + max(job.iterations, round(limit_s / iteration_s), 1)
            words = "it has run longer than it claimed, and is taken to be as long as its time limit"
            found.append(Learned(now, job.id, length, reason=words))
        return found

    def _pace(self, job: Job, progress: Progress, gated_s: float, now: float) -> list[Learned]:
        """Whether its iterations are not those that its gate was made for, so that another one would fit better."""
        known_s, own_s = self.iteration_s or gated_s, progress.iteration_s
        if (
            not gated_s
            or own_s <= 0
            or progress.reports < self._enough
            or _SAME[0] * known_s <= own_s <= _SAME[1] * known_s
        ):
            return []
        self._refits += 1
        self._enough = progress.reports + RECENT if self._refits < _REFITS else sys.maxsize
        self.iteration_s = float(f"{own_s:.3g}")
        words = f"an iteration takes {self.iteration_s:g} s, not the {known_s:.3g} s that its gate was made for"
        return [Learned(now, job.id, iteration_s=self.iteration_s, reason=words)]
