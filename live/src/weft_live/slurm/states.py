"""The phases of a job that has not ended, each with just the fields that it has; what comes of a look at Slurm.

A state is never changed. The table in reconcile.py says which one follows from it and from what Slurm says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from weft.model.job import Job
from weft.model.plan import Gate, Placement
from weft.model.reason import Why
from weft_live.description import Description
from weft_live.ending import BOUNDS, NONE, Bounds, Faults, Verdict
from weft_live.measured import Doubts
from weft_live.slurm.records import Record

_REQUEUED = re.compile(r",requeued=(\d{1,9})$")  # what a note says of how often Slurm had requeued the job before


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

    def forgotten(self, record: Record) -> bool:
        """Whether a job that ran is pending as it was before its start, and not because somebody has requeued it: a
        controller that was killed has come back with what it last saved. Its processes run until its nodes tell."""
        if not self.told(record):
            return True
        before = _REQUEUED.search(record.admin_comment)
        return before is not None and record.restarts <= int(before[1])


def _start_of(note: str) -> str:
    """The words of a note that say which start it is about."""
    return note.partition(",resume=")[0]


@dataclass(frozen=True, slots=True)
class At:
    """Where a start has its GPUs."""

    gpus: Placement
    pin: Pin


@dataclass(frozen=True, slots=True)
class Waits:
    """A job that is to wait. weft may not release it before `ready_s`, because it has just left its nodes."""

    since_s: float
    ready_s: float


@dataclass(frozen=True, slots=True)
class Pauses(Waits):
    """A job that cannot be started until a time, or until an earlier time if another job ends meanwhile."""

    until_s: float
    early_s: float


@dataclass(frozen=True, slots=True)
class Sent:
    """Its start was decided at `since_s`, and Slurm is told the placement, for the next time at `try_s`."""

    at: At
    since_s: float
    ready_s: float
    tries: int
    try_s: float


@dataclass(frozen=True, slots=True)
class LetGo:
    """It has been released. Slurm gives a reason for not starting it, one of the kind since `said_s`; it first thought
    of starting it at `first_s`, by its own clock (0: it has not said)."""

    sent: Sent
    said: str
    said_s: float
    first_s: float

    @property
    def at(self) -> At:
        """Where it is to run."""
        return self.sent.at

    @property
    def ready_s(self) -> float:
        """When it might be released."""
        return self.sent.ready_s


@dataclass(frozen=True, slots=True)
class GivesUp:
    """Its start will have failed, as soon as it is held again."""

    at: At
    what: What
    why: Why
    ready_s: float


@dataclass(frozen=True, slots=True)
class Runs:
    """It runs."""

    at: At
    started_s: float


@dataclass(frozen=True, slots=True)
class Ends(Runs):
    """Its attempt is over, and it will wait again, as soon as it is held."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Stops(Runs):
    """Somebody decided that it gives way."""


@dataclass(frozen=True, slots=True)
class Warned(Stops):
    """It was told so at `warned_s`, and has its grace to leave by itself."""

    warned_s: float


@dataclass(frozen=True, slots=True)
class Over:
    """It has ended for good."""


Starts = Sent | LetGo | GivesUp
State = Waits | Starts | Runs | Over
ALL: Final = (Waits, Pauses, Sent, LetGo, GivesUp, Runs, Ends, Stops, Warned)  # of a job that has not ended


@dataclass
class SlurmTask:
    """A job that has not ended, as weft wants it. Its phase is its `state`; the other fields are those that outlast a
    phase: counters, what has been learned, and what its user holds. None of them says in which phase it is.
    """

    job: Job
    description: Description
    key: str  # Slurm's name for it
    state: State = Waits(0.0, 0.0)
    bounds: Bounds = BOUNDS
    saved: int = 0  # iterations kept from earlier attempts
    faults: Faults = NONE
    priority: int | None = None  # as the core knows it; None: it has not been looked at
    vain: int = 0  # starts in a row that Slurm refused
    bars: int = 0  # times in a row that it was barred
    starts: int = 0  # attempts so far; also the number of the present one
    gate: Gate | None = None
    cancelled: bool = False  # by weft cancel
    seen: int = 0  # iterations reported to policies: they never become fewer
    behind_s: float = 0.0  # by how much the controller's clock was behind when Slurm was told that it may start
    user_hold: bool = False  # its user holds it
    to_mark: bool = False  # somebody has requeued and held it: its comment is to say so
    marked_s: float = -1e9  # when that was last asked for
    missing: int = 0  # looks at which Slurm did not know it
    told: str = ""  # what Slurm last complained about
    doubts: Doubts = field(default_factory=Doubts)  # what has been learned about this start
    reported: int = -1  # iterations that this attempt has reported; -1: it reports nothing

    @property
    def waits(self) -> bool:
        """Whether it has no GPUs."""
        return isinstance(self.state, Waits)

    @property
    def gpus(self) -> Placement:
        """Those that it has or is to have."""
        return () if isinstance(self.state, Waits | Over) else self.state.at.gpus

    @property
    def started_s(self) -> float | None:
        """Since when it runs, if it does."""
        return self.state.started_s if isinstance(self.state, Runs) else None

    @property
    def grace_s(self) -> float:
        """Seconds that it asks for between a warning and its stop; 0 if it does not."""
        return min(float(self.description.env.get("grace_s", "0")), self.bounds.grace_s)

    @property
    def restarts(self) -> int:
        """How often it may be started again."""
        return min(self.description.restarts, self.bounds.restarts)


@dataclass(frozen=True, slots=True)
class Look:
    """The outcome of a look: what the job is from now on, what happened, and what to tell Slurm."""

    state: State
    what: tuple[What, ...] = ()
    why: Why = ""
    do: Do = Do.NOTHING
