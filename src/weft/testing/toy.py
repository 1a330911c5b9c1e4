"""ToyWorld: a small, exact world without a network, for testing policies and the core; and small random workloads.

Jobs run at the speed of their estimate: an iteration takes its compute time, plus the time its messages take at
`bytes_per_s` when the job is spread over several servers. Jobs never slow each other down, neither on a link nor on a
shared GPU. Gates, pace and paths are noted and change nothing; what links carry is made up. Starts and stops take
`latency_s` (half to one and a half times that, at random) and starts fail at `failure_rate`; servers can be lost and
jobs withdrawn by a script of events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from weft.core.capabilities import Capabilities
from weft.core.world import World
from weft.model.cluster import Cluster
from weft.model.events import Event, Failed, Finished, NodeDown, NodeUp, Started, Stopped, Submitted, Withdrawn
from weft.model.job import Job
from weft.model.plan import Decision, Gate, Placement, Routes, SetGate, SetRoutes, Start, Stop
from weft.model.profile import Phase, Profile
from weft.model.routes import Flow
from weft.model.view import Estimate, Fact, Spread
from weft.network.collectives import flows_of
from weft.network.topologies import Machine, leaf_spine
from weft.network.topologies.clos import Group
from weft.policies.pace.base import Admission, Pace

DOMAINS, UNEQUAL = 6, 7  # workloads on NVLink domains, and on servers of two types
EVERYTHING = Capabilities(gpu_sharing=True, resizing=True, shifts=True, pacing=True, copies=True, routes=True)


def toy_cluster(
    racks: int = 2, servers_per_rack: int = 2, gpus_per_server: int = 4, gpu_memory_gb: float = 16.0
) -> Cluster:
    """A leaf-spine cluster, 16 GPUs unless told otherwise."""
    machine = Machine(gpus_per_server=gpus_per_server, gpu_memory_gb=gpu_memory_gb)
    return leaf_spine(racks, servers_per_rack, machine)


def toy_job(
    job_id: str,
    gpus: int = 1,
    iterations: int = 10,
    compute_s: float = 1.0,
    message_bytes: float = 0.0,
    submit_s: float = 0.0,
    memory_bytes: float = 1e9,
    sizes: Iterable[int] = (),
    checkpoint_every: int = 1,
) -> Job:
    """A job that computes, then sends; `sizes` makes it elastic (computing shrinks as workers are added)."""
    profiles = {
        n: Profile.from_phases(
            "toy",
            [Phase(compute_s * gpus / n), Phase(bytes=message_bytes)][: 2 if message_bytes else 1],
            n,
            memory_bytes,
        )
        for n in {gpus, *sizes}
    }
    low, high = min(profiles), max(profiles)
    return Job(job_id, submit_s, gpus, iterations, profiles, "toy", low, high, checkpoint_every=checkpoint_every)


@dataclass(eq=False)
class _Assignment:
    """A job on GPUs, or on its way there."""

    job: Job
    gpus: Placement
    iteration_s: float
    saved: int  # iterations kept from before
    number: int  # told apart from other assignments of the job
    began_s: float | None = None

    def done(self, now: float) -> int:
        if self.began_s is None:
            return self.saved
        whole = self.job.iterations
        if self.iteration_s > 0:
            whole = int((now - self.began_s) / self.iteration_s + 1e-9)
        return min(self.job.iterations, self.saved + whole)


_Entry = tuple[float, int, str, Event | _Assignment]  # time, order of entry, what happens, to whom


class ToyWorld(World):
    """A world for tests: one seed, one result; `log` is every event it reported."""

    name = "toy"

    def __init__(
        self,
        cluster: Cluster,
        jobs: Iterable[Job],
        *,
        latency_s: float = 0.0,
        failure_rate: float = 0.0,
        seed: int = 0,
        script: Sequence[NodeDown | NodeUp | Withdrawn] = (),
        capabilities: Capabilities = EVERYTHING,
        facts: frozenset[Fact] = frozenset(Fact),
        bytes_per_s: float = 1.25e9,
    ) -> None:
        self.cluster = cluster
        self.capabilities = capabilities
        self.facts = facts
        self.admission: Admission | None = None
        self.gates: dict[str, Gate] = {}
        self.routes: dict[str, Routes | None] = {}
        self.log: list[Event] = []
        self._latency_s, self._failure_rate, self._seed = latency_s, failure_rate, seed
        self._bytes_per_s = bytes_per_s
        self._now = 0.0
        self._entries: list[_Entry] = []
        self._entered = 0
        self._jobs: dict[str, Job] = {}
        self._saved: dict[str, int] = {}  # checkpoints of jobs that were submitted and have not ended
        self._assigned: dict[str, _Assignment] = {}
        self._assignments = 0
        self._down: set[int] = set()
        for job in jobs:
            self._enter(job.submit_s, "report", Submitted(job.submit_s, job))
        for event in script:
            self._enter(event.time_s, "report", event)

    # What the core asks

    def now(self) -> float:
        return self._now

    def iterations_done(self, job_id: str) -> int:
        assignment = self._assigned.get(job_id)
        return assignment.done(self._now) if assignment else self._saved[job_id]

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        """Compute time, and the messages at full speed when there is more than one server."""
        profile = job.profiles[workers]
        send_s = profile.message_bytes / self._bytes_per_s if spread.servers > 1 else 0.0
        return Estimate(profile.compute_s + send_s, profile.compute_s)

    def flows(self, job: Job, gpus: Placement) -> tuple[Flow, ...]:
        """Those of rings, without a job's own hash."""
        return flows_of(job.profiles[len(gpus)], gpus, self.cluster, "ring")

    def carried(self) -> npt.NDArray[np.float64]:
        """As if each link had always carried a part of what it can, drawn by its number."""
        parts = np.array([self._lot(link.id, "carried") for link in self.cluster.topology.links])
        return self._now * parts * self.cluster.topology.capacity

    # What the loop does

    def set_pace(self, pace: Pace) -> None:
        """Note the admission rule."""
        self.admission = pace.admission(1.0 / self._bytes_per_s, 0.0)

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Carry decisions out: at once, or after the latency."""
        known: list[Event] = []
        for decision in decisions:
            match decision:
                case Start():
                    known += self._request(self._assign(decision), "start")
                case Stop():
                    known += self._request(self._assigned[decision.job], "stop")
                case SetRoutes():
                    self.routes[decision.job] = decision.routes
                case SetGate(gate=None):
                    self.gates.pop(decision.job, None)
                case SetGate(gate=Gate() as gate):
                    self.gates[decision.job] = gate
        self.log += known
        return known

    def next_events(self, until_s: float | None) -> list[Event]:
        while self._entries and (until_s is None or self._entries[0][0] <= until_s):
            self._now = self._entries[0][0]
            events: list[Event] = []
            while self._entries and self._entries[0][0] == self._now:
                _, _, what, subject = heappop(self._entries)
                events += self._happen(what, subject)
            if events:
                self.log += events
                return events
        if until_s is not None:
            self._now = max(self._now, until_s)
        return []

    # How it goes on

    def _enter(self, time_s: float, what: str, subject: Event | _Assignment) -> None:
        self._entered += 1
        heappush(self._entries, (time_s, self._entered, what, subject))

    def _assign(self, start: Start) -> _Assignment:
        job = self._jobs[start.job]
        iteration_s = self.estimate(job, len(start.gpus), Spread.of(self.cluster, start.gpus)).iteration_s
        self._assignments += 1
        self._assigned[job.id] = _Assignment(job, start.gpus, iteration_s, self._saved[job.id], self._assignments)
        self.routes[job.id] = start.routes
        if start.gate is not None:
            self.gates[job.id] = start.gate
        return self._assigned[job.id]

    def _request(self, assignment: _Assignment, what: str) -> list[Event]:
        if self._latency_s <= 0:
            return self._happen(what, assignment)
        delay_s = self._latency_s * (0.5 + self._lot(assignment.number, what))
        self._enter(self._now + delay_s, what, assignment)
        return []

    def _happen(self, what: str, subject: Event | _Assignment) -> list[Event]:
        if not isinstance(subject, _Assignment):
            return self._report(subject)
        if self._assigned.get(subject.job.id) is not subject:
            return []  # it has left its GPUs since
        match what:
            case "start":
                return [self._start(subject)]
            case "stop":
                return [self._stop(subject, "stopped as asked")]
            case _:
                self._forget(subject.job.id)
                return [Finished(self._now, subject.job.id)]

    def _start(self, assignment: _Assignment) -> Event:
        job = assignment.job
        if self._lot(assignment.number, "failure") < self._failure_rate:
            return self._fail(assignment, "the start failed, at random")
        assignment.began_s = self._now
        left_s = (job.iterations - assignment.saved) * assignment.iteration_s
        self._enter(self._now + left_s, "finish", assignment)
        return Started(self._now, job.id)

    def _stop(self, assignment: _Assignment, reason: str) -> Event:
        job = assignment.job
        self._saved[job.id] = assignment.done(self._now) // job.checkpoint_every * job.checkpoint_every
        del self._assigned[job.id]
        self.gates.pop(job.id, None)
        return Stopped(self._now, job.id, self._saved[job.id], reason)

    def _fail(self, assignment: _Assignment, reason: str) -> Event:
        del self._assigned[assignment.job.id]
        self.gates.pop(assignment.job.id, None)
        return Failed(self._now, assignment.job.id, reason)

    def _report(self, event: Event) -> list[Event]:
        match event:
            case Submitted():
                self._jobs[event.job.id] = event.job
                self._saved[event.job.id] = 0
            case Withdrawn():
                if event.job not in self._saved:
                    return []  # not there yet, or gone already
                self._forget(event.job)
            case NodeDown():
                if event.server in self._down:
                    return []
                self._down.add(event.server)
                return [event, *self._lose(event.server)]
            case NodeUp():
                if event.server not in self._down:
                    return []
                self._down.discard(event.server)
        return [event]

    def _lose(self, server: int) -> Iterable[Event]:
        gpus = set(self.cluster.servers[server].gpus)
        reason = f"server {self.cluster.servers[server].name} went down"
        for assignment in [a for a in self._assigned.values() if not gpus.isdisjoint(a.gpus)]:
            lose = self._fail if assignment.began_s is None else self._stop
            yield lose(assignment, reason)

    def _forget(self, job_id: str) -> None:
        self._assigned.pop(job_id, None)
        del self._saved[job_id]
        self.gates.pop(job_id, None)

    def _lot(self, number: int, what: str) -> float:
        digest = blake2b(f"{self._seed}\0{number}\0{what}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") / 2.0**64


@dataclass(frozen=True)
class Workload:
    """A cluster, jobs that all fit on it, and what goes wrong."""

    number: int
    cluster: Cluster
    jobs: tuple[Job, ...]
    script: tuple[NodeDown | NodeUp | Withdrawn, ...]
    latency_s: float
    failure_rate: float

    def world(self, facts: frozenset[Fact] = frozenset(Fact), *, uneven: bool = True) -> ToyWorld:
        """A toy world about to begin it; facts that are not in `facts` are hidden from policies as far as possible."""
        jobs = self.jobs if Fact.MODEL in facts else tuple(replace(job, model="") for job in self.jobs)
        return ToyWorld(
            self.cluster, jobs, latency_s=self.latency_s, failure_rate=self.failure_rate, seed=self.number,
            script=self.script, capabilities=replace(EVERYTHING, uneven=uneven), facts=facts,
        )  # fmt: skip


def workload(number: int, jobs: int = 24, shapes: bool = False) -> Workload:
    """The workload of that number: sizes, lengths, memory, arrivals, latency, failures, lost servers, withdrawals; with
    `shapes` some of the jobs must have a number of workers on each server."""
    rng = np.random.default_rng(number)
    cluster = toy_cluster(int(rng.integers(1, 4)), int(rng.integers(2, 5)), int(rng.integers(1, 6)))
    if number == DOMAINS:
        cluster = leaf_spine(2, 4, Machine(4, nvlink_domain=2, nvlink_gbps=900.0))
    elif number == UNEQUAL:
        cluster = leaf_spine(servers_per_rack=2, groups=(Group(4, Machine(4)), Group(3, Machine(2, gpu="A100"))))
    servers = 3 if number == UNEQUAL else len(cluster.servers) - 1
    sizes = [n for n in (1, 2, 3, 4, 6, 8, 16) if _fits(n, servers, len(cluster.servers[0].gpus))]
    made: list[Job] = []
    for i in range(jobs):
        gpus = int(rng.choice(sizes))
        made.append(
            toy_job(
                f"job{i}",
                gpus,
                iterations=int(rng.integers(1, 40)),
                compute_s=float(rng.choice([0.25, 0.5, 1.0])),
                message_bytes=float(rng.choice([0.0, 1e8, 1e9])),
                submit_s=float(rng.integers(0, 60)),  # some at the same instant
                memory_bytes=float(rng.choice([1e9, 5e9, 12e9])),
                sizes=[n for n in sizes if n <= gpus] if rng.random() < 0.3 else (),
                checkpoint_every=int(rng.choice([1, 4])),
            )
        )
    if number == UNEQUAL:  # the others take any type; with one server lost, those of each type still fit
        made = [_typed(job, i) for i, job in enumerate(made)]
    if shapes:
        made = [job if job.gpu == "A100" else _shaped(job, servers, len(cluster.servers[0].gpus)) for job in made]
    lost = int(rng.integers(len(cluster.servers)))
    script = (NodeDown(20.0, lost, "lost"), NodeUp(45.0, lost), Withdrawn(30.0, made[int(rng.integers(jobs))].id))
    slow = number % 2 == 1
    return Workload(number, cluster, tuple(made), script, 2.0 if slow else 0.0, 0.2 if slow else 0.0)


def _typed(job: Job, i: int) -> Job:
    if i % 3 == 0 and job.gpus <= 4:
        return replace(job, gpu="A100")
    return replace(job, gpu="V100") if i % 3 == 1 else replace(job, on={"A100": job.profiles})


def _shaped(job: Job, servers: int, each: int) -> Job:
    """The job, in one case of two with a shape that it can have on so many servers of `each` GPUs."""
    able = [job.gpus // k for k in range(1, servers + 1) if job.gpus % k == 0 and job.gpus // k <= each]
    rng = np.random.default_rng(int(job.id.removeprefix("job")))
    return replace(job, per_server=int(rng.choice(able))) if rng.random() < 0.5 else job


def _fits(gpus: int, servers: int, each: int) -> bool:
    """True if a job fits, evenly too, on so many servers of `each` GPUs: also when one is lost."""
    return any(gpus % k == 0 and gpus // k <= each for k in range(1, servers + 1))
