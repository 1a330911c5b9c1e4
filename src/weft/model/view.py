"""ClusterView: all that a policy may see. It is read-only, and valid only during the call that gets it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from weft.model.cluster import Cluster
from weft.model.flows import Traffic
from weft.model.job import Job
from weft.model.plan import Placement
from weft.model.reason import Why

_SPREADS = 10_000  # placements whose spread is remembered: policies ask about the same running jobs again and again


class Fact(Enum):
    """Something about a job that a policy needs and a world may not know; checked once, at start."""

    ITERATIONS_LEFT = "iterations left"
    MODEL = "model"
    PROFILE = "profile"

    __hash__ = object.__hash__  # each is one object; Enum's own hash is Python, and policies ask for facts all the time


class JobStatus(Enum):
    """Where a job is. Decisions are requests: it is STARTING or STOPPING until the world confirms."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FINISHED = "finished"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class JobView:
    """A job and what has become of it so far. When something happens to the job, the core makes a new one."""

    job: Job
    status: JobStatus = JobStatus.WAITING
    gpus: Placement = ()  # where it is (or is going), empty while waiting
    waiting_since_s: float = 0.0  # submission, or the end of its last assignment
    started_s: float | None = None  # start of the current assignment
    first_start_s: float | None = None
    run_s: float = 0.0  # time on GPUs in earlier assignments
    service_gpu_s: float = 0.0  # GPU seconds held in earlier assignments
    preemptions: int = 0
    failures: int = 0  # starts that failed and stops that nobody asked for
    saved_iterations: int = 0  # iterations kept at the last stop
    silent: bool = False  # it reports no progress: it cannot be gated
    iteration_s: float = 0.0  # measured on its present GPUs, where its profile is wrong; 0: the profile is right
    barred: Why = ""  # why it cannot be started now; while this is set, no policy sees the job

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    def run_time_s(self, now: float) -> float:
        """Seconds spent on GPUs up to now."""
        return self.run_s + (now - self.started_s if self.started_s is not None else 0.0)

    def attained_gpu_s(self, now: float) -> float:
        """GPU seconds held up to now (2D-LAS's attained service)."""
        held = (now - self.started_s) * len(self.gpus) if self.started_s is not None else 0.0
        return self.service_gpu_s + held


@dataclass(frozen=True, slots=True)
class Spread:
    """How far apart a job's workers are: the shape that its speed depends on."""

    servers: int = 1
    racks: int = 1

    @staticmethod
    def of(cluster: Cluster, gpus: Placement) -> Spread:
        """Spread of a placement."""
        known = cluster.known["spreads"]
        found: Spread | None = known.get(gpus)
        if found is None:
            servers = set(cluster.server_of_gpu[list(gpus)].tolist())
            if len(known) >= _SPREADS:
                known.clear()
            found = known[gpus] = Spread(len(servers), len(set(cluster.rack_of_server[list(servers)].tolist())))
        return found

    @staticmethod
    def closest(cluster: Cluster, workers: int) -> Spread:
        """The spread of that many workers, as close together as the cluster allows, if its servers and racks are all
        alike."""
        found: Spread | None = cluster.known["closest spreads"].get(workers)
        if found is None:
            servers = -(-workers // cluster.largest_server)
            per_rack = max(1, len(cluster.servers) // max(1, cluster.n_racks))
            found = cluster.known["closest spreads"][workers] = Spread(servers, -(-servers // per_rack))
        return found


@dataclass(frozen=True, slots=True)
class Estimate:
    """How fast a job would run at some size and spread, alone on the network."""

    iteration_s: float
    compute_s: float

    @property
    def comm_s(self) -> float:
        """Exposed communication per iteration."""
        return max(0.0, self.iteration_s - self.compute_s)


@dataclass(frozen=True, slots=True)
class Offer:
    """GPUs as they are, or as they would be after some hypothetical stops and starts. Arrays by GPU id; read-only.

    `residents` counts jobs on each GPU, `memory` is what is left of each GPU's memory, `usable` is False for GPUs of
    servers that are down. A policy that does not share GPUs looks at `free`.
    """

    residents: npt.NDArray[np.int32]
    memory: npt.NDArray[np.float64]
    usable: npt.NDArray[np.bool_]
    free_per_server: npt.NDArray[np.int64]  # usable GPUs without residents, by server
    n_free: int

    @property
    def free(self) -> npt.NDArray[np.bool_]:
        """GPUs that nobody is on."""
        free: npt.NDArray[np.bool_] = self.usable & (self.residents == 0)
        return free

    def without(self, gpus: npt.NDArray[np.int64], server_of_gpu: npt.NDArray[np.int64]) -> Offer:
        """The offer as if these GPUs (all different) could not be used."""
        free = gpus[self.free[gpus]]
        if not len(free):
            return self
        usable, per_server = self.usable.copy(), self.free_per_server.copy()
        usable[gpus] = False
        np.subtract.at(per_server, server_of_gpu[free], 1)
        return replace(self, usable=usable, free_per_server=per_server, n_free=self.n_free - len(free))

    def free_among(self, gpus: Iterable[int]) -> list[int]:
        """Which of these GPUs nobody is on: the same as `free`, without looking at the whole cluster."""
        residents, usable = self.residents, self.usable
        return [gpu for gpu in gpus if not residents[gpu] and usable[gpu]]


class ClusterView(Protocol):
    """What a policy sees. `waiting` and `running` are in order of submission, except that waiting jobs with a higher
    priority come first. STARTING and STOPPING jobs are in `running`, because they hold GPUs."""

    @property
    def now(self) -> float: ...
    @property
    def news(self) -> bool:
        """Whether anything has been reported since the last cycle; if not, only time has passed."""
        ...

    @property
    def cluster(self) -> Cluster: ...
    @property
    def waiting(self) -> Mapping[str, JobView]: ...
    @property
    def running(self) -> Mapping[str, JobView]: ...
    @property
    def offer(self) -> Offer: ...
    @property
    def placements(self) -> Mapping[str, Placement]:
        """GPUs of each job in `running`."""
        ...

    @property
    def demand(self) -> Mapping[tuple[int, float], int]:
        """Number of waiting jobs by the least they could start on: (GPUs, bytes of memory on each)."""
        ...

    def waiting_by(
        self, key: Callable[[JobView], float | tuple[float, ...]], priorities: bool = True, most: int | None = None
    ) -> Iterable[JobView]:
        """Waiting jobs, highest priority first (unless `priorities` is false), then smallest key first, then by
        submission. With `most`, only those that can start on that many GPUs; the others cost nothing.

        An order that ranks running jobs among them compares priorities first, too.
        The core keeps this order between cycles: pass the same function each time, and let it depend on nothing but
        the job it is given (nothing about a job changes while it waits).
        """
        ...

    @property
    def facts(self) -> frozenset[Fact]:
        """What the world knows about jobs."""
        ...

    @property
    def restart_s(self) -> float:
        """What stopping a job and starting it again costs it, beside the work since its last checkpoint."""
        ...

    def job(self, job_id: str) -> JobView:
        """Any job that the world has reported and that has not ended."""
        ...

    def iterations_done(self, job_id: str) -> int:
        """Full iterations done up to now."""
        ...

    def iterations_left(self, job_id: str) -> int:
        """Iterations still to do."""
        ...

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        """Speed of a job at some size and spread, as the world knows it: on the type of GPU that it asks for, else on
        the type that it holds, else on the first of the cluster (`Job.as_on`: on another)."""
        ...

    def traffic(self, job: Job, gpus: Placement) -> Traffic:
        """What a job would send over each link in an iteration on these GPUs, alone, as the world knows it."""
        ...

    def residents(self, gpu: int) -> tuple[str, ...]:
        """Jobs on a GPU."""
        ...

    def rng(self, policy: str) -> np.random.Generator:
        """Random numbers keyed by (seed, policy, decision number): the same whenever this decision is taken again."""
        ...


_ENOUGH = 10  # iterations after which their mean says something


def measured_s(view: ClusterView, job: JobView, done: int | None = None) -> float:
    """Mean time of a running job's iterations since it started, not counting a restart; 0 where that is not known yet.
    `done` is the number of its iterations so far, if the caller knows it already."""
    if done is None:
        done = view.iterations_done(job.id) if Fact.ITERATIONS_LEFT in view.facts else 0
    done -= job.saved_iterations
    if done < _ENOUGH:
        return 0.0
    again_s = view.restart_s if job.run_s > 0.0 else 0.0
    return max(0.0, job.run_time_s(view.now) - job.run_s - again_s) / done
