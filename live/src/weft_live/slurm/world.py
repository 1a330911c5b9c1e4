"""SlurmWorld: the jobs and nodes of a real Slurm cluster. Slurm queues, starts and ends processes; weft decides."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from weft.core.capabilities import Capabilities
from weft.model.cluster import Cluster
from weft.model.events import Barred, Event, Failed, Finished, NodeDown, NodeUp, Started, Stopped, Submitted, Withdrawn
from weft.model.job import Job
from weft.model.plan import Decision, Gate, Placement, SetGate, Start, Stop
from weft.model.reason import Why, because
from weft.model.view import Fact, JobStatus, JobView, Spread
from weft_live.attempt import saved_in
from weft_live.clock import Clock
from weft_live.description import Description
from weft_live.ending import Faults, pausing
from weft_live.measured import SLACK_S, Doubts
from weft_live.slurm import observations
from weft_live.slurm.client import Client, Command, Snapshot, commands
from weft_live.slurm.commands import Slurm
from weft_live.slurm.notes import Aside, Shift, Telling, make_folder, note, uid_of, write_gate
from weft_live.slurm.priority import Standing
from weft_live.slurm.reconcile import AGAIN_S, TRY_S, look, pauses, stop
from weft_live.slurm.records import Record
from weft_live.slurm.states import (
    At,
    Do,
    Ends,
    Look,
    Over,
    Pauses,
    Pin,
    Runs,
    Sent,
    SlurmTask,
    Starts,
    State,
    Stops,
    Waits,
    Warned,
    What,
)  # fmt: skip
from weft_live.slurm.topology import unusable
from weft_live.waiting import LiveWorld

_VAIN = 3  # starts in a row that Slurm refused before a job is set aside


class SlurmWorld(LiveWorld[SlurmTask]):
    """See the module. Jobs come from Slurm's queue: the `taker` is asked about each one that is new.

    Every look at Slurm is compared with what was decided (reconcile.py), so that it does not matter whether a command
    got through, was sent twice, or was sent by a server that has died since.
    """

    name = "slurm"
    capabilities = Capabilities(gpu_indices=False, uneven=False, shifts=True)
    facts = frozenset(Fact)  # what its comment does not tell about a job is assumed, and the model asked for

    def __init__(
        self, cluster: Cluster, folder: Path, slurm: Slurm, clock: Clock | None = None, *, poll_s: float = 0.5,
        open: bool = False, say: Callable[[str], None] = lambda _: None, tied: bool = False, take: bool = False,
        priority: str = "off", requeue: bool = False, resume: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(cluster, folder, clock or Clock.begin(), open=open)
        self.taker: observations.Taker | None = None
        self.why: Callable[[str], str] | None = None  # why a job waits: its user is told
        self.say = say
        self.looks = 0  # snapshots seen
        self.slack_s = SLACK_S
        self._doubt_s = 0.0  # when running jobs are compared with their claims again
        self._take = take  # what a server of another folder has placed
        self._requeue = requeue  # what runs on weft's GPUs without weft
        self._resume = resume  # nodes that Slurm drained because they had a job already
        self._resumed: list[Aside] = []  # such nodes, at the last look
        self._ahead_s = 0.0  # by how much the controller's clock is ahead of this machine's
        self._records: Mapping[str, Record] = {}  # as last seen
        self._active: list[SlurmTask] = []  # those that were on GPUs, or on their way, at the last look
        self._again: set[str] = set()  # jobs to be compared at the next look though nothing changes
        self._commanded: dict[str, int] = {}  # by weft's name: the command that a snapshot must be newer than
        self._troubled = ""
        self._running: Set[str] = frozenset()  # jobs on nodes at the last look, whoever started them
        self._telling = Telling()
        self._snapshot: Snapshot | None = None
        self._standing: Standing | None = None  # by which priorities were last given
        self._client = Client(slurm, poll_s, tied=tied, priority=priority)
        self.watch(self._client.ready, self._news)

    # What the core asks

    def iterations_done(self, job_id: str) -> int:
        """What the job reported; if it reports nothing, what its time and speed make likely."""
        task = self.tasks[job_id]
        if isinstance(task.state, Runs):
            progress = self.attempt(job_id, task.starts).progress()
            step = progress.step
            if progress.reports == 0 and task.started_s is not None:
                speed = self.estimate(task.job, len(task.gpus), Spread.of(self.cluster, task.gpus)).iteration_s
                step = min(task.saved + int((self.now() - task.started_s) / speed), task.job.iterations - 1)
            task.seen = max(task.seen, min(step, task.job.iterations))
        task.seen = max(task.seen, task.saved)
        return task.seen

    # What users ask

    def submit(self, job: Job, description: Description, key: str = "") -> None:
        """A job that has been accepted, to be reported at its time; `key` is Slurm's name for it, if another."""
        waits = Waits(self.now(), 0.0)
        self._will_arrive(SlurmTask(job, description, key or job.id.partition("-")[0], waits, self.bounds))

    def cancel(self, job_id: str) -> bool:
        """scancel."""
        task = self._known(job_id)
        if task is None:
            return False
        task.cancelled = True  # every look sees to it, until it is so
        self._command([], [(task, Do.CANCEL)])
        return True

    def take_over(
        self, view: JobView, description: Description, starts: int, faults: Faults, cancelled: bool, gate: Gate | None
    ) -> None:
        """A job as the last server left it; what Slurm says of it is judged at the first look."""
        now = self.now()
        ready_s = now + AGAIN_S if starts > 1 or view.status is JobStatus.STARTING else 0.0
        waits = Pauses(now, ready_s, now, now) if view.barred else Waits(now, ready_s)
        task = SlurmTask(
            view.job, description, view.id.partition("-")[0], waits, self.bounds, saved=view.saved_iterations,
            faults=faults, starts=starts, gate=gate, priority=view.job.priority, cancelled=cancelled,
            doubts=Doubts(iteration_s=view.iteration_s),
        )  # fmt: skip
        self.tasks[view.id] = task
        if view.status is JobStatus.WAITING:
            return
        at, started_s = self._at(task, view.gpus), now if view.started_s is None else view.started_s
        write_gate(self.attempt(view.id, starts).folder, self._gate(task, at.gpus))
        if view.status is JobStatus.STARTING:
            task.state = Sent(at, now, ready_s, 0, now)
        else:
            task.state = (Runs if view.status is JobStatus.RUNNING else Stops)(at, started_s)

    # What the loop does

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Note what is wanted now; the next looks see to it."""
        changed: list[SlurmTask] = []
        events: list[Event] = []
        for decision in decisions:
            task = self.tasks[decision.job]
            match decision:
                case Start():
                    events += self._start(task, decision, changed)
                case Stop():
                    if isinstance(task.state, Runs):
                        task.state = Stops(task.state.at, task.state.started_s)
                    changed.append(task)
                case SetGate():
                    task.gate = decision.gate
                    write_gate(self.attempt(task.job.id, task.starts).folder, self._gate(task, task.gpus))
        self._command(changed)
        return events

    def _start(self, task: SlurmTask, start: Start, changed: list[SlurmTask]) -> list[Event]:
        now, state = self.now(), task.state
        assert isinstance(state, Waits)
        task.starts += 1
        task.gate, task.doubts, task.told, task.reported = start.gate, Doubts(), "", -1
        folder = self.attempt(task.job.id, task.starts).folder
        try:
            make_folder(folder, uid_of(task.description))
        except OSError as error:  # a full disk: no fault of the job, and trying at once would not help
            task.state = pauses(task, now, state.ready_s)
            why = because("slurm.no-folder", said=error.strerror or str(error))
            return self._failed(task, What.BARRED, why, now)
        write_gate(folder, self._gate(task, start.gpus))
        task.state = Sent(self._at(task, start.gpus), now, state.ready_s, 0, now + TRY_S[0])
        changed.append(task)
        return []

    def _at(self, task: SlurmTask, gpus: Placement) -> At:
        """The placement in Slurm's terms: nodes, and as many GPUs on each."""
        counts = self.on_nodes(gpus)
        tasks = max(int(task.description.env.get("tasks", "1")), len(counts))
        cpus = 0 if task.job.per_server else int(task.description.env.get("cpus", "1")) * -(-tasks // len(counts))
        words = note(self.folder, self.clock, task, self._gate(task, gpus))
        return At(gpus, Pin(tuple(counts), max(counts.values()), tasks, words, cpus))

    def on_nodes(self, gpus: Placement) -> Counter[str]:
        """GPUs on each node, in the order of ranks."""
        return Counter(self.cluster.servers[int(self.cluster.server_of_gpu[gpu])].name for gpu in gpus)

    def _gate(self, task: SlurmTask, gpus: Placement) -> Shift | None:
        """A gate by wall time, which the nodes share, for the beginning of an iteration."""
        if task.gate is None:
            return None
        offset_s = self.speeds.offset_s(task.job, gpus, task.gate.task, task.doubts.iteration_s)
        return (self.clock.wall_s + task.gate.epoch_s - offset_s, task.gate.period_s, task.gate.tolerance, offset_s)

    def events(self, now: float) -> list[Event]:
        """What has become known since the last call."""
        events = self._arrived(now)
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            return events
        if snapshot.trouble:
            self._trouble(snapshot.trouble)
            return events
        self._trouble("")
        self._looked = time.monotonic()
        self.looks += 1
        self._ahead_s, self._records = snapshot.ahead_s, snapshot.jobs
        if self.taker is not None and not self._take:
            self.taker.refuse_another(snapshot)
        due = observations.to_look_at(self.tasks, snapshot.changed | self._again)
        self._again = set()
        something_ended, self._running = bool(self._running - snapshot.on_nodes), snapshot.on_nodes
        events += [*self._nodes(due, snapshot, now), *observations.cleared(due, something_ended, now)]
        events += self._looked_at(due, snapshot, now)
        due = {job_id: task for job_id, task in due.items() if job_id in self.tasks}
        held, marks = observations.user_holds(due, snapshot, now)
        self._client.tell(marks)
        events += held
        new = self._new(snapshot, now)
        due |= {event.job.id: self.tasks[event.job.id] for event in (*events, *new) if isinstance(event, Submitted)}
        events += new
        events += observations.prioritised(self.tasks, due, snapshot, self._standing, now)
        self._standing = snapshot.standing
        if now >= self._doubt_s:
            self._doubt_s = now + 1.0
            events += [e for task in due.values() if type(task.state) is Runs for e in self._doubts(task, now)]
        if self.why is not None and self.taker is not None:
            self._client.tell(self._telling.look(self.tasks, self.why, self.taker.refused(), snapshot.jobs, now))
        return events

    def busy(self) -> bool:
        """Whether something may still happen without a decision."""
        return bool(self._arrivals) or any(type(task.state) is not Waits for task in self.tasks.values())

    def next_time(self) -> float | None:
        """The next arrival; looks come by themselves."""
        return self._next_arrival_s()

    def _news(self) -> None:
        self._snapshot = self._client.take() or self._snapshot

    def _trouble(self, words: str) -> None:
        if bool(words) != bool(self._troubled):
            self.say(f"Slurm does not answer and is asked again: {words}" if words else "Slurm answers again")
        self._troubled = words

    # Jobs as they come and go

    def _new(self, snapshot: Snapshot, now: float) -> list[Event]:
        if self.taker is not None:
            self.taker.look(snapshot, {task.key for task in [*self.tasks.values(), *self._coming()]}, now)
        return self._arrived(now)

    def _looked_at(self, due: Mapping[str, SlurmTask], snapshot: Snapshot, now: float) -> list[Event]:
        events: list[Event] = []
        changed = []
        self._active = [task for task in due.values() if not task.waits]
        self._client.recall(task.key for task in self._active if observations.to_recall(task))
        lost = {self.cluster.servers[server].name: how for server, how in self.down.items()}
        for job_id, task in due.items():
            if self._commanded.get(job_id, 0) > snapshot.after:
                self._again.add(task.key)  # taken before the last command about it
                continue
            task.told = snapshot.complaints.get(task.key, task.told)
            observations.lost_nodes(task, lost)
            record = snapshot.jobs.get(task.key) or observations.recalled(task, snapshot)
            if not task.waits and (record is None or isinstance(task.state, Warned)):
                progress = self.attempt(job_id, task.starts).progress()
                task.reported = progress.step if progress.reports else -1
            task.missing = task.missing + 1 if record is None else 0
            seen = self.judge(task, record, now)
            events += self._happened(task, seen, now)
            if seen.do is not Do.NOTHING and job_id in self.tasks:
                changed.append((task, seen.do))
            if seen.do is not Do.NOTHING or seen.what:
                self._again.add(task.key)  # until it is so
        self._command([], changed)
        return events

    def _doubts(self, task: SlurmTask, now: float) -> list[Event]:
        """Whether a running job is not what it said."""
        if task.started_s is None:
            return []
        iteration_s = self.estimate(task.job, len(task.gpus), Spread.of(self.cluster, task.gpus)).iteration_s
        progress = self.observed(task.job.id, self.attempt(task.job.id, task.starts).progress())
        left, ran_s = task.job.iterations - task.saved, now - task.started_s
        gated_s = self.speeds.alone_s(task.job, task.gpus) if task.gate is not None else 0.0
        claims = task.job, task.description, progress, left, iteration_s
        return [*task.doubts.look(*claims, ran_s, now, self.slack_s, gated_s)]

    def judge(self, task: SlurmTask, record: Record | None, now: float) -> Look:
        """What has become of a job, and what to do about it."""
        return look(task, record, now)

    def _happened(self, task: SlurmTask, seen: Look, now: float) -> list[Event]:
        events: list[Event] = []
        job_id, before, task.state = task.job.id, task.state, seen.state
        for what in seen.what:
            match what:
                case What.STARTED:
                    task.bars = 0
                    events.append(Started(now, job_id))
                case What.FAILED | What.BARRED | What.REFUSED:
                    events += self._failed(task, what, seen.why, now)
                case What.STOPPED:
                    if isinstance(before, Ends):
                        task.faults = before.verdict.faults
                    self._left(task, before)
                    self.outcomes[job_id] = seen.why
                    events.append(Stopped(now, job_id, task.saved, seen.why))
                    if isinstance(before, Ends) and before.verdict.pause_s:
                        events.append(Barred(now, job_id, pausing(before.verdict)))
                case What.HELD:
                    task.to_mark = True
                case What.FINISHED | What.OVER:
                    self._left(task, before)
                    del self.tasks[job_id]
                    self.outcomes[job_id] = seen.why
                    events.append(Finished(now, job_id) if what is What.FINISHED else Withdrawn(now, job_id))
        return events

    def _failed(self, task: SlurmTask, what: What, why: Why, now: float) -> list[Event]:
        """A start that was not carried out. A job that cannot run now is barred for a while, others keep their GPUs;
        one that Slurm refuses again and again is set aside, held."""
        job_id = task.job.id
        self.outcomes[job_id] = why
        if what is What.BARRED:
            task.bars = min(task.bars + 1, 30)
            return [Failed(now, job_id, why), Barred(now, job_id, why)]
        task.vain += what is What.REFUSED
        if task.vain < _VAIN:
            return [Failed(now, job_id, why)]
        self.outcomes[job_id] = because("slurm.set-aside", starts=task.vain, how=why)
        del self.tasks[task.job.id]
        if self.taker is not None:
            self.taker.set_aside(task, self.outcomes[job_id])
        return [Withdrawn(now, task.job.id)]

    def _left(self, task: SlurmTask, before: State) -> None:
        """The attempt is over: what was saved, how fast it was."""
        if isinstance(before, Waits | Over):
            return
        gpus = before.at.gpus
        progress = self.attempt(task.job.id, task.starts).progress()
        self.speeds.measured(task.job, len(gpus), Spread.of(self.cluster, gpus), progress.iteration_s)
        kept = min(saved_in(progress, task.description.checkpoint_every), task.job.iterations)
        if kept > task.saved:
            task.faults = replace(task.faults, others=0)
        task.saved = max(task.saved, kept)
        task.seen, task.vain = task.saved, 0

    # Nodes

    def _nodes(self, due: Mapping[str, SlurmTask], snapshot: Snapshot, now: float) -> list[Event]:
        ours = {task.key for task in due.values() if not task.waits}
        bad = unusable(self.cluster, snapshot.nodes, {key: snapshot.jobs[key] for key in snapshot.on_nodes}, ours)
        events: list[Event] = [NodeUp(now, server) for server in self.down if server not in bad]
        events += [NodeDown(now, server, why) for server, why in bad.items() if server not in self.down]
        self.down = bad
        if self._resume:
            again = observations.to_resume(snapshot.nodes, {server.name for server in self.cluster.servers})
            for one in again:
                if one not in self._resumed:
                    self.say(f"{one.key}: Slurm drained it because it had a job already, which it has ended; resumed")
            self._client.tell(again)
            self._resumed = again
        if self._requeue and self.taker is not None and (keys := observations.to_requeue(bad, snapshot, self.taker)):
            self._client.give([Command(Do.REQUEUE, key) for key in keys], [], busy=True)
        return events

    # What Slurm is told

    def _command(self, wanted: Sequence[SlurmTask], doing: Sequence[tuple[SlurmTask, Do]] = ()) -> None:
        """Pass commands on; for a job that a decision has just changed, the one that surely comes first."""
        now, first = self.now(), []
        for task in wanted:
            seen = stop(task, now) if isinstance(task.state, Stops) else Look(task.state, do=Do.UPDATE)
            task.state = seen.state
            first.append((task, seen.do))
        doing = [*first, *doing]
        soon = bool(wanted) or any(isinstance(task.state, Starts | Stops | Ends) for task in self._active)
        number = self._client.give(*commands(doing, self._records, self._ahead_s, now), soon)
        for task, _ in doing:
            self._commanded[task.job.id] = number

    def close(self) -> None:
        """Let go of Slurm; jobs run on."""
        self.forget(self._client.ready)
        self._client.close()
        super().close()
