"""What to do about one job, and what has become of it: a decision and what Slurm says now, without any I/O.

Slurm is never told a sequence of steps and trusted to have taken them. At every look weft compares the job with what it
should be, and sends at most one command. So it does not matter which commands were lost, or which server sent them.
`TABLE` has a row for every state and a column for everything that Slurm may say. A job whose processes are still ending
holds its GPUs: weft reports nothing of it until they are gone.

Slurm knows of more than GPUs: cores, memory, licences, limits of users, accounts and QOS, reservations. weft leaves all
of that to Slurm, and learns from the reasons that Slurm gives only how long to wait (patience.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Final

from weft.model.reason import Reason, Why, because, both, code_of
from weft_live.ending import Becomes, Verdict, judge, requeued
from weft_live.slurm import patience
from weft_live.slurm.records import Record
from weft_live.slurm.states import (
    At,
    Do,
    Ends,
    GivesUp,
    LetGo,
    Look,
    Over,
    Pauses,
    Runs,
    Sent,
    SlurmTask,
    Starts,
    State,
    Stops,
    Waits,
    Warned,
    What,
)
from weft_live.words import exited

TRY_S = (0.2, 10.0)  # seconds before an update that did not take is sent again: at first, doubling, and at most
PAUSE_S = (2.0, 120.0)  # seconds before a job that was barred is tried again: at first, doubling, and at most
EARLIER = 0.25  # part of its pause after which a job is tried again if another one has ended meanwhile
FORGET_S = 10.0  # seconds until nodes have told a restarted controller what they run
AGAIN_S = 1.2  # a node refuses a job that it ended in the same second: its credential counts in seconds
GONE = 3  # looks without a trace of a job before it is believed to be gone
USER_HOLDS = because("slurm.user-holds")
FORGOTTEN = because("slurm.forgot-placement")
FORGOTTEN_RUN = because("slurm.forgot-run")


class Says(Enum):
    """What Slurm says of a job."""

    GONE = "does not know it"
    LEAVES = "its processes are being ended"
    ENDED = "it is over"
    RUNS = "it has nodes"
    HELD = "it is pending, and held"
    FREE = "it is pending, and not held"
    ODD = "something else"

    @classmethod
    def of(cls, record: Record | None) -> Says:
        """Which of these a record is."""
        if record is None:
            return cls.GONE
        if record.completing and (record.ended or record.pending):
            return cls.LEAVES
        if record.ended or record.running:
            return cls.ENDED if record.ended else cls.RUNS
        if not record.pending:
            return cls.ODD
        return cls.HELD if record.held else cls.FREE


def look(task: SlurmTask, record: Record | None, now: float) -> Look:
    """What follows from the job's state and from what Slurm says. Changes nothing."""
    says = Says.of(record)
    if record is None:
        return _missing(task)
    if task.cancelled and says in (Says.RUNS, Says.HELD, Says.FREE, Says.ODD):
        return Look(task.state, do=Do.CANCEL)
    return TABLE[type(task.state)][says](task, record, now)


def pauses(task: SlurmTask, now: float, ready_s: float) -> Pauses:
    """A job that cannot start now, by how often in a row that was so."""
    first_s, most_s = PAUSE_S
    pause_s = min(first_s * 2 ** min(task.bars, 30), most_s)
    return Pauses(now, ready_s, now + pause_s, now + EARLIER * pause_s)


def _nothing(task: SlurmTask, record: Record, now: float) -> Look:
    return Look(task.state)


def _hold(task: SlurmTask, record: Record, now: float) -> Look:
    return Look(task.state, do=Do.HOLD)


def _requeue(task: SlurmTask, record: Record, now: float) -> Look:
    return Look(task.state, do=Do.REQUEUE)


def _missing(task: SlurmTask) -> Look:
    """Slurm has no trace of it; `missing` counts such looks."""
    if task.missing < GONE:
        return Look(task.state)
    if not isinstance(task.state, Runs):
        return Look(Over(), (What.OVER,), because("slurm.vanished"))
    if task.reported >= task.job.iterations:
        return Look(Over(), (What.FINISHED,), because("slurm.forgot-end"))
    return Look(Over(), (What.OVER,), because("slurm.lost", step=task.reported, of=task.job.iterations))


# A start


def _at(state: State) -> At:
    assert not isinstance(state, Waits | Over)
    return state.at


def _give_up(task: SlurmTask, what: What, why: Why, now: float, ready_s: float) -> Look:
    """The start has failed, and the job is held."""
    state = pauses(task, now, ready_s) if what is What.BARRED else Waits(now, ready_s)
    return Look(state, (what,), why)


def _has_nodes(task: SlurmTask, record: Record, now: float) -> Look:
    """It has started, if it is where it should be; what the controller had forgotten may still run somewhere."""
    state = task.state
    assert isinstance(state, Starts)
    at = state.at
    if not at.pin.told(record):
        return Look(GivesUp(at, What.FAILED, FORGOTTEN, now + FORGET_S), do=Do.REQUEUE)
    if frozenset(record.nodes) != frozenset(at.pin.nodes):
        why = because("slurm.elsewhere", nodes=record.nodes)
        return Look(GivesUp(at, What.REFUSED, why, max(state.ready_s, now + AGAIN_S)), do=Do.REQUEUE)
    return Look(Runs(at, now), (What.STARTED,))


def _send(task: SlurmTask, record: Record, now: float) -> Look:
    """Held: released if it is pinned as decided and has long left its last nodes, else told the placement. A release
    that was forgotten may have started it, and it may run."""
    state = task.state
    sent = state.sent if isinstance(state, LetGo) else state
    assert isinstance(sent, Sent)
    if record.user_hold:
        return _give_up(task, What.BARRED, USER_HOLDS, now, sent.ready_s)
    if isinstance(state, LetGo):
        sent = replace(sent, ready_s=now + FORGET_S)
    if sent.at.pin.holds(record):
        if now < sent.ready_s:
            return Look(sent)
        return Look(LetGo(sent, "", sent.since_s, 0.0), do=Do.RELEASE)
    if now - sent.since_s > (patience.SCARCE_S if task.told else patience.LONG_S):
        if task.told:
            return _give_up(task, What.REFUSED, because("slurm.not-accepted", said=task.told), now, sent.ready_s)
        return _give_up(task, What.BARRED, because("slurm.slow", seconds=patience.LONG_S), now, sent.ready_s)
    if now < sent.try_s:
        return Look(sent)
    first_s, most_s = TRY_S
    again_s = now + min(first_s * 2 ** min(sent.tries, 30), most_s)
    return Look(replace(sent, tries=sent.tries + 1, try_s=again_s), do=Do.UPDATE)


def _let_go(task: SlurmTask, record: Record, now: float) -> Look:
    """Released, and not started: waited for as long as Slurm's reason deserves."""
    state = task.state
    state = state if isinstance(state, LetGo) else LetGo(state, "", state.since_s, 0.0)  # type: ignore[arg-type,union-attr]
    at, said = state.at, record.reason
    if not at.pin.told(record):
        return Look(task.state, do=Do.HOLD)
    said_s = state.said_s if patience.of(said) == patience.of(state.said) else now
    state = LetGo(state.sent, said, said_s, state.first_s or record.evaluated_s)
    considered = said in ("", "None") and record.evaluated_s - state.first_s > patience.SCARCE_S
    limit_s = patience.of(said) + (task.behind_s if said == patience.PUT_OFF else 0.0)
    if considered or now - said_s > limit_s or now - state.sent.since_s > patience.LONG_S + task.behind_s:
        what = What.REFUSED if patience.never(said) else What.BARRED
        why = patience.why(said, at.pin.nodes)
        return Look(GivesUp(at, what, why, state.sent.ready_s), do=Do.HOLD)
    return Look(state)


def _gave_up(task: SlurmTask, record: Record, now: float) -> Look:
    state = task.state
    assert isinstance(state, GivesUp)
    what, why = (What.BARRED, USER_HOLDS) if record.user_hold else (state.what, state.why)
    return _give_up(task, what, why, now, state.ready_s)


# A run


def _ready_s(at: At, record: Record, now: float) -> float:
    return now + (FORGET_S if at.pin.forgotten(record) else AGAIN_S)


def _pushed_back(task: SlurmTask, record: Record, now: float) -> Look:
    """It ran, and is pending: the controller has forgotten that it ran, or somebody has requeued it."""
    state = task.state
    assert isinstance(state, Runs)
    if state.at.pin.forgotten(record):
        if record.held:
            return Look(Waits(now, now + FORGET_S), (What.STOPPED,), FORGOTTEN_RUN)
        verdict = Verdict(Becomes.AGAIN, FORGOTTEN_RUN, task.faults)
    else:
        said = because("slurm.requeued", said=record.reason or "no reason given")
        how = because("slurm.requeued-by-others") if _held_by_others(record) else said
        verdict = requeued(how, task.faults, now - state.started_s)
    return Look(Ends(state.at, state.started_s, verdict), do=Do.NOTHING if record.held else Do.HOLD)


def _held_by_others(record: Record) -> bool:
    return record.held and "requeued in held" in record.description.replace("_", " ")


def _runs(task: SlurmTask, record: Record, now: float) -> Look:
    """It runs. If nodes have been taken from it, what it has left is Slurm's: weft plans with whole placements."""
    if record.nodes and frozenset(record.nodes) < frozenset(_at(task.state).pin.nodes):
        return Look(Over(), (What.OVER,), because("slurm.shrunk", nodes=record.nodes))
    return Look(task.state)


def _waits_again(task: SlurmTask, record: Record, now: float) -> Look:
    state = task.state
    assert isinstance(state, Ends)
    ready_s, pause_s = _ready_s(state.at, record, now), state.verdict.pause_s
    after = Pauses(now, ready_s, now + pause_s, now + pause_s) if pause_s else Waits(now, ready_s)
    held = code_of(state.verdict.why) == "slurm.requeued-by-others"
    return Look(after, (What.STOPPED, *((What.HELD,) if held else ())), state.verdict.why)


def _stopped(task: SlurmTask, record: Record, now: float) -> Look:
    return Look(Waits(now, _ready_s(_at(task.state), record, now)), (What.STOPPED,), because("live.stopped"))


def stop(task: SlurmTask, now: float) -> Look:
    """How a running job is stopped now: one that asked for a grace is warned first, and left alone until it is over."""
    state = task.state
    assert isinstance(state, Runs)
    if not task.grace_s:
        return Look(state, do=Do.REQUEUE)
    if not isinstance(state, Warned):
        return Look(Warned(state.at, state.started_s, now), do=Do.WARN)
    return Look(state, do=Do.REQUEUE if now - state.warned_s >= task.grace_s else Do.NOTHING)


def _stopping(task: SlurmTask, record: Record, now: float) -> Look:
    return stop(task, now)


# An end


def _left(task: SlurmTask, record: Record, now: float) -> Look:
    """It had been warned: if it left by itself it is held by the requeue, and will be found stopped."""
    if not task.cancelled and record.state in ("COMPLETED", "FAILED") and task.reported < task.job.iterations:
        return Look(task.state, do=Do.REVIVE)
    return _ended(task, record, now)


def _ended_waiting(task: SlurmTask, record: Record, now: float) -> Look:
    if record.state == "COMPLETED":
        return Look(Over(), (What.OVER,), because("slurm.unasked"))
    return _ended(task, record, now)


def _ended(task: SlurmTask, record: Record, now: float) -> Look:
    """It is over, or to be started again."""
    state = task.state
    starting = isinstance(state, Starts)
    ran = (What.STARTED,) if starting and record.nodes else ()
    if record.state == "CANCELLED":
        code = "live.cancelled" if task.cancelled else "slurm.cancelled"
        return Look(Over(), (*ran, What.OVER), because(code))
    done = record.state == "COMPLETED"
    forgotten = starting and not _at(state).pin.told(record)
    how = _how(record)
    verdict = judge(
        both(how, FORGOTTEN) if forgotten and not done else how, task.faults, task.restarts, done=done,
        own=record.state not in ("NODE_FAIL", "BOOT_FAIL", "PREEMPTED") and not forgotten, stopping=False,
        cancelled=task.cancelled, ran_s=now - state.started_s if isinstance(state, Runs) else 0.0,
    )  # fmt: skip
    if verdict.becomes is not Becomes.AGAIN:
        what = What.FINISHED if verdict.becomes is Becomes.FINISHED else What.OVER
        return Look(Over(), (*ran, what), verdict.why)
    if ran or (isinstance(state, Runs) and not isinstance(state, Stops)):
        started_s = state.started_s if isinstance(state, Runs) else now
        state = Ends(_at(state), started_s, verdict)
    return Look(state, ran, do=Do.REVIVE)  # held by the requeue, it will be found stopped


def _how(record: Record) -> Reason:
    if record.state in ("COMPLETED", "FAILED"):
        return exited(-record.signal if record.signal else record.exit_code)
    return because("slurm.state", state=record.state.lower().replace("_", " "))


Step = Callable[[SlurmTask, Record, float], Look]


def _row(ended: Step, runs: Step, held: Step, free: Step) -> dict[Says, Step]:
    return {Says.ENDED: ended, Says.RUNS: runs, Says.HELD: held, Says.FREE: free, Says.LEAVES: _nothing,
            Says.ODD: _nothing}  # fmt: skip


#            over            has nodes    pending, held  pending, not held
TABLE: Final[dict[type[State], dict[Says, Step]]] = {
    Waits:   _row(_ended_waiting, _requeue,    _nothing,     _hold),
    Pauses:  _row(_ended_waiting, _requeue,    _nothing,     _hold),
    Sent:    _row(_ended,         _has_nodes,  _send,        _let_go),
    LetGo:   _row(_ended,         _has_nodes,  _send,        _let_go),
    GivesUp: _row(_ended,         _has_nodes,  _gave_up,     _hold),
    Runs:    _row(_ended,         _runs,       _pushed_back, _pushed_back),
    Ends:    _row(_ended,         _nothing,    _waits_again, _hold),
    Stops:   _row(_ended,         _stopping,   _stopped,     _hold),
    Warned:  _row(_left,          _stopping,   _stopped,     _hold),
}  # fmt: skip
