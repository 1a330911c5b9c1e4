"""Speeds: how long an iteration takes, from live measurements where there are some, else as estimated."""

from __future__ import annotations

from collections import deque
from statistics import median

from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Placement
from weft.model.view import Estimate, Spread
from weft.physics.estimates import Estimates
from weft.physics.iteration import play_on

__all__ = ["Speeds"]

_RECENT = 15  # attempts of one kind that count

_Kind = tuple[str, int, int, int]  # model (or job, if it names none), workers, servers, racks


class Speeds:
    """Iteration times by kind of job and spread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._alone = Estimates(cluster)
        self._measured: dict[_Kind, deque[float]] = {}

    def measured(self, job: Job, workers: int, spread: Spread, iteration_s: float) -> None:
        """An attempt had this median iteration time."""
        if iteration_s > 0:
            self._measured.setdefault(_kind(job, workers, spread), deque(maxlen=_RECENT)).append(iteration_s)

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        """The median of what was measured of such jobs; else one iteration alone on the network, as simulated."""
        alone = self._alone.of(job.profiles[workers], job.model, spread)
        seen = self._measured.get(_kind(job, workers, spread))
        iteration_s = median(seen) if seen else max(alone.iteration_s, 1e-9)
        return Estimate(iteration_s, min(alone.compute_s, iteration_s))

    def offset_s(self, job: Job, gpus: Placement, task: int) -> float:
        """Seconds from the beginning of an iteration to a task of it, alone on these GPUs.

        A real job can be held only between iterations; for a task to meet its slot the iteration starts earlier by
        that task's offset.
        """
        return play_on(self._cluster, job.profiles[len(gpus)], gpus).start_s[task]


def _kind(job: Job, workers: int, spread: Spread) -> _Kind:
    return (job.model or f"job {job.id}", workers, spread.servers, spread.racks)
