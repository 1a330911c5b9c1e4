"""LocalWorld: real processes on this machine, on GPUs that are pretended. The default of `weft serve`."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.core.capabilities import Capabilities
from weft.model.cluster import Cluster
from weft.model.events import Barred, Cleared, Event, Failed, Finished, Learned, Started, Stopped, Withdrawn
from weft.model.job import Job
from weft.model.plan import Decision, Gate, Placement, SetGate, Start, Stop
from weft.model.reason import Why, because
from weft.model.view import Fact, JobStatus, JobView, Spread
from weft_live.attempt import Attempt, Ended, done, saved_in
from weft_live.clock import Clock
from weft_live.description import Description
from weft_live.ending import NONE, Becomes, Faults, judge, pausing
from weft_live.measured import SLACK_S, Doubts
from weft_live.unix import bound
from weft_live.waiting import Closing, LiveWorld

__all__ = ["Closing", "LocalTask", "LocalWorld"]

_PAUSE_S = (2.0, 120.0)  # seconds before a start that was impossible is tried again: at first, doubling, and at most
_SCAN_S = 0.5  # every runner is looked at this often, in case it was killed before it could say anything


@dataclass
class LocalTask:
    """A job that has not ended, and its present attempt."""

    job: Job
    description: Description
    saved: int = 0  # iterations kept from earlier attempts
    faults: Faults = NONE
    starts: int = 0  # attempts so far; also the number of the present one
    attempt: Attempt | None = None
    gpus: Placement = ()
    gate: Gate | None = None
    running: bool = False  # the start was confirmed
    stopping: bool = False  # a stop was decided
    cancelled: bool = False
    seen: int = 0  # iterations reported to policies: they never become fewer
    doubts: Doubts = field(default_factory=Doubts)  # what has been learned about this start
    started_s: float = 0.0  # when it was confirmed
    bars: int = 0  # starts in a row that could not even be attempted
    barred_until_s: float | None = None


class LocalWorld(LiveWorld[LocalTask]):
    """See the module. Jobs come by `submit`; with `open` the world waits for more when it has nothing to do.

    Each start of a job is an attempt with a folder and a runner of its own (weft_live/runner.py), so that jobs go on
    when this process dies, and another one can take them over (`adopt`).
    """

    name = "local"
    capabilities = Capabilities(shifts=True)
    facts = frozenset(Fact)  # as far as descriptions tell them; submissions that lack what is needed are refused

    def __init__(self, cluster: Cluster, folder: Path, clock: Clock | None = None, *, open: bool = False) -> None:
        super().__init__(cluster, folder, clock or Clock.begin(), open=open)
        self._dirty: set[str] = set()  # jobs whose attempt may have changed
        self._next_scan_s = 0.0
        self.slack_s = SLACK_S
        self._pokes = bound(folder / "events.sock", socket.SOCK_DGRAM)
        self.watch(self._pokes, self._poked)

    # What the core asks

    def iterations_done(self, job_id: str) -> int:
        """What the job last reported, or saved in an earlier attempt."""
        task = self.tasks[job_id]
        step = task.attempt.progress().step if task.attempt else 0
        task.seen = max(task.seen, task.saved, min(step, task.job.iterations))
        return task.seen

    # What users ask

    def submit(self, job: Job, description: Description) -> None:
        """A job that is to be reported at its time of submission."""
        self._will_arrive(LocalTask(job, description))

    def cancel(self, job_id: str) -> bool:
        """End a job for good; False if there is no such job any more."""
        task = self._known(job_id)
        if task is None:
            return False
        task.cancelled = True
        if task.attempt is not None:
            task.attempt.stop(self._grace_s(task))
        return True

    def take_over(
        self, view: JobView, description: Description, starts: int, faults: Faults, cancelled: bool, gate: Gate | None
    ) -> None:
        """A job as the last server left it."""
        task = LocalTask(
            view.job, description, saved=view.saved_iterations, faults=faults, starts=starts, gpus=view.gpus,
            running=view.status in (JobStatus.RUNNING, JobStatus.STOPPING),
            stopping=view.status is JobStatus.STOPPING, cancelled=cancelled,
            barred_until_s=self.now() if view.barred else None, started_s=self.now(),
            doubts=Doubts(iteration_s=view.iteration_s),
        )  # fmt: skip
        if view.status is not JobStatus.WAITING:
            task.attempt = self.attempt(view.id, starts)
        self.adopt(task, gate)

    def adopt(self, task: LocalTask, gate: Gate | None) -> None:
        """Take a job over from a process that has gone: what it had asked for is asked for again."""
        self.tasks[task.job.id] = task
        task.gate = gate
        if task.attempt is None:
            return
        self._dirty.add(task.job.id)
        if not task.attempt.begun:
            task.attempt.spawn(self._spec(task))
        else:
            task.attempt.set_gate(self._gate(task))
            if task.stopping or task.cancelled:
                task.attempt.stop(self._grace_s(task))

    # What the loop does

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Start runners, tell them to stop, tell them gates; what comes of it is reported later."""
        events: list[Event] = []
        for decision in decisions:
            match decision:
                case Start():
                    events += self._start(self.tasks[decision.job], decision)
                case Stop():
                    task = self.tasks[decision.job]
                    task.stopping = True
                    if task.attempt is not None:
                        task.attempt.stop(self._grace_s(task))
                case SetGate():
                    task = self.tasks[decision.job]
                    task.gate = decision.gate
                    if task.attempt is not None:
                        task.attempt.set_gate(self._gate(task))
        return events

    def events(self, now: float) -> list[Event]:
        """Arrivals, cancellations and what runners report."""
        self._looked = time.monotonic()
        if now >= self._next_scan_s:
            self._dirty.update(job_id for job_id, task in self.tasks.items() if task.attempt)
            self._next_scan_s = now + _SCAN_S
        return [*self._arrived(now), *self._withdrawn(now), *self._cleared(now), *self._looked_at(now)]

    def busy(self) -> bool:
        """Whether jobs are still to come, or run."""
        tasks = self.tasks.values()
        return bool(self._arrivals) or any(task.attempt or task.barred_until_s is not None for task in tasks)

    def next_time(self) -> float:
        """The next arrival, or the next scan."""
        arrival_s = self._next_arrival_s()
        return self._next_scan_s if arrival_s is None else min(self._next_scan_s, arrival_s)

    def _poked(self) -> None:
        with suppress(BlockingIOError):
            for _ in range(1000):  # somebody who pokes without end must not keep us here
                self._dirty.add(self._pokes.recv(300).decode(errors="replace"))

    # Jobs as they come and go

    def _withdrawn(self, now: float) -> list[Event]:
        gone = [t for t in self.tasks.values() if t.cancelled and t.attempt is None]
        return [self._end(task, Withdrawn(now, task.job.id), because("live.cancelled-waiting")) for task in gone]

    def _cleared(self, now: float) -> list[Event]:
        due = [task for task in self.tasks.values() if task.barred_until_s is not None and now >= task.barred_until_s]
        for task in due:
            task.barred_until_s = None
        return [Cleared(now, task.job.id) for task in due]

    def _looked_at(self, now: float) -> list[Event]:
        events: list[Event] = []
        for job_id in sorted(self._dirty):
            task = self.tasks.get(job_id)
            if task is None or task.attempt is None:
                continue
            task.attempt.look()
            ended = task.attempt.ended
            if task.attempt.up and not task.running and not (ended and ended.error):
                task.running, task.started_s = True, now
                events.append(Started(now, job_id))
            if ended is not None:
                events += self._ended(task, task.attempt, ended, now)
            elif task.running and not task.stopping:
                events += self._doubted(task, task.attempt, now)
        self._dirty.clear()
        return events

    def _doubted(self, task: LocalTask, attempt: Attempt, now: float) -> list[Learned]:
        """Whether a running job is not what it said."""
        known = task.description.iterations
        if not known and task.gate is None:
            return []  # it made no claim, and no gate was made for it
        iteration_s = self.estimate(task.job, len(task.gpus), Spread.of(self.cluster, task.gpus)).iteration_s
        left, ran_s = (task.job.iterations if known else sys.maxsize) - task.saved, now - task.started_s
        gated_s = self.speeds.alone_s(task.job, task.gpus) if task.gate is not None else 0.0
        seen = self.observed(task.job.id, attempt.progress())
        return task.doubts.look(
            task.job, task.description, seen, left, iteration_s, ran_s, now, self.slack_s, gated_s
        )  # fmt: skip

    def _start(self, task: LocalTask, start: Start) -> list[Event]:
        task.starts += 1
        task.gpus, task.gate, task.running, task.stopping = start.gpus, start.gate, False, False
        task.doubts = Doubts()
        task.attempt = self.attempt(task.job.id, task.starts)
        try:
            task.attempt.spawn(self._spec(task))
        except OSError as error:  # a full disk, no memory: no fault of the job, and trying at once would not help
            task.attempt, now = None, self.now()
            task.bars = min(task.bars + 1, 30)
            task.barred_until_s = now + min(_PAUSE_S[0] * 2 ** (task.bars - 1), _PAUSE_S[1])
            reason = because("local.no-runner", said=error.strerror or str(error))
            self.outcomes[task.job.id] = reason
            return [Failed(now, task.job.id, reason), Barred(now, task.job.id, reason)]
        task.bars = 0
        return []

    def _spec(self, task: LocalTask) -> dict[str, Any]:
        """What the runner is to do."""
        attempt = task.attempt or self.attempt(task.job.id, task.starts)
        description = task.description
        own = environment(self.cluster, task.gpus, task.job.id, task.starts, task.saved, description.iterations)
        own["WEFT_SERVER_DIR"] = home = str(self.folder.resolve())
        return {
            "key": task.job.id,
            "home": home,
            "argv": list(description.argv),
            "cwd": description.cwd,
            "env": {**description.env, **own, "WEFT_PROGRESS_SOCKET": str(attempt.folder.resolve() / "p.sock")},
            "ranks": ranks(self.cluster, task.gpus, description.per_rank),
            "iterations": description.iterations,
            "grace_s": self._grace_s(task),
            "gate": self._gate(task),
        }

    def _grace_s(self, task: LocalTask) -> float:
        return min(task.description.grace_s, self.bounds.grace_s)

    def _gate(self, task: LocalTask) -> dict[str, float] | None:
        """A gate by the machine's clock, for the beginning of an iteration; its task comes `offset` later."""
        gate = task.gate
        if gate is None:
            return None
        offset_s = self.speeds.offset_s(task.job, task.gpus, gate.task, task.doubts.iteration_s)
        epoch = self.clock.monotonic(gate.epoch_s) - offset_s
        return {
            "epoch": float(epoch),
            "period": float(gate.period_s),
            "tolerance": float(gate.tolerance),
            "offset": float(offset_s),
        }

    def _ended(self, task: LocalTask, attempt: Attempt, ended: Ended, now: float) -> list[Event]:
        """What the end of an attempt means for its job."""
        progress = attempt.progress()
        spread = Spread.of(self.cluster, task.gpus)
        self.speeds.measured(task.job, len(task.gpus), spread, progress.iteration_s)
        kept = min(saved_in(progress, task.description.checkpoint_every), task.job.iterations)
        if kept > task.saved:
            task.faults = replace(task.faults, others=0)
        verdict = judge(
            ended.how, task.faults, min(task.description.restarts, self.bounds.restarts),
            done=done(ended, progress, task.description), own=ended.own, stopping=task.stopping,
            cancelled=task.cancelled, ran_s=now - task.started_s if task.running else 0.0,
        )  # fmt: skip
        task.saved = task.seen = max(task.saved, kept)
        task.attempt, job_id = None, task.job.id
        match verdict.becomes:
            case Becomes.FINISHED:
                return [self._end(task, Finished(now, job_id), verdict.why)]
            case Becomes.OVER:
                return [self._end(task, Withdrawn(now, job_id), verdict.why)]
            case Becomes.AGAIN:
                self.outcomes[job_id], task.faults = verdict.why, verdict.faults
                left = Stopped(now, job_id, task.saved, verdict.why) if task.running else None
                events: list[Event] = [left or Failed(now, job_id, verdict.why)]
                if verdict.pause_s:
                    task.barred_until_s = now + verdict.pause_s
                    events.append(Barred(now, job_id, pausing(verdict)))
                return events

    def _end(self, task: LocalTask, event: Finished | Withdrawn, why: Why) -> Event:
        del self.tasks[task.job.id]
        self.outcomes[task.job.id] = why
        return event

    def close(self) -> None:
        """Let go of sockets; jobs run on."""
        super().close()
        self._pokes.close()


_FIRST_PORT = 29500  # for torch.distributed; a job's port is this plus its first GPU, which no other job has


def environment(
    cluster: Cluster, gpus: Placement, job: str, attempt: int, resume: int, iterations: int
) -> dict[str, str]:
    """The same for all processes of a job; the rest of its environment is that of `weft submit`."""
    servers = [cluster.servers[int(cluster.server_of_gpu[gpu])].name for gpu in gpus]
    return {
        "WEFT_JOB": job,
        "WEFT_ATTEMPT": str(attempt),
        "WEFT_RESUME_STEP": str(resume),
        "WEFT_ITERATIONS": str(iterations),
        "WEFT_GPUS": ",".join(map(str, gpus)),
        "WEFT_SERVERS": ",".join(servers),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_FIRST_PORT + min(gpus)),
    }


def ranks(cluster: Cluster, gpus: Placement, per_rank: bool) -> list[dict[str, str]]:
    """What differs between the processes of a job: one that has all GPUs, or one per GPU."""
    visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}
    if not per_rank:
        return [{**visible, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}]
    made = []
    for rank, gpu in enumerate(gpus):
        beside = [g for g in gpus if cluster.server_of_gpu[g] == cluster.server_of_gpu[gpu]]
        made.append(
            {
                "CUDA_VISIBLE_DEVICES": ",".join(map(str, beside)),
                "RANK": str(rank),
                "WORLD_SIZE": str(len(gpus)),
                "LOCAL_RANK": str(beside.index(gpu)),
                "LOCAL_WORLD_SIZE": str(len(beside)),
            }
        )
    return made
