"""What becomes of a queue from now on: one state of a cluster, simulated forward many times.

The decision core and the stacks are those that run elsewhere. What differs is the world: `Ahead` knows how long a job
runs, and nothing of links. Lengths are drawn (spread.py), once for each sample, and so are the jobs that have yet to
come. Two questions with the same seed get the same draws, so their answers can be compared job by job.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count

import numpy as np

from weft.advise.spread import ENOUGH, Past, Spreads
from weft.core.capabilities import Capabilities
from weft.core.cycle import Core
from weft.core.loop import advance, settle
from weft.core.stack import Stack
from weft.core.view import RESTART_S
from weft.core.world import World
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.events import Event, Finished, Started, Stopped, Submitted
from weft.model.job import Job
from weft.model.plan import Decision, Placement, Start, State, Stop
from weft.model.profile import Phase, Profile
from weft.model.view import Estimate, Fact, JobStatus, JobView, Spread
from weft.network.estimates import Estimates
from weft.policies.pace.base import Pace
from weft.sim import few_collections

LONGEST_S = 60 * 86_400.0  # a job that has not started by then gets no time
LEAST, MOST = 4, 100  # samples
MOST_COMING = 2000  # further jobs in a sample: what has not started by then may be passed for ever
BUDGET_S = 1.2  # no further sample is begun after so long
ON_GPUS = (JobStatus.RUNNING, JobStatus.STARTING)


@dataclass(frozen=True)
class Present:
    """A cluster at one moment, as far as somebody knows it."""

    cluster: Cluster
    now_s: float
    jobs: tuple[JobView, ...]  # that have not ended, in the order of their submission
    claims: Mapping[str, float] = field(default_factory=dict)  # seconds that a job is said to take, where it is said
    limits: Mapping[str, float] = field(default_factory=dict)  # seconds after which it is ended
    past: Sequence[Past] = ()  # jobs that have ended, in the order of their ends
    down: frozenset[int] = frozenset()  # servers on which nothing starts
    restart_s: float = RESTART_S
    memory: tuple[str, State] | None = None  # a stack, and what its planner remembers

    def job(self, job_id: str) -> JobView:
        """A job that has not ended."""
        found = next((job for job in self.jobs if job.id == job_id), None)
        if found is None:
            raise InputError(f"{job_id}: there is no such job that has not ended; weft queue lists them")
        return found

    @property
    def waiting(self) -> list[str]:
        """Jobs that may start, by submission."""
        return [job.id for job in self.jobs if job.status not in ON_GPUS and not job.barred]

    @property
    def owners(self) -> dict[int, str]:
        """Which job has a GPU."""
        return {gpu: job.id for job in self.jobs if job.status in ON_GPUS for gpu in job.gpus}

    def free(self) -> list[int]:
        """GPUs that nobody has, on servers that can be used."""
        owners = self.owners
        return [
            g for server in self.cluster.servers if server.id not in self.down for g in server.gpus if g not in owners
        ]

    def with_job(self, job: Job, claim_s: float | None) -> Present:
        """The same with one job more, submitted now."""
        known = {**self.claims, job.id: claim_s} if claim_s else self.claims
        return replace(self, jobs=(*self.jobs, JobView(job, waiting_since_s=self.now_s)), claims=known)

    def resized(self, job_id: str, gpus: int) -> Present:
        """The same, where a job that waits asks for another number of GPUs."""
        old = self.job(job_id)
        job = replace(
            old.job, gpus=gpus, profiles={gpus: unknown(gpus)}, per_server=min(old.job.per_server, gpus), min_gpus=0,
            max_gpus=0, on={}, batches={},
        )  # fmt: skip
        return replace(self, jobs=tuple(replace(one, job=job) if one is old else one for one in self.jobs))


@lru_cache(maxsize=1024)
def unknown(gpus: int) -> Profile:
    """An iteration of a second, of which nothing else is known; one object for all jobs alike."""
    return Profile.from_phases("unknown", [Phase(1.0)], gpus)


class Ahead(World):
    """A world in which every job takes the time that was drawn for it, wherever it runs."""

    name = "forward"
    capabilities = Capabilities(shifts=True, pacing=True)
    facts = frozenset(Fact)

    def __init__(
        self, present: Present, lengths: Mapping[str, float], coming: Iterator[tuple[Job, float]], alone: Estimates
    ) -> None:
        self.cluster, self._now, self._alone, self._again_s = present.cluster, present.now_s, alone, present.restart_s
        self._lengths, self._claims, self._coming = dict(lengths), present.claims, coming
        self._next = next(coming, None)
        self._jobs = {view.id: view.job for view in present.jobs}
        self._ran = {view.id: view.run_s for view in present.jobs}  # in earlier assignments
        self._since: dict[str, float] = {}
        self._due: list[tuple[float, int, str]] = []  # ends: when, of which assignment, of which job
        self._turn: dict[str, int] = {}
        self._turns = count()
        self.ends: dict[str, float] = {}
        self.came = 0  # jobs that were submitted meanwhile
        for view in present.jobs:
            if view.status in ON_GPUS:
                self._go(view.id, self._now if view.started_s is None else view.started_s)

    @property
    def estimates(self) -> Estimates:
        """As whoever asks knows them."""
        return self._alone

    @property
    def restart_s(self) -> float:
        """As whoever asks says."""
        return self._again_s

    def now(self) -> float:
        return self._now

    def iterations_done(self, job_id: str) -> int:
        """As many as the claim makes of the time that has passed: no more is known when policies decide."""
        job, since_s = self._jobs[job_id], self._since.get(job_id, self._now)
        ran_s, whole_s = self._ran[job_id] + max(0.0, self._now - since_s), self._claims.get(job_id) or job.compute_s
        return min(job.iterations - 1, int(job.iterations * ran_s / max(whole_s, 1e-9)))

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        return self._alone.of(job.profiles[workers], job.model, spread, job.gpu)

    def set_pace(self, pace: Pace) -> None:
        """Nothing here goes over links."""

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        events: list[Event] = []
        for decision in decisions:
            name = decision.job
            if isinstance(decision, Start):
                self._go(name, self._now + (self._again_s if self._ran[name] else 0.0))
                events.append(Started(self._now, name))
            elif isinstance(decision, Stop):
                done, resumes = self.iterations_done(name), self._jobs[name].resumes
                since_s = self._since.pop(name)
                self._ran[name] = (self._ran[name] + max(0.0, self._now - since_s)) if resumes else 1e-9
                del self._turn[name]
                events.append(Stopped(self._now, name, done if resumes else 0, decision.reason))
        return events

    def _go(self, name: str, since_s: float) -> None:
        self._since[name], self._turn[name] = since_s, next(self._turns)
        end_s = since_s + max(0.0, self._lengths[name] - self._ran[name])
        heapq.heappush(self._due, (max(self._now, end_s), self._turn[name], name))

    def next_events(self, until_s: float | None) -> list[Event]:
        while self._due and self._turn.get(self._due[0][2]) != self._due[0][1]:
            heapq.heappop(self._due)  # of an assignment that was stopped
        arrival = self._next[0].submit_s if self._next is not None else math.inf
        at_s = min(self._due[0][0] if self._due else math.inf, arrival)
        if at_s == math.inf or (until_s is not None and at_s > until_s):
            self._now = max(self._now, until_s or 0.0)
            return []
        self._now = max(self._now, at_s)
        events: list[Event] = []
        while self._due and self._due[0][0] <= self._now:
            _, turn, name = heapq.heappop(self._due)
            if self._turn.get(name) == turn:
                del self._turn[name], self._since[name]
                self.ends[name] = self._now
                events.append(Finished(self._now, name))
        while self._next is not None and self._next[0].submit_s <= self._now:
            job, length_s = self._next
            self._jobs[job.id], self._ran[job.id], self._lengths[job.id] = job, 0.0, length_s
            events.append(Submitted(self._now, job))
            self._next = next(self._coming, None)
            self.came += 1
        return events


class Starts:
    """A journal that keeps when jobs start first, and where."""

    def __init__(self, asked: Sequence[str]) -> None:
        self.missing, self.starts, self.places = set(asked), dict[str, float](), dict[str, Placement]()

    def write(self, cycle: int, time_s: float, decisions: Sequence[Decision]) -> None:
        """Look for first starts."""
        for decision in decisions:
            if isinstance(decision, Start) and decision.job in self.missing:
                self.missing.discard(decision.job)
                self.starts[decision.job], self.places[decision.job] = time_s, decision.gpus


@dataclass(frozen=True)
class Sample:
    """What one sample came to: when the jobs that were asked about start, on which GPUs, and when jobs end."""

    starts: Mapping[str, float]
    places: Mapping[str, Placement]
    ends: Mapping[str, float]


def samples(
    present: Present, stack: Stack, asked: Sequence[str], n: int | None = None, *, seed: int = 0,
    alone: Estimates | None = None, arrivals: bool = True, budget_s: float = BUDGET_S,
) -> list[Sample]:  # fmt: skip
    """Simulate forward until the jobs that are asked about have started: `n` times, or as often as the time allows."""
    alone, spreads = alone or Estimates(present.cluster), Spreads(present.past)
    found: list[Sample] = []
    until_s = time.monotonic() + budget_s
    with few_collections():
        while len(found) < (n or MOST) and (n or len(found) < LEAST or time.monotonic() < until_s):
            i = len(found)
            lengths = _lengths(present, spreads, np.random.Generator(np.random.Philox(key=[seed, 2 * i])))
            later = np.random.Generator(np.random.Philox(key=[seed, 2 * i + 1]))
            coming = _coming(present, later) if arrivals else iter(())
            found.append(_sample(present, stack, Ahead(present, lengths, coming, alone), asked, seed + i))
    return found


def claimed(present: Present, stack: Stack, asked: Sequence[str]) -> Sample:
    """What comes of it if every job takes what was claimed, and no further job comes: what estimates from time limits
    assume."""
    return samples(replace(present, past=()), stack, asked, 1, arrivals=False)[0]


def _sample(present: Present, stack: Stack, world: Ahead, asked: Sequence[str], seed: int) -> Sample:
    journal = Starts(asked)
    core = Core(stack, world, seed, journal)
    if present.memory is not None and present.memory[0] == stack.name:
        core.planner_state = present.memory[1]
    for number, job in enumerate(present.jobs):
        waits = job.status not in ON_GPUS
        status = JobStatus.WAITING if waits else JobStatus.RUNNING
        since_s = None if waits else present.now_s if job.started_s is None else job.started_s
        core.table.put_back(replace(job, status=status, gpus=() if waits else job.gpus, started_s=since_s), number)
    core.table.arrivals = len(present.jobs)
    for server in present.down:
        core.table.gpus.server_down(server)
    core.view.move_to(present.now_s, 0)
    settle(core, world, [])
    end_s = present.now_s + LONGEST_S
    while journal.missing and world.came < MOST_COMING and advance(core, world, end_s) is not None:
        pass
    return Sample(journal.starts, journal.places, world.ends)


def _lengths(present: Present, spreads: Spreads, rng: np.random.Generator) -> dict[str, float]:
    ranks = spreads.ranks([job.job.user for job in present.jobs], rng)
    known, limits, now = present.claims, present.limits, present.now_s
    return {
        job.id: spreads.length(job.job.user, known.get(job.id), limits.get(job.id), job.run_time_s(now), rank)
        for job, rank in zip(present.jobs, ranks, strict=True)
    }


def _coming(present: Present, rng: np.random.Generator) -> Iterator[tuple[Job, float]]:
    """Jobs that have yet to come: those of the past, as they followed each other from a moment drawn at random. Of too
    short a past nothing is expected."""
    past = sorted(present.past, key=lambda job: job.submit_s)
    if len(past) < ENOUGH:
        return
    times = [job.submit_s for job in past]
    span_s = times[-1] - times[0]
    at_s = times[0] + rng.random() * span_s
    i, later_s = int(np.searchsorted(times, at_s)), present.now_s - at_s
    for number in count():
        if i == len(past):
            i, later_s = 0, later_s + span_s * (1 + 1 / len(past))
        job = past[i]
        seconds = max(1, round(job.claim_s or job.took_s))
        profiles = {job.gpus: unknown(job.gpus)}
        yield Job(f"+{number}", times[i] + later_s, job.gpus, seconds, profiles, user=job.user), job.took_s
        i += 1
