"""What to do about one job, and what has become of it: compares a decision with what Slurm says now, without any I/O.

Slurm is never told a sequence of steps and trusted to have taken them. At every look the job is compared with what it
should be, and at most one command follows: so it does not matter which commands were lost, or by whom they were sent.

| the job should | Slurm says | then |
|---|---|---|
| wait | pending, held | nothing |
| wait | pending, not held | hold |
| wait | running (nobody decided that) | requeue and hold |
| start | pending, held, not yet pinned to its nodes | update, less and less often; after a while it has failed |
| start | pending, held, pinned as decided | release, but not within a second of its last end |
| start | pending, released, and its controller has forgotten the placement | hold |
| start | running, and its controller has forgotten the placement | requeue and hold, then the start has failed |
| start | over, and its controller had forgotten the placement | it is started again, unless it has finished |
| start | pending, released | wait as long as Slurm's reason deserves (below); then hold, and the job is barred |
| start | pending, for a reason that does not go away | hold, then Slurm has refused it |
| start | pending, and one of its nodes is lost or drained | hold, then the start has failed |
| start | running | it has started |
| start | held, though it had been released: its controller has forgotten it | release, but not within ten seconds |
| run | pending, and its controller has forgotten that it ran | hold, then it has stopped; no release for ten seconds |
| run | pending (Slurm requeued it: a node was lost, an administrator) | hold, then it has stopped |
| run | pending, requeued and held by somebody else | it has stopped, and waits until it is released |
| stop | running | requeue and hold; a job that asked for a grace is warned by a signal first |
| stop | over, having been warned | it has left by itself: requeue and hold |
| stop | pending, held | it has stopped |
| be cancelled | pending, running | cancel |
| any | over | finished, failed or cancelled; a failed one that may start again is requeued, and will be found stopped |

A job whose processes are still being ended holds its GPUs: nothing is said of it until they are gone.

Slurm knows of more than GPUs: cores, memory, licences, limits of users, accounts and QOS, reservations. weft leaves all
of that to Slurm, and learns from the reasons that Slurm gives only how long to wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from weft.model.job import Job
from weft.model.plan import Gate, Placement
from weft.model.reason import Reason, Why, because, both
from weft_live.description import Description
from weft_live.ending import NONE, Becomes, Faults, Verdict, judge
from weft_live.measured import Doubts
from weft_live.slurm.records import Record
from weft_live.words import exited

TRY_S = (0.2, 10.0)  # seconds before an update that did not take is sent again: at first, doubling, and at most
FORGET_S = 10.0  # seconds until nodes have told a restarted controller what they run, and it has ended what it forgot
AGAIN_S = 1.2  # a node refuses a job that it ended in the same second: its credential counts in seconds
USER_HOLDS = because("slurm.user-holds")
FORGOTTEN = because("slurm.forgot-placement")
FORGOTTEN_RUN = because("slurm.forgot-run")
GONE = 3  # looks without a trace of a job before it is believed to be gone


class Phase(Enum):
    """What the core believes and wants."""

    WAITING = "wait"
    STARTING = "start"
    RUNNING = "run"
    STOPPING = "stop"


class Do(Enum):
    """What Slurm is to be told."""

    NOTHING = ""
    HOLD = "hold"
    UPDATE = "update"
    RELEASE = "release"
    REQUEUE = "requeuehold Incomplete"  # not a job that has ended meanwhile: it would run again
    REVIVE = "requeuehold"
    CANCEL = "scancel"  # a command of its own
    WARN = "scancel --signal"  # another one: the job is to save its state and leave


class What(Enum):
    """What has become of the job."""

    NOTHING = ""
    STARTED = "started"
    FAILED = "failed to start"
    BARRED = "cannot start now"
    REFUSED = "refused by Slurm"
    STOPPED = "stopped"
    HELD = "held by somebody else"
    FINISHED = "finished"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Pin:
    """Where a job is to run, in Slurm's terms, and what its tasks are told (`note`, in its AdminComment)."""

    nodes: tuple[str, ...]
    gpus_per_node: int
    tasks: int
    note: str
    cpus_per_node: int = 1

    def holds(self, record: Record) -> bool:
        """Whether the job is pinned so."""
        return (
            record.required == frozenset(self.nodes)
            and record.gpus_per_node == self.gpus_per_node
            and not (record.gpus_per_job or record.gpus_per_task)  # beside a number per node Slurm miscounts them
            and _REQUEUED.sub("", record.admin_comment) == _REQUEUED.sub("", self.note)
        )  # the number of nodes proves nothing: Slurm shows an old one for a job that was requeued

    def told(self, record: Record) -> bool:
        """Whether the job has the note of this start. A controller that was killed comes back with jobs as it last
        saved them, and a release may reach a job whose placement it has forgotten."""
        return _start_of(record.admin_comment) == _start_of(self.note)


def _start_of(note: str) -> str:
    """The words of a note that say which start it is about."""
    return note.partition(",resume=")[0]


_REQUEUED = re.compile(r",requeued=(\d{1,9})$")  # what a note says of how often Slurm had requeued the job before


@dataclass
class Task:
    """A job that has not ended, as weft wants it."""

    job: Job
    description: Description
    key: str  # Slurm's name for it
    phase: Phase = Phase.WAITING
    saved: int = 0  # iterations kept from earlier attempts
    faults: Faults = NONE
    priority: int | None = None  # as the core knows it; None: it has not been looked at
    vain: int = 0  # starts in a row that Slurm refused
    bars: int = 0  # times in a row that it was barred
    barred_s: float | None = None  # since when it is
    pause_until_s: float = 0.0  # it failed, and is not started again before
    starts: int = 0  # attempts so far; also the number of the present one
    gpus: Placement = ()
    pin: Pin | None = None
    gate: Gate | None = None
    cancelled: bool = False  # by weft cancel
    since_s: float = 0.0  # when its present phase began
    left_s: float = -1e9  # when it last left its nodes
    pause_s: float = AGAIN_S  # how long after that it may be released again
    let_go: bool = False  # it has been released in this start
    started_s: float | None = None
    seen: int = 0  # iterations reported to policies: they never become fewer
    tries: int = 0  # updates of this start
    try_s: float = 0.0  # when the next one is due
    giving_up: Why = ""  # why this start will have failed, as soon as the job is held again
    given_up_as: What = What.FAILED
    reason: str = ""  # why Slurm does not start it
    reason_s: float = 0.0  # since when
    behind_s: float = 0.0  # by how much the controller's clock was behind when Slurm was told that it may start
    evaluated_s: float = 0.0  # when Slurm first thought of starting it, by its own clock
    user_hold: bool = False  # its user holds it
    to_mark: bool = False  # somebody has requeued and held it: its comment is to say so
    marked_s: float = -1e9  # when that was last asked for
    missing: int = 0  # looks at which Slurm did not know it
    told: str = ""  # what Slurm last complained about
    ending: Why = ""  # why this attempt is ending, where it was not asked to
    verdict: Verdict | None = None  # of an attempt that failed, and is to be started again
    doubts: Doubts = field(default_factory=Doubts)  # what has been learned about this start
    warned_s: float | None = None  # when it was told that it will be stopped
    reported: int = -1  # iterations that this attempt has reported; -1: it reports nothing

    @property
    def grace_s(self) -> float:
        """Seconds that it asks for between a warning and its stop; 0 if it does not."""
        return float(self.description.env.get("grace_s", "0"))


@dataclass(frozen=True, slots=True)
class Look:
    """The outcome of a look: what happened (before the rest), and what to tell Slurm."""

    what: tuple[What, ...] = ()
    why: Why = ""
    do: Do = Do.NOTHING


def look(task: Task, record: Record | None, now: float) -> Look:
    """The table above. Changes nothing but the task's own counters."""
    if record is None:
        return _missing(task)
    task.missing = 0
    if record.completing and (record.ended or record.pending):
        return Look()
    if record.ended:
        return _ended(task, record, now)
    if task.cancelled:
        return Look(do=Do.CANCEL)
    match task.phase:
        case Phase.WAITING:
            if record.running:
                return Look(do=Do.REQUEUE)
            return Look(do=Do.NOTHING if record.held else Do.HOLD)
        case Phase.STARTING:
            return _starting(task, record, now)
        case Phase.RUNNING if record.pending and _forgotten(task, record):
            task.ending, task.pause_s = task.ending or FORGOTTEN_RUN, FORGET_S
            return Look((What.STOPPED,), task.ending) if record.held else Look(do=Do.HOLD)
        case Phase.RUNNING if record.pending:
            task.pause_s = AGAIN_S
            if record.held and "requeued in held" in record.description.replace("_", " ") and not task.ending:
                return Look((What.STOPPED, What.HELD), because("slurm.requeued-by-others"))
            task.ending = task.ending or because("slurm.requeued", said=record.reason or "no reason given")
            return Look((What.STOPPED,), task.ending) if record.held else Look(do=Do.HOLD)
        case Phase.STOPPING:
            if record.running:
                return Look(do=stop(task, now))
            task.pause_s = FORGET_S if _forgotten(task, record) else AGAIN_S
            return Look((What.STOPPED,), because("live.stopped")) if record.held else Look(do=Do.HOLD)
        case _:
            return Look()


def _forgotten(task: Task, record: Record) -> bool:
    """Whether a job that ran is pending as it was before its start, and not because somebody has requeued it: a
    controller that was killed has come back with what it last saved. Its processes run until its nodes tell of them."""
    if task.pin is None or not task.pin.told(record):
        return task.pin is not None
    before = _REQUEUED.search(record.admin_comment)
    return before is not None and record.restarts <= int(before[1])


def stop(task: Task, now: float) -> Do:
    """How a running job is stopped now: one that asked for a grace is warned first, and left alone until it is over."""
    if not task.grace_s:
        return Do.REQUEUE
    if task.warned_s is None:
        task.warned_s = now
        return Do.WARN
    return Do.REQUEUE if now - task.warned_s >= task.grace_s else Do.NOTHING


def _starting(task: Task, record: Record, now: float) -> Look:
    told = task.pin is None or task.pin.told(record)
    if record.running:
        if not told:
            task.giving_up, task.given_up_as = FORGOTTEN, What.FAILED
            return Look(do=Do.REQUEUE)
        if task.pin is not None and frozenset(record.nodes) != frozenset(task.pin.nodes):
            task.giving_up = because("slurm.elsewhere", nodes=record.nodes)
            task.given_up_as = What.REFUSED
            return Look(do=Do.REQUEUE)
        return Look((What.STARTED,))
    if record.held:
        if record.user_hold:
            return Look((What.BARRED,), USER_HOLDS)
        if task.giving_up:
            return Look((task.given_up_as,), task.giving_up)
        if task.let_go:  # it may have started, and run
            task.let_go, task.left_s, task.pause_s = False, now, FORGET_S
        if task.pin is not None and task.pin.holds(record):
            task.let_go = now - task.left_s >= task.pause_s
            return Look(do=Do.RELEASE if task.let_go else Do.NOTHING)
        return _update(task, now)
    if task.giving_up or not told:
        return Look(do=Do.HOLD)
    task.let_go = True
    if patience_s(record.reason) != patience_s(task.reason):
        task.reason_s = now
    task.reason = record.reason
    task.evaluated_s = task.evaluated_s or record.evaluated_s
    patience = patience_s(task.reason) + (task.behind_s if task.reason == _PUT_OFF else 0.0)
    considered = task.reason in ("", "None") and record.evaluated_s - task.evaluated_s > SCARCE_S
    if considered or now - task.reason_s > patience or now - task.since_s > PATIENCE_S + task.behind_s:
        task.given_up_as = What.REFUSED if never(task.reason) else What.BARRED
        task.giving_up = why(task.reason, task.pin.nodes if task.pin else ())
        return Look(do=Do.HOLD)
    return Look()


def _update(task: Task, now: float) -> Look:
    """Tell Slurm the placement, again if it has not taken it. It has refused it if it says so; else it is slow."""
    if now - task.since_s > (SCARCE_S if task.told else PATIENCE_S):
        if task.told:
            return Look((What.REFUSED,), because("slurm.not-accepted", said=task.told))
        return Look((What.BARRED,), because("slurm.slow", seconds=PATIENCE_S))
    if now < task.try_s:
        return Look()
    first_s, most_s = TRY_S
    task.try_s = now + min(first_s * 2**task.tries, most_s)
    task.tries = min(task.tries + 1, 30)
    return Look(do=Do.UPDATE)


def _ended(task: Task, record: Record, now: float) -> Look:
    """A job that is over, or to be started again."""
    ran = (What.STARTED,) if task.phase is Phase.STARTING and record.nodes else ()
    left = task.phase is Phase.STOPPING and task.warned_s is not None and not task.cancelled
    if left and record.state in ("COMPLETED", "FAILED") and task.reported < task.job.iterations:
        return Look(do=Do.REVIVE)  # it left within its grace; held by the requeue, it will be found stopped
    forgotten = task.phase is Phase.STARTING and task.pin is not None and not task.pin.told(record)
    if record.state == "COMPLETED" and task.phase is Phase.WAITING:
        return Look((What.OVER,), because("slurm.unasked"))
    if record.state == "CANCELLED":
        return Look((*ran, What.OVER), because("live.cancelled" if task.cancelled else "slurm.cancelled"))
    how = _how(record)
    verdict = judge(
        both(how, FORGOTTEN) if forgotten and record.state != "COMPLETED" else how, task.faults,
        task.description.restarts, done=record.state == "COMPLETED", stopping=False, cancelled=task.cancelled,
        own=record.state not in ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED") and not forgotten,
        ran_s=now - task.started_s if task.started_s is not None else 0.0,
    )  # fmt: skip
    if verdict.becomes is Becomes.AGAIN:  # held by the requeue, it will be found stopped
        task.ending, task.verdict = verdict.why, verdict
        return Look(ran, do=Do.REVIVE)
    return Look((*ran, What.FINISHED if verdict.becomes is Becomes.FINISHED else What.OVER), verdict.why)


def _missing(task: Task) -> Look:
    task.missing += 1
    if task.missing < GONE:
        return Look()
    if task.phase in (Phase.RUNNING, Phase.STOPPING):
        if task.reported >= task.job.iterations:
            return Look((What.FINISHED,), because("slurm.forgot-end"))
        return Look((What.OVER,), because("slurm.lost", step=task.reported, of=task.job.iterations))
    return Look((What.OVER,), because("slurm.vanished"))


def _how(record: Record) -> Reason:
    if record.state in ("COMPLETED", "FAILED"):
        return exited(-record.signal if record.signal else record.exit_code)
    return because("slurm.state", state=record.state.lower().replace("_", " "))


PATIENCE_S = 60.0  # seconds for a reason that says nothing: Slurm may be slow
SCARCE_S = 5.0  # seconds for nodes that lack something: it may be on its way
NAMED_S = 1.0  # seconds for a limit that Slurm names

_NEVER = re.compile(
    r"Partition(Time|Node)Limit|BadConstraints|Invalid(Account|QOS)|(Job)?(Account|QOS)NotAllowed|MaxMemPerLimit|"
    r"DependencyNeverSatisfied|ReservationDeleted|(QOS|Assoc)\w*Per(Job|Node)(Limit)?|QOSMin\w+"
)
_SCARCE = re.compile(r"Resources|ReqNodeNotAvail.*|Nodes? .*")
_PUT_OFF = "BeginTime"  # weft has said "now": a node has refused the launch, and Slurm would wait for two minutes
_NAMED = re.compile(
    r"Licenses|(QOS|Assoc|Association|Account)\w*|Reservation|Partition(Down|Inactive)|JobArrayTaskLimit|Dependency|"
    r"BurstBuffer\w*|MaxRequeueExceeded|JobHoldMaxRequeue|Federation\w*|Cleaning|MaxPoweredUpNodes"
)
_CODES = (
    (r"Licenses", "slurm.licences"),
    (r"(QOS|Assoc|Association|Account)\w*", "slurm.limit"),
    (r"Reservation", "slurm.reservation"),
    (r"Partition(Down|Inactive)", "slurm.partition"),
    (_PUT_OFF, "slurm.put-off"),
)


def never(reason: str) -> bool:
    """Whether such a job cannot run before somebody changes it or the limits."""
    return bool(_NEVER.fullmatch(reason))


def patience_s(reason: str) -> float:
    """How long the reason may stand before the start is given up."""
    if _NEVER.fullmatch(reason) or _NAMED.fullmatch(reason):
        return NAMED_S
    return SCARCE_S if reason == _PUT_OFF or _SCARCE.fullmatch(reason) else PATIENCE_S


def why(said: str, nodes: Iterable[str]) -> Reason:
    """Slurm's reason as one of ours, with what Slurm says."""
    if _SCARCE.fullmatch(said):
        return because("slurm.scarce", said=said, nodes=tuple(nodes))
    code = next((code for pattern, code in _CODES if re.fullmatch(pattern, said)), "slurm.not-started")
    return because(code, said=said or "no reason given")
