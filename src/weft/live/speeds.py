"""Speeds: how long an iteration takes, from live measurements where there are some, else from the profile."""

from __future__ import annotations

from collections import deque
from statistics import median

from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.profile import Profile
from weft.model.view import Estimate, Spread
from weft.workload.alone import run_alone

__all__ = ["Speeds"]

_RECENT = 15  # attempts of one kind that count

_Kind = tuple[str, int, int, int]  # model (or job, if it names none), workers, servers, racks


class Speeds:
    """Iteration times by kind of job and spread."""

    def __init__(self, cluster: Cluster) -> None:
        self._nic = min(
            (link.bytes_per_s for link in cluster.topology.links if link.tier == "nic"), default=float("inf")
        )
        self._intra = cluster.intra_server_bytes_per_s
        self._measured: dict[_Kind, deque[float]] = {}
        self._alone: dict[tuple[int, bool], tuple[Profile, Estimate]] = {}

    def measured(self, job: Job, workers: int, spread: Spread, iteration_s: float) -> None:
        """An attempt had this median iteration time."""
        if iteration_s > 0:
            self._measured.setdefault(_kind(job, workers, spread), deque(maxlen=_RECENT)).append(iteration_s)

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        """The median of what was measured of such jobs; else one iteration alone on the network, by formula."""
        alone = self._by_formula(job.profiles[workers], spread.servers > 1)
        seen = self._measured.get(_kind(job, workers, spread))
        if not seen:
            return alone
        iteration_s = median(seen)
        return Estimate(iteration_s, min(alone.compute_s, iteration_s))

    def offset_s(self, profile: Profile, task: int) -> float:
        """Seconds from the beginning of an iteration to a task of it, alone on the network.

        A real job can be held only between iterations; for a task to meet its slot the iteration begins that much
        earlier.
        """
        if task == 0 or not 0 < self._nic < float("inf"):
            return 0.0
        return run_alone(profile, self._nic).spans[task].start_s

    def _by_formula(self, profile: Profile, apart: bool) -> Estimate:
        key = (id(profile), apart)
        if key not in self._alone:
            speed = self._nic if apart else self._intra
            whole = run_alone(profile, speed).iteration_s if 0 < speed < float("inf") else profile.compute_s
            self._alone[key] = (profile, Estimate(max(whole, 1e-9), min(profile.compute_s, max(whole, 1e-9))))
        return self._alone[key][1]


def _kind(job: Job, workers: int, spread: Spread) -> _Kind:
    return (job.model or f"job {job.id}", workers, spread.servers, spread.racks)
