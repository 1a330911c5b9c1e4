"""Jobs of a state that is simulated forward: those that wait and those that run."""

from __future__ import annotations

from collections.abc import Sequence

from weft.advise.forward import unknown
from weft.model.job import Job
from weft.model.view import JobStatus, JobView


def waiting(name: str, gpus: int, seconds: int, submit_s: float = 0.0, user: str = "") -> JobView:
    """A job that waits and claims to take so long."""
    job = Job(name, submit_s, gpus, seconds, {gpus: unknown(gpus)}, user=user)
    return JobView(job, waiting_since_s=submit_s)


def running(name: str, gpus: Sequence[int], seconds: int, since_s: float, resumes: bool = True) -> JobView:
    """A job that has run since then and claimed to take so long."""
    n = len(gpus)
    job = Job(name, since_s, n, seconds, {n: unknown(n)}, resumes=resumes)
    return JobView(job, JobStatus.RUNNING, tuple(gpus), since_s, started_s=since_s, first_start_s=since_s)
