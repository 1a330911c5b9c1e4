"""View: the ClusterView that policies are given, over the table and what the world knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from math import inf

import numpy as np

from weft.core.table import Table
from weft.core.world import KnowsTraffic, World
from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Placement
from weft.model.traffic import Traffic
from weft.model.view import Estimate, Fact, JobView, Offer, Spread
from weft.physics.traffic import link_traffic

__all__ = ["View", "stream"]


def stream(seed: int, policy: str, decision: int) -> np.random.Generator:
    """Random numbers of one policy in one decision: the same on every machine, whatever was drawn elsewhere."""
    key = int.from_bytes(blake2b(f"{seed}\0{policy}\0{decision}".encode(), digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=key))


class View:
    """What a policy sees at one moment. The core moves it on from cycle to cycle."""

    def __init__(self, table: Table, world: World, seed: int) -> None:
        self._table = table
        self._world = world
        self._seed = seed
        self._knows_traffic = world if isinstance(world, KnowsTraffic) else None
        self._knows_progress = Fact.ITERATIONS_LEFT in world.facts
        self._now = 0.0
        self._decision = 0
        self._room: Callable[[], float] | None = None

    def move_to(self, now: float, decision: int) -> None:
        """The moment at which policies are asked next."""
        self._now, self._decision = now, decision

    @property
    def now(self) -> float:
        """The time, in seconds."""
        return self._now

    @property
    def cluster(self) -> Cluster:
        """What there is to share."""
        return self._table.cluster

    @property
    def waiting(self) -> Mapping[str, JobView]:
        """Waiting jobs, in order of submission."""
        return self._table.waiting

    @property
    def running(self) -> Mapping[str, JobView]:
        """Jobs that hold GPUs, in order of submission."""
        return self._table.running

    @property
    def offer(self) -> Offer:
        """The GPUs as they are."""
        return self._table.gpus.offer

    @property
    def placements(self) -> Mapping[str, Placement]:
        """GPUs of each job in `running`."""
        return self._table.placements

    @property
    def demand(self) -> Mapping[tuple[int, float], int]:
        """Waiting jobs by the least they could start on: (GPUs, bytes of memory on each)."""
        return self._table.demand

    def waiting_by(self, key: Callable[[JobView], float | tuple[float, ...]]) -> Iterable[JobView]:
        """Waiting jobs, smallest key first, then by submission."""
        return self._table.waiting_by(key).in_order(lambda: inf if self._room is None else self._room())

    def limit(self, room: Callable[[], float] | None) -> None:
        """From now on `waiting_by` passes jobs that need more GPUs than `room()`, but for the first; None: it does not.

        Whoever serves claims one by one knows how many GPUs are left, and would have to turn away those jobs.
        """
        self._room = room

    def job(self, job_id: str) -> JobView:
        """Any job that has not ended."""
        return self._table.jobs[job_id]

    def iterations_done(self, job_id: str) -> int:
        """Full iterations done up to now."""
        if not self._knows_progress:
            raise StackError(
                f"a policy asked how far job {job_id} is, which the {self._world.name} world does not know; "
                "policies say so in `needs`"
            )
        job = self._table.jobs[job_id]
        if job.started_s is not None:
            return self._world.iterations_done(job_id)
        return job.saved_iterations

    def iterations_left(self, job_id: str) -> int:
        """Iterations still to do."""
        return self._table.jobs[job_id].job.iterations - self.iterations_done(job_id)

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        """Speed of a job at some size and spread, as the world knows it."""
        return self._world.estimate(job, workers, spread)

    def traffic(self, job: Job, gpus: Placement) -> Traffic:
        """What a job would send over each link on these GPUs; a world that knows no better leaves it to its profile."""
        if self._knows_traffic is not None:
            return self._knows_traffic.traffic(job, gpus)
        found = link_traffic(job.profiles[len(gpus)], gpus, self.cluster)
        view = self._table.jobs.get(job.id)
        return replace(found, task=None) if view is not None and view.silent else found

    def residents(self, gpu: int) -> tuple[str, ...]:
        """Jobs on a GPU, in order of arrival."""
        return self._table.gpus.names(gpu)

    def rng(self, policy: str) -> np.random.Generator:
        """Random numbers keyed by (seed, policy, decision number)."""
        return stream(self._seed, policy, self._decision)
