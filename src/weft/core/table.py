"""Table: every job that has not ended and every GPU, kept up to date event by event, never rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.core.jobs import GroupedQueue, SortedJobs
from weft.core.occupancy import Occupancy
from weft.errors import WorldError
from weft.model.cluster import Cluster
from weft.model.events import (
    Barred,
    Cleared,
    Event,
    Failed,
    Finished,
    Learned,
    NodeDown,
    NodeUp,
    Prioritised,
    Started,
    Stopped,
    Submitted,
    Withdrawn,
)
from weft.model.job import Job
from weft.model.plan import Gate, Placement, Routes
from weft.model.reason import Why
from weft.model.view import JobStatus, JobView

Key = Callable[[JobView], float | tuple[float, ...]]
Kind = Callable[[JobView], str | None]
_MAX_QUEUES = 8  # orders kept between cycles; more means that a policy passes a new function each time


def memory_of(job: Job, workers: int) -> float:
    """GPU memory of one worker when the job runs with that many."""
    return (job.profiles.get(workers) or job.profile).memory_bytes


def shape_of(job: Job) -> tuple[int, float]:
    """The least a job can start on: workers, and GPU memory of each."""
    workers = job.gpus
    if job.min_gpus and job.min_gpus != job.gpus:  # elastic; most jobs are not
        workers = next(iter(job.sizes), job.gpus)
    return workers, memory_of(job, workers)


class Table:
    """What the core knows. Events and the core's own decisions change it; policies read it through the View.

    A job holds its GPUs from the moment its start is decided until the world says it has left them.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.gpus = Occupancy(cluster)
        self.jobs: dict[str, JobView] = {}
        self.arrivals = 0  # jobs ever submitted
        self.number: dict[str, int] = {}  # which of them a job was
        self.waiting = SortedJobs(_behind)
        self.running = SortedJobs()  # STARTING and STOPPING too: they hold GPUs
        self.placements: dict[str, Placement] = {}
        self.demand: dict[tuple[int, float], int] = {}
        self.gates: dict[str, Gate] = {}
        self.routes: dict[str, Routes] = {}  # of running jobs, where a route policy chose them
        self.held: dict[str, Why] = {}  # reason last written down for a waiting job
        self.ended: dict[str, JobStatus] = {}
        self.on_end: Callable[[JobView], None] | None = None  # told of each job that ends, as it was in the end
        self._queues: dict[tuple[Key, bool], GroupedQueue] = {}
        self._kind: Kind | None = None

    # What happened

    def take(self, event: Event) -> None:
        """Enter one event. Events about jobs that have ended are late, and ignored."""
        match event:
            case Submitted():
                self._submitted(event)
            case NodeDown() | NodeUp():
                self._node(event)
            case _ if event.job in self.ended:
                pass
            case _ if event.job not in self.jobs:
                raise WorldError(f"{_name(event)} at {event.time_s} s: job {event.job} was never submitted")
            case Started():
                self._started(event, self.jobs[event.job])
            case Stopped():
                self._stopped(event, self.jobs[event.job])
            case Failed():
                self._failed(event, self.jobs[event.job])
            case Finished() | Withdrawn():
                self._ended(event, self.jobs[event.job])
            case Barred():
                self._barred(event, self.jobs[event.job])
            case Cleared():
                self._cleared(self.jobs[event.job])
            case Learned():
                self._learned(event, self.jobs[event.job])
            case Prioritised():
                self._prioritised(event, self.jobs[event.job])

    def _submitted(self, event: Submitted) -> None:
        job = event.job
        if job.id in self.jobs or job.id in self.ended:
            raise WorldError(f"Submitted at {event.time_s} s: there is a job {job.id} already; ids must differ")
        self.number[job.id] = self.arrivals
        self.arrivals += 1
        self._enter_waiting(JobView(job, waiting_since_s=event.time_s))

    def _node(self, event: NodeDown | NodeUp) -> None:
        if not 0 <= event.server < len(self.cluster.servers):
            raise WorldError(f"{_name(event)} at {event.time_s} s: there is no server {event.server}")
        if isinstance(event, NodeDown):
            self.gpus.server_down(event.server)
        else:
            self.gpus.server_up(event.server)

    def _started(self, event: Started, job: JobView) -> None:
        self._expect(event, job, JobStatus.STARTING)
        first = event.time_s if job.first_start_s is None else job.first_start_s
        self._put(replace(job, status=JobStatus.RUNNING, started_s=event.time_s, first_start_s=first))

    def _stopped(self, event: Stopped, job: JobView) -> None:
        self._expect(event, job, JobStatus.STOPPING, JobStatus.RUNNING, JobStatus.STARTING)
        asked_for = job.status is JobStatus.STOPPING
        job = replace(
            self._leave_gpus(job, event.time_s),
            preemptions=job.preemptions + asked_for,
            failures=job.failures + (not asked_for),
            saved_iterations=event.iterations_done,
            waiting_since_s=event.time_s,
        )
        self._enter_waiting(job)

    def _failed(self, event: Failed, job: JobView) -> None:
        self._expect(event, job, JobStatus.STARTING)
        # It has been waiting all along: waiting_since_s stays.
        self._enter_waiting(replace(self._leave_gpus(job, event.time_s), failures=job.failures + 1))

    def _ended(self, event: Finished | Withdrawn, job: JobView) -> None:
        if job.status is not JobStatus.WAITING:
            job = self._leave_gpus(job, event.time_s) if self.on_end is not None else self._free_gpus(job)
        elif isinstance(event, Finished):
            raise WorldError(f"Finished at {event.time_s} s: job {job.id} was not running")
        elif not job.barred:
            self._leave_waiting(job)
        self.ended[job.id] = status = JobStatus.FINISHED if isinstance(event, Finished) else JobStatus.WITHDRAWN
        del self.jobs[job.id], self.number[job.id]
        if self.on_end is not None:
            self.on_end(replace(job, status=status))

    def _barred(self, event: Barred, job: JobView) -> None:
        self._expect(event, job, JobStatus.WAITING)
        if not job.barred:
            self._leave_waiting(job)
        self._put(replace(job, barred=event.reason or "barred"))

    def _cleared(self, job: JobView) -> None:
        if job.barred:
            self._enter_waiting(replace(job, barred=""))  # it has been waiting all along: waiting_since_s stays

    def _learned(self, event: Learned, job: JobView) -> None:
        known = replace(job.job, iterations=event.iterations) if event.iterations else job.job
        if job.status is JobStatus.WAITING:  # what it did on GPUs is over, and will be learned again
            self._known_anew(replace(job, job=known))
            return
        iteration_s = event.iteration_s or job.iteration_s
        self._put(replace(job, silent=job.silent or event.silent, iteration_s=iteration_s, job=known))

    def _prioritised(self, event: Prioritised, job: JobView) -> None:
        self._known_anew(replace(job, job=replace(job.job, priority=event.priority)))

    def _known_anew(self, known: JobView) -> None:
        """Where it waits, orders sort it again."""
        if known.id not in self.waiting:
            self._put(known)
            return
        told = self.held.get(known.id)
        self._leave_waiting(self.jobs[known.id])
        self._enter_waiting(known)
        if told is not None:
            self.held[known.id] = told

    def _expect(self, event: Started | Stopped | Failed | Barred, job: JobView, *statuses: JobStatus) -> None:
        if job.status not in statuses:
            raise WorldError(f"{_name(event)} at {event.time_s} s: job {job.id} is {job.status.value}")

    # What was decided

    def starting(self, job_id: str, gpus: Placement, gate: Gate | None, routes: Routes | None = None) -> None:
        """A start was decided."""
        if routes is not None:
            self.routes[job_id] = routes
        job = self.jobs[job_id]
        self._leave_waiting(job)
        self._enter_gpus(job, gpus, JobStatus.STARTING)
        self.set_gate(job_id, gate)

    def stopping(self, job_id: str) -> None:
        """A stop was decided."""
        self._put(replace(self.jobs[job_id], status=JobStatus.STOPPING))
        self.gates.pop(job_id, None)

    def set_gate(self, job_id: str, gate: Gate | None) -> None:
        """A gate was decided."""
        if gate is None:
            self.gates.pop(job_id, None)
        else:
            self.gates[job_id] = gate

    def hold(self, job_id: str, reason: Why) -> None:
        """It was decided that a job waits, for this reason."""
        self.held[job_id] = reason

    def put_back(self, job: JobView, number: int) -> None:
        """A saved job comes back to where it was."""
        self.jobs[job.id] = job
        self.number[job.id] = number
        if job.status is not JobStatus.WAITING:
            self._enter_gpus(job, job.gpus, job.status)
        elif not job.barred:
            self._enter_waiting(job)

    # What follows from it

    def group_by(self, kind: Kind) -> None:
        """From now on queues keep jobs of different kinds apart."""
        if kind != self._kind:
            self._kind = kind
            self._queues.clear()

    def waiting_by(self, key: Key, priorities: bool = True) -> GroupedQueue:
        """Waiting jobs by priority (if that is to count), then by a key that depends on the job alone. Built once, then
        kept up to date."""
        queue = self._queues.get((key, priorities))
        if queue is None:
            if len(self._queues) == _MAX_QUEUES:
                del self._queues[next(iter(self._queues))]
            queue = GroupedQueue((lambda job: (_behind(job), key(job))) if priorities else key, self._kind)
            self._queues[key, priorities] = queue
            for job in self.waiting.in_order():
                queue.add(job, self.number[job.id], shape_of(job.job)[0])
        return queue

    def _put(self, job: JobView) -> None:
        """What is known of a job from now on."""
        self.jobs[job.id] = job
        if job.id in self.running:
            self.running.put(job)

    def _enter_waiting(self, job: JobView) -> None:
        if job.status is not JobStatus.WAITING:
            job = replace(job, status=JobStatus.WAITING)
        self.jobs[job.id] = job
        shape = shape_of(job.job)
        self.demand[shape] = self.demand.get(shape, 0) + 1
        number = self.number[job.id]
        self.waiting.add(job, number)
        for queue in self._queues.values():
            queue.add(job, number, shape[0])

    def _leave_waiting(self, job: JobView) -> None:
        shape = shape_of(job.job)
        self.demand[shape] -= 1
        if not self.demand[shape]:
            del self.demand[shape]
        self.waiting.remove(job.id)
        for queue in self._queues.values():
            queue.remove(job.id)
        self.held.pop(job.id, None)

    def _enter_gpus(self, job: JobView, gpus: Placement, status: JobStatus) -> None:
        self.jobs[job.id] = job = replace(job, status=status, gpus=gpus)
        self.placements[job.id] = gpus
        self.gpus.enter(job.id, gpus, memory_of(job.job, len(gpus)))
        self.running.add(job, self.number[job.id])

    def _free_gpus(self, job: JobView) -> JobView:
        self.gpus.exit(job.id, job.gpus)
        self.running.remove(job.id)
        del self.placements[job.id]
        self.gates.pop(job.id, None)
        self.routes.pop(job.id, None)
        return job

    def _leave_gpus(self, job: JobView, time_s: float) -> JobView:
        """Free a job's GPUs; returns the job with its GPU time brought up to date."""
        self._free_gpus(job)
        held_s = 0.0 if job.started_s is None else time_s - job.started_s
        return replace(
            job,
            run_s=job.run_s + held_s,
            service_gpu_s=job.service_gpu_s + held_s * len(job.gpus),
            started_s=None,
            iteration_s=0.0,
            gpus=(),
        )


def _behind(job: JobView) -> int:
    """Jobs with a higher priority go first."""
    return -job.job.priority


def _name(event: Event) -> str:
    return type(event).__name__
