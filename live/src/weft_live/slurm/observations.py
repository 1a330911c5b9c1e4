"""What a look at Slurm says about jobs beyond what was decided: users' holds, pauses that are over, forgotten jobs."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Protocol

from weft.model.events import Barred, Cleared, Event, Prioritised
from weft.model.reason import Why, because
from weft_live.slurm.client import Snapshot
from weft_live.slurm.notes import Aside, mark
from weft_live.slurm.priority import Standing
from weft_live.slurm.reconcile import GONE, USER_HOLDS
from weft_live.slurm.records import Node, Record
from weft_live.slurm.states import GivesUp, LetGo, Over, Pauses, Sent, SlurmTask, Waits, What
from weft_live.words import strangers

_DUPLICATE = "Duplicate jobid"  # Slurm's own reason, letter by letter
_ENDED_IT = frozenset(("idle", "mixed", "allocated", "drain"))  # nothing is being ended there, and the node answers
_MARK_S = 5.0  # seconds before a mark that does not show is sent again: a late one would undo the user's release


class Taker(Protocol):
    """Who decides about jobs that Slurm knows and weft does not (intake.py)."""

    def look(self, snapshot: Snapshot, known: Set[str], now: float) -> None: ...
    def refuse_another(self, snapshot: Snapshot) -> None: ...
    def set_aside(self, task: SlurmTask, why: Why) -> None: ...
    def refused(self) -> Mapping[str, str]: ...
    def wants(self, record: Record) -> bool: ...


def to_look_at(tasks: Mapping[str, SlurmTask], changed: Set[str]) -> dict[str, SlurmTask]:
    """Jobs that need a look: hardly any of the thousands that wait."""
    return {
        job_id: task
        for job_id, task in tasks.items()
        if type(task.state) is not Waits or task.key in changed or task.missing or task.cancelled or task.to_mark
    }


def to_requeue(down: Mapping[int, Why], snapshot: Snapshot, taker: Taker) -> list[str]:
    """Jobs on weft's GPUs that are to wait in its queue instead. What weft itself has placed ends where it is."""
    records = (snapshot.jobs[key] for key in sorted(strangers(down.values())))
    return [
        one.key for one in records
        if one.batch and one.requeue and not one.admin_comment.startswith("weft:") and taker.wants(one)
    ]  # fmt: skip


def to_resume(nodes: Mapping[str, Node], servers: Set[str]) -> list[Aside]:
    """Servers that Slurm has drained because they had a job already that it started there: a controller that was killed
    had forgotten it. Slurm then ends all of that job, so such a node can be used again when nothing is being ended."""
    drained = (node for name, node in nodes.items() if node.said == _DUPLICATE and name in servers)
    return [
        Aside(node.name, f"update NodeName={node.name} State=RESUME")
        for node in drained if not node.usable and set(node.words.split()) <= _ENDED_IT
    ]  # fmt: skip


def to_recall(task: SlurmTask) -> bool:
    """Whether to ask the accounting about a job that the controller seems to have forgotten."""
    return task.missing == GONE - 2 and not task.waits


def recalled(task: SlurmTask, snapshot: Snapshot) -> Record | None:
    """A job that the controller has forgotten, as the accounting knows it."""
    known = snapshot.recalled.get(task.key)
    if known is None:
        return None
    pin = None if isinstance(task.state, Waits | Over) else task.state.at.pin
    nodes, note = (pin.nodes, pin.note) if pin else ((), "")
    record = Record(task.key, task.key, known.state, False, False, nodes=nodes, admin_comment=note)
    return replace(record, exit_code=known.exit_code, signal=known.signal)


def lost_nodes(task: SlurmTask, lost: Mapping[str, Why]) -> None:
    """A start on a node that cannot be used any more is given up at once: Slurm would wait for the node."""
    state = task.state
    if isinstance(state, Sent | LetGo):
        node = next((name for name in state.at.pin.nodes if name in lost), None)
        if node is not None:
            why = because("slurm.node", node=node, how=lost[node])
            task.state = GivesUp(state.at, What.FAILED, why, state.ready_s)


def user_holds(tasks: Mapping[str, SlurmTask], snapshot: Snapshot, now: float) -> tuple[list[Event], list[Aside]]:
    """Jobs that wait and that their users hold, or do not hold any more; and those whose comment is to say so."""
    marks: list[Aside] = []
    events: list[Event] = []
    due = [(job_id, task) for job_id, task in tasks.items() if task.to_mark or task.key in snapshot.changed]
    for job_id, task in due:
        record = snapshot.jobs.get(task.key)
        if not task.waits or record is None or not record.pending:
            continue
        if task.to_mark and not record.user_hold and now - task.marked_s > _MARK_S:
            task.marked_s = now
            marks.append(mark(record))
        held = task.to_mark or record.user_hold
        task.to_mark = task.to_mark and not record.user_hold
        if held and not task.user_hold:
            events.append(Barred(now, job_id, USER_HOLDS))
        elif task.user_hold and not held and not isinstance(task.state, Pauses):
            events.append(Cleared(now, job_id))
        task.user_hold = held
    return events, marks


def cleared(tasks: Mapping[str, SlurmTask], something_ended: bool, now: float) -> list[Event]:
    """Jobs that are worth another try: their pause is over, or much of it, and something has ended."""
    events: list[Event] = []
    for job_id, task in tasks.items():
        state = task.state
        if not isinstance(state, Pauses) or task.user_hold:
            continue
        if now >= (state.early_s if something_ended else state.until_s):
            task.state = Waits(state.since_s, state.ready_s)
            events.append(Cleared(now, job_id))
    return events


def prioritised(
    tasks: Mapping[str, SlurmTask],
    due: Mapping[str, SlurmTask],
    snapshot: Snapshot,
    before: Standing | None,
    now: float,
) -> list[Event]:
    """Jobs whose priority is not what it was: they are new or have changed (`due`), or the standing of all has."""
    standing = snapshot.standing
    if standing is None:
        return []
    anew = standing is not before
    events: list[Event] = []
    for job_id, task in (tasks if anew else due).items():
        if anew or task.priority is None or task.key in snapshot.changed:
            record = snapshot.jobs.get(task.key)
            if record is not None:
                priority, why = standing.of(record)
                if priority != (task.priority or 0):
                    events.append(Prioritised(now, job_id, priority, why))
                task.priority = priority
    return events
