"""What a running job turns out to be, against what its submission said: longer than it claimed, or silent.

A claim is a user's word. A job that has outrun it is treated as one that said nothing: as long as its time limit
allows, so that it goes behind those whose claims hold. A job that never reports cannot be gated.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.live.attempt import Progress
from weft.live.description import Description
from weft.model.events import Learned
from weft.model.job import Job

__all__ = ["SLACK_S", "Doubts"]

SLACK_S = 60.0  # beyond its claim before a job is doubted: it may be writing its last checkpoint
_BEYOND = 1.5  # times its claim
_SLOWER = 10.0  # times its estimate, at most, is what a job may say about its own pace
_SILENT = 10  # iterations after which a job that reports would have done so
_NO_LIMIT_S = 86400.0


@dataclass
class Doubts:
    """What has been learned about one start of a job."""

    outrun: bool = False
    silent: bool = False

    def look(
        self, job: Job, said: Description, progress: Progress, left: int, iteration_s: float, ran_s: float, now: float,
        slack_s: float = SLACK_S,
    ) -> list[Learned]:  # fmt: skip
        """What is new. The job has run for `ran_s` seconds since it had `left` iterations to do, each of which should
        take `iteration_s`."""
        found = []
        if not self.silent and progress.reports == 0 and ran_s > slack_s / 2 + _SILENT * iteration_s:
            self.silent = True
            found.append(Learned(now, job.id, silent=True, reason="it reports no progress, so it is not shifted"))
        own_s = min(max(progress.iteration_s, iteration_s), _SLOWER * iteration_s)
        if not self.outrun and ran_s > _BEYOND * max(left, 0) * own_s + slack_s:
            self.outrun = True
            limit_s = float(said.env.get("limit_s", _NO_LIMIT_S))
            length = job.iterations + max(job.iterations, round(limit_s / iteration_s), 1)
            words = "it has run longer than it claimed, and is taken to be as long as its time limit"
            found.append(Learned(now, job.id, length, reason=words))
        return found
