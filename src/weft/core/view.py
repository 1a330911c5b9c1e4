"""View: the ClusterView that policies are given, over the table and what the world knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from weft.core.table import Table
from weft.core.world import World
from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.flows import Traffic
from weft.model.job import Job
from weft.model.plan import Placement
from weft.model.view import Estimate, Fact, JobView, Offer, Spread

RESTART_S = 30.0  # what a restart costs in a world that does not say, as Pollux assumes (its section 4.2)


def stream(seed: int, policy: str, decision: int) -> np.random.Generator:
    """Random numbers of one policy in one decision: the same on every machine, whatever was drawn elsewhere."""
    key = int.from_bytes(blake2b(f"{seed}\0{policy}\0{decision}".encode(), digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=key))


class View:
    """What a policy sees at one moment; ClusterView says what each part means. The core moves it on, cycle by cycle."""

    def __init__(self, table: Table, world: World, seed: int) -> None:
        self._table = table
        self._world = world
        self._seed = seed
        self._restart_s = RESTART_S if world.restart_s is None else world.restart_s
        self._knows_progress = Fact.ITERATIONS_LEFT in world.facts
        self._now = 0.0
        self._decision = 0
        self._news = True
        self._passes: Callable[[int, JobView], bool] | None = None
        self._done: dict[str, int] = {}  # jobs that run, at this moment: the world is asked once

    def move_to(self, now: float, decision: int, news: bool = True) -> None:
        """The moment at which policies are asked next."""
        self._now, self._decision, self._news = now, decision, news
        self._done.clear()

    @property
    def now(self) -> float:
        return self._now

    @property
    def news(self) -> bool:
        """Whether anything has been reported since the last cycle."""
        return self._news

    @property
    def cluster(self) -> Cluster:
        return self._table.cluster

    @property
    def waiting(self) -> Mapping[str, JobView]:
        return self._table.waiting

    @property
    def running(self) -> Mapping[str, JobView]:
        return self._table.running

    @property
    def offer(self) -> Offer:
        return self._table.gpus.offer

    @property
    def placements(self) -> Mapping[str, Placement]:
        return self._table.placements

    @property
    def demand(self) -> Mapping[tuple[int, float], int]:
        return self._table.demand

    def waiting_by(
        self, key: Callable[[JobView], float | tuple[float, ...]], priorities: bool = True, most: int | None = None
    ) -> Iterable[JobView]:
        # This is a generator, so that a limit still counts if it is set after an order has named its claims but before
        # they are read.
        yield from self._table.waiting_by(key, priorities).in_order(self._passes, most)

    def limit(
        self, passes: Callable[[int, JobView], bool] | None, kind: Callable[[JobView], str | None] | None = None
    ) -> None:
        """From now on `waiting_by` skips every job for which `passes(size, job)` is true; None skips none.

        Code that serves claims one by one knows what is left, and would have to turn those jobs away. Where a `kind` is
        given, a group that is skipped holds jobs of one kind only.
        """
        self._passes = passes
        if kind is not None:
            self._table.group_by(kind)

    def untold(self) -> list[JobView]:
        """Waiting jobs for which no reason has been written down yet."""
        waiting, held = self._table.waiting, self._table.held
        return [] if len(held) == len(waiting) else waiting.without(held)

    @property
    def facts(self) -> frozenset[Fact]:
        """What the world knows about jobs."""
        return self._world.facts

    @property
    def restart_s(self) -> float:
        """What a restart costs: as the world says, else half a minute."""
        return self._restart_s

    def job(self, job_id: str) -> JobView:
        return self._table.jobs[job_id]

    def iterations_done(self, job_id: str) -> int:
        if not self._knows_progress:
            raise StackError(
                f"a policy asked how far job {job_id} is, which the {self._world.name} world does not know; "
                "a policy declares such needs in `needs`"
            )
        found = self._done.get(job_id)
        if found is None:
            job = self._table.jobs[job_id]
            if job.started_s is None:
                return job.saved_iterations
            found = self._done[job_id] = self._world.iterations_done(job_id)
        return found

    def iterations_left(self, job_id: str) -> int:
        return self._table.jobs[job_id].job.iterations - self.iterations_done(job_id)

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        if job.on and not job.gpu and (view := self._table.jobs.get(job.id)) is not None and view.gpus:
            job = job.as_on(self.cluster.type_of(view.gpus))
        return self._world.estimate(job, workers, spread)

    def traffic(self, job: Job, gpus: Placement) -> Traffic:
        if (said := self._world.traffic(job, gpus)) is not None:
            return said
        profile, alone = job.profile_on(len(gpus), self._world.cluster.type_of(gpus)), self._world.estimates
        found = alone.traffic(profile, gpus)
        view = self._table.jobs.get(job.id)
        if view is not None and view.silent:
            return replace(found, task=None)
        if view is not None and view.iteration_s and view.gpus == gpus:
            factor = alone.factor_for(profile, gpus, view.iteration_s)
            if factor is None:
                return Traffic(view.iteration_s)
            return alone.traffic(profile, gpus, compute_factor=factor)
        return found

    def residents(self, gpu: int) -> tuple[str, ...]:
        return self._table.gpus.names(gpu)

    def rng(self, policy: str) -> np.random.Generator:
        return stream(self._seed, policy, self._decision)
