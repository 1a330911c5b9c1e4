"""Whether it pays to stop running jobs for one that waits: what it would wait otherwise, against what they lose."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from weft.model.view import ClusterView, JobView


class Outlook:
    """When GPUs are expected to come free; jobs that wait are asked about in the order in which they will be served."""

    def __init__(self, view: ClusterView, rest_s: Mapping[str, float]) -> None:
        self._view = view
        self._free = view.offer.n_free
        self._ends = [(rest_s[job.id], len(job.gpus)) for job in view.running.values()]
        heapify(self._ends)

    def pays(self, job: JobView, run_s: float) -> bool:
        """Whether a job would wait for longer than the jobs that stop for it would lose: its own run time, and a
        restart.

        The GPUs that it takes, now or later, are not there for the next job.
        """
        gpus, wait_s = job.job.gpus, 0.0
        while self._free < gpus and self._ends:
            wait_s, more = heappop(self._ends)
            self._free += more
        if wait_s > 0.0 and self._free > gpus:  # GPUs left over come free only then
            heappush(self._ends, (wait_s, self._free - gpus))
        self._free = 0 if wait_s > 0.0 else self._free - gpus
        heappush(self._ends, (wait_s + run_s, gpus))
        return wait_s > run_s + self._view.restart_s
