"""Decisions against what Slurm tells: every cell of the table, and walks through it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.reason import Why, because, code_of
from weft.testing import toy_job
from weft_live.description import Description
from weft_live.ending import OTHERS_FAULT, Becomes, Faults, Verdict
from weft_live.slurm.patience import LONG_S, NAMED_S, SCARCE_S
from weft_live.slurm.reconcile import AGAIN_S, FORGET_S, FORGOTTEN, GONE, TABLE, Says, look
from weft_live.slurm.records import Record
from weft_live.slurm.states import (
    ALL,
    At,
    Do,
    Ends,
    GivesUp,
    LetGo,
    Over,
    Pauses,
    Pin,
    Runs,
    Sent,
    SlurmTask,
    State,
    Stops,
    Waits,
    Warned,
    What,
)

NOTE = "weft:job=17,attempt=3,resume=5,dir=/x"
PIN = Pin(("n1", "n2"), 4, 2, NOTE)
AT = At((0, 1), PIN)
SENT = Sent(AT, 0.0, 0.0, 0, 0.0)
AGAIN = Verdict(Becomes.AGAIN, because("live.again", how="", nth=1, allowed=2, row=1), Faults(own=1, row=1), 1.0)
STATES: dict[type[State], State] = {
    Waits: Waits(0.0, 0.0), Pauses: Pauses(0.0, 0.0, 20.0, 20.0), Sent: SENT, LetGo: LetGo(SENT, "", 0.0, 0.0),
    GivesUp: GivesUp(AT, What.FAILED, "n1 is lost", 0.0), Runs: Runs(AT, 1.0), Ends: Ends(AT, 1.0, AGAIN),
    Stops: Stops(AT, 1.0), Warned: Warned(AT, 1.0, 9.0),
}  # fmt: skip
WAITS = "weft: waits: stands behind others"
HELD = Record("17", "17", "PENDING", False, True, reason="JobHeldUser", gpus_per_job=8)
PINNED = replace(
    HELD, required=frozenset(PIN.nodes), gpus_per_job=0, gpus_per_node=4, node_count=2, restarts=1,
    admin_comment=f"{NOTE},requeued=0",
)  # fmt: skip
RELEASED = replace(PINNED, held=False, reason="Resources")
RUNNING = replace(RELEASED, state="RUNNING", nodes=PIN.nodes)
DONE = replace(RUNNING, state="COMPLETED")
FAILED = replace(DONE, state="FAILED", exit_code=3)
LOST = replace(DONE, state="NODE_FAIL")
GONE_BY = replace(DONE, state="CANCELLED")
SAYS = {Says.ENDED: DONE, Says.RUNS: RUNNING, Says.HELD: PINNED, Says.FREE: RELEASED,
        Says.LEAVES: replace(RELEASED, completing=True), Says.ODD: replace(RELEASED, state="UNKNOWN")}  # fmt: skip


def task(state: State, restarts: int = 0, env: dict[str, str] | None = None, **more: Any) -> SlurmTask:
    said = Description(name="17", argv=("sbatch", "x"), gpus=8, restarts=restarts, env=env or {})
    return replace(SlurmTask(toy_job("17", 8, iterations=10), said, "17", state), **more)


def seen(made: SlurmTask, record: Record | None, now: float = 10.0) -> tuple[str, tuple[What, ...], str, Do]:
    """The name of the next state, what happened, the code of the reason, the command; the task goes on from there."""
    found = look(made, record, now)
    made.state = found.state
    return type(found.state).__name__, found.what, code_of(found.why), found.do


def test_the_table_has_every_state_and_everything_that_slurm_may_say() -> None:
    assert set(TABLE) == set(ALL) == set(STATES)
    assert all(set(row) == set(Says) - {Says.GONE} for row in TABLE.values())
    assert {says: Says.of(record) for says, record in SAYS.items()} == {says: says for says in SAYS}


N, H, R = Do.NOTHING, Do.HOLD, Do.REQUEUE
EVERY: dict[type[State], tuple[tuple[str, tuple[What, ...], str, Do], ...]] = {
    #        over                                                         has nodes
    #        pending, held                                                pending, not held
    Waits: (("Over", (What.OVER,), "slurm.unasked", N), ("Waits", (), "", R),
            ("Waits", (), "", N), ("Waits", (), "", H)),
    Pauses: (("Over", (What.OVER,), "slurm.unasked", N), ("Pauses", (), "", R),
             ("Pauses", (), "", N), ("Pauses", (), "", H)),
    Sent: (("Over", (What.STARTED, What.FINISHED), "live.exit", N), ("Runs", (What.STARTED,), "", N),
           ("LetGo", (), "", Do.RELEASE), ("LetGo", (), "", N)),
    LetGo: (("Over", (What.STARTED, What.FINISHED), "live.exit", N), ("Runs", (What.STARTED,), "", N),
            ("Sent", (), "", N), ("LetGo", (), "", N)),
    GivesUp: (("Over", (What.STARTED, What.FINISHED), "live.exit", N), ("Runs", (What.STARTED,), "", N),
              ("Waits", (What.FAILED,), "text", N), ("GivesUp", (), "", H)),
    Runs: (("Over", (What.FINISHED,), "live.exit", N), ("Runs", (), "", N),
           ("Ends", (), "", N), ("Ends", (), "", H)),
    Ends: (("Over", (What.FINISHED,), "live.exit", N), ("Ends", (), "", N),
           ("Pauses", (What.STOPPED,), "live.again", N), ("Ends", (), "", H)),
    Stops: (("Over", (What.FINISHED,), "live.exit", N), ("Stops", (), "", R),
            ("Waits", (What.STOPPED,), "live.stopped", N), ("Stops", (), "", H)),
    Warned: (("Warned", (), "", Do.REVIVE), ("Warned", (), "", N),
             ("Waits", (What.STOPPED,), "live.stopped", N), ("Warned", (), "", H)),
}  # fmt: skip


@pytest.mark.parametrize("kind", ALL)
def test_every_cell(kind: type[State]) -> None:
    cells = zip((Says.ENDED, Says.RUNS, Says.HELD, Says.FREE), EVERY[kind], strict=True)
    for says, expected in cells:
        env = {"grace_s": "5"} if kind is Warned else {}
        assert seen(task(STATES[kind], env=env), SAYS[says]) == expected, says
    for says in (Says.LEAVES, Says.ODD):
        assert seen(task(STATES[kind]), SAYS[says]) == (kind.__name__, (), "", N)


def test_a_job_from_which_nodes_are_taken_while_it_runs_is_left_to_slurm() -> None:
    assert seen(task(Runs(AT, 1.0)), replace(RUNNING, nodes=("n2",))) == ("Over", (What.OVER,), "slurm.shrunk", N)
    assert seen(task(Runs(AT, 1.0)), replace(RUNNING, nodes=("n2", "n1"))) == ("Runs", (), "", N)
    assert seen(task(Stops(AT, 1.0)), replace(RUNNING, nodes=("n2",))) == ("Stops", (), "", R), "it is stopped anyway"


RECORDS = (
    *SAYS.values(), HELD, FAILED, LOST, GONE_BY, replace(DONE, state="TIMEOUT"), None,
    replace(PINNED, admin_comment=WAITS), replace(RELEASED, admin_comment=WAITS), replace(RUNNING, admin_comment=WAITS),
    replace(FAILED, admin_comment=WAITS), replace(RUNNING, nodes=("n3", "n4")), replace(PINNED, restarts=0),
    replace(PINNED, comment="mine weft-hold"), replace(PINNED, description="job_requeued_in_held_state"),
    replace(RELEASED, reason="Licenses"), replace(RELEASED, reason="PartitionTimeLimit"), replace(LOST, nodes=()),
)  # fmt: skip


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("env", [{}, {"grace_s": "5"}])
@pytest.mark.parametrize("restarts", [0, 2])
def test_every_walk_of_four_looks_from_a_start(restarts: int, env: dict[str, str], cancelled: bool) -> None:
    """All states that can be reached, each once: 4 looks deep, every record at each, and a decision to stop. A job is
    never let go where nobody decided that it should run, nothing happens without a state for it, and an attempt that
    started is reported to have ended before another one starts."""
    begin = [task(state, restarts, env, cancelled=cancelled) for state in (SENT, STATES[Waits])]
    edge: dict[Any, SlurmTask] = {(repr(made.state), made.missing): made for made in begin}
    known, looks = set(edge), 0
    for depth in range(4):
        new: dict[Any, SlurmTask] = {}
        for made in edge.values():
            steps: list[SlurmTask] = [made]
            if type(made.state) is Runs:
                steps.append(replace(made, state=Stops(made.state.at, made.state.started_s)))
            for one, record in product(steps, RECORDS):
                looks += 1
                after = replace(one, missing=one.missing + 1 if record is None else 0)
                found = look(after, record, 3.0 + 7.0 * depth)
                sound(one, record, found.state, found.what, found.do)
                after.state = found.state
                key = (repr(after.state), after.missing)
                if not isinstance(after.state, Over) and key not in known:
                    known.add(key)
                    new[key] = after
        edge = new
    assert looks > (100 if cancelled else 1500)


def sound(before: SlurmTask, record: Record | None, state: State, what: tuple[What, ...], do: Do) -> None:
    """What must hold of every look."""
    starting = isinstance(before.state, Sent | LetGo | GivesUp)
    if do in (Do.RELEASE, Do.UPDATE):
        assert isinstance(before.state, Sent | LetGo)
        assert record is not None
        assert Says.of(record) is Says.HELD
        assert not before.cancelled
    if do is Do.RELEASE:
        assert isinstance(state, LetGo)
    if do is Do.REQUEUE:
        assert record is not None
        assert record.running
    if do is Do.REVIVE:
        assert record is not None
        assert record.ended
        assert not before.cancelled
    if record is not None and record.completing and not record.running:
        assert (state, what, do) == (before.state, (), Do.NOTHING), "its processes hold its GPUs"
    assert (What.STARTED in what) <= starting
    if isinstance(state, Waits) and not before.waits:
        assert set(what) & {What.STOPPED, What.FAILED, What.BARRED, What.REFUSED}, "it has left its GPUs without a word"
        assert Says.of(record) is Says.HELD
    if before.waits:
        assert isinstance(state, Waits | Over)
    assert isinstance(state, Over) == bool(set(what) & {What.FINISHED, What.OVER})


@given(st.lists(st.sampled_from(RECORDS), max_size=12), st.lists(st.floats(0.1, 70), min_size=12, max_size=12))
def test_no_walk_of_any_length_is_unsound(records: list[Record | None], pauses: list[float]) -> None:
    made, now = task(SENT, 2, {"grace_s": "5"}), 0.0
    for record, pause in zip(records, pauses, strict=False):
        now += pause
        made.missing = made.missing + 1 if record is None else 0
        found = look(made, record, now)
        sound(made, record, found.state, found.what, found.do)
        made.state = found.state
        if isinstance(made.state, Over):
            return


@pytest.mark.parametrize("record", [PINNED, RELEASED, RUNNING])
@pytest.mark.parametrize("kind", ALL)
def test_a_cancellation_is_repeated_until_it_is_so(kind: type[State], record: Record) -> None:
    assert look(task(STATES[kind], cancelled=True), record, 10.0).do is Do.CANCEL


def test_ends_and_whose_fault_they_are() -> None:
    assert seen(task(STATES[Runs], 2), FAILED) == ("Ends", (), "", Do.REVIVE)
    assert seen(task(STATES[Runs], 2, cancelled=True), FAILED)[1:3] == ((What.OVER,), "live.cancelled")
    assert seen(task(STATES[Runs]), FAILED)[1:3] == ((What.OVER,), "live.failed")
    assert seen(task(STATES[Runs]), GONE_BY)[1:3] == ((What.OVER,), "slurm.cancelled")
    assert seen(task(STATES[Runs], 2, faults=Faults(own=2)), FAILED)[1:3] == ((What.OVER,), "live.failed")
    made = task(STATES[Runs], 1, faults=Faults(others=OTHERS_FAULT - 1))
    assert seen(made, LOST) == ("Ends", (), "", Do.REVIVE)
    assert isinstance(made.state, Ends)
    assert (made.state.verdict.faults.own, made.state.verdict.faults.others) == (0, OTHERS_FAULT)
    assert seen(task(STATES[Runs], 1, faults=Faults(others=OTHERS_FAULT)), LOST)[2] == "live.failed"


def test_what_fails_waits_for_its_pause() -> None:
    made = task(STATES[Runs], 9, faults=Faults(own=3, row=3))
    seen(made, FAILED)
    assert seen(made, PINNED, 12.0) == ("Pauses", (What.STOPPED,), "live.again", N)
    assert made.state == Pauses(12.0, 12.0 + AGAIN_S, 20.0, 20.0)


def test_a_start_that_slurm_does_not_take_is_tried_less_and_less_often_and_fails_with_slurms_reason() -> None:
    made = task(SENT, told="Invalid node name")
    times = [n / 10 for n in range(51) if seen(made, HELD, n / 10)[3] is Do.UPDATE]
    assert times == pytest.approx([0.0, 0.2, 0.6, 1.4, 3.0], abs=0.15)
    found = look(made, HELD, SCARCE_S + 0.1)
    assert (found.what, found.why) == ((What.REFUSED,), because("slurm.not-accepted", said="Invalid node name"))


def test_a_start_that_is_not_taken_for_no_reason_is_not_the_jobs_fault() -> None:
    made = task(SENT)
    tries = sum(seen(made, HELD, n / 10)[3] is Do.UPDATE for n in range(600))
    assert 6 <= tries <= 15
    assert seen(made, HELD, LONG_S + 1)[:2] == ("Pauses", (What.BARRED,)), "it waits, and is tried again later"


def test_a_pause_is_longer_each_time() -> None:
    found = [look(task(SENT, bars=n), HELD, LONG_S + 1).state for n in (0, 1, 9)]
    assert [(p.until_s - LONG_S - 1, p.early_s - LONG_S - 1) for p in found if isinstance(p, Pauses)] == [
        (2.0, 0.5), (4.0, 1.0), (120.0, 30.0),
    ]  # fmt: skip


def test_what_does_not_prove_a_placement_is_not_believed() -> None:
    assert seen(task(SENT), replace(PINNED, node_count=7))[3] is Do.RELEASE, "after a requeue it is that of the last"
    assert seen(task(SENT), replace(PINNED, gpus_per_job=8))[3] is Do.UPDATE
    assert seen(task(SENT), replace(PINNED, admin_comment="weft:job=17,attempt=2,resume=5,dir=/x"))[3] is Do.UPDATE
    for pin, note in product((PIN, replace(PIN, note=f"{NOTE},requeued=2")), (NOTE, f"{NOTE},requeued=2")):
        assert pin.holds(replace(PINNED, admin_comment=note))


def test_a_start_whose_placement_was_forgotten_costs_nothing_and_waits_for_its_node() -> None:
    """Slurm has started it by itself: it is stopped, and placed anew; if it has failed meanwhile, that is no failure of
    its own. A note of the same start with another shift, as a server that takes over may write it, will do."""
    made = task(SENT)
    assert seen(made, replace(RUNNING, nodes=("n7",), admin_comment=WAITS)) == ("GivesUp", (), "", Do.REQUEUE)
    assert look(made, HELD, 11.0).why == FORGOTTEN
    assert look(made, HELD, 11.0).state == Waits(11.0, 10.0 + FORGET_S), "the node may still be ending it"
    made = task(SENT)
    seen(made, replace(FAILED, admin_comment=""))
    assert isinstance(made.state, Ends)
    assert (code_of(made.state.verdict.why), made.state.verdict.faults.others) == ("live.anew", 1)
    same = replace(RUNNING, admin_comment="weft:job=17,attempt=3,resume=0,dir=/x,shift=1/2/3")
    assert seen(task(SENT), same)[1] == (What.STARTED,)


def test_a_run_that_the_controller_forgot_is_not_started_beside_its_own_processes() -> None:
    """It is pending with the note of an earlier start, or has not been requeued since it started: that weft itself had
    requeued and held it before says nothing. Nodes need some seconds to tell of what runs there."""
    held = "job_requeued_in_held_state"
    before = replace(
        HELD, description=held, admin_comment="weft:job=17,attempt=2,resume=0,dir=/x,requeued=1", restarts=2
    )
    same = replace(PINNED, description=held, admin_comment=f"{NOTE},requeued=2", restarts=2)
    for state, record in product((Runs, Stops), (before, same)):
        made = task(STATES[state])
        assert seen(made, record)[:2] == ("Waits", (What.STOPPED,))
        assert made.state == Waits(10.0, 10.0 + FORGET_S)
    made = task(STATES[Runs])
    assert seen(made, replace(same, restarts=3)) == ("Ends", (), "", N)
    assert seen(made, replace(same, restarts=3))[1:3] == ((What.STOPPED, What.HELD), "slurm.requeued-by-others")
    assert made.state == Pauses(10.0, 10.0 + AGAIN_S, 11.0, 11.0)
    waits = task(replace(SENT, ready_s=20.0))
    assert [seen(waits, PINNED, now)[3] for now in (19.9, 20.0)] == [Do.NOTHING, Do.RELEASE]


def test_who_requeues_a_job_again_and_again_waits_longer_each_time() -> None:
    """Each start makes a folder in --shared; after ten minutes' work a requeue is like the first one. Nothing else is
    counted: the job has not failed."""
    made, now, paused = task(STATES[Runs]), 10.0, []
    for ran_s in (*[1.0] * 12, 700.0):
        now += 1000.0
        made.state = Runs(AT, now - ran_s)
        assert seen(made, RELEASED, now) == ("Ends", (), "", Do.HOLD)
        made.faults = made.state.verdict.faults  # type: ignore[attr-defined]
        assert seen(made, PINNED, now)[:3] == ("Pauses", (What.STOPPED,), "slurm.requeued")
        paused.append(made.state.until_s - now)  # type: ignore[attr-defined]
    assert paused == [*(2.0**n for n in range(10)), 600.0, 600.0, 1.0]
    assert (made.faults.own, made.faults.others) == (0, 0)


def test_a_release_that_the_controller_forgot_is_not_repeated_at_once() -> None:
    """It may have started the job, whose processes then run."""
    made = task(SENT)
    moments = ((PINNED, 10.0), (RELEASED, 10.1), (PINNED, 11.0), (PINNED, 10.9 + FORGET_S), (PINNED, 11.0 + FORGET_S))
    assert [seen(made, record, now)[3] for record, now in moments] == [Do.RELEASE, N, N, N, Do.RELEASE]


def test_what_its_user_holds_waits() -> None:
    for state in (SENT, STATES[LetGo], STATES[GivesUp]):
        assert seen(task(state), replace(PINNED, comment="mine weft-hold"))[1:3] == ((What.BARRED,), "slurm.user-holds")


def test_a_start_that_takes_too_long_is_taken_back_first() -> None:
    made, slow = task(SENT), replace(RELEASED, reason="None")
    assert seen(made, slow, LONG_S)[3] is N
    assert seen(made, slow, LONG_S + 1)[3] is Do.HOLD
    assert look(made, RUNNING, LONG_S + 2).what == (What.STARTED,), "it came after all"
    assert seen(made, PINNED, LONG_S + 2)[1] == (What.BARRED,)


@pytest.mark.parametrize(
    ("said", "after_s", "what", "code"),
    [
        ("Resources", SCARCE_S, What.BARRED, "slurm.scarce"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", SCARCE_S, What.BARRED, "slurm.scarce"),
        ("Licenses", NAMED_S, What.BARRED, "slurm.licences"),
        ("QOSMaxGRESPerUser", NAMED_S, What.BARRED, "slurm.limit"),
        ("AssocGrpCpuLimit", NAMED_S, What.BARRED, "slurm.limit"),
        ("Reservation", NAMED_S, What.BARRED, "slurm.reservation"),
        ("PartitionTimeLimit", NAMED_S, What.REFUSED, "slurm.not-started"),
        ("AssocMaxNodePerJobLimit", NAMED_S, What.REFUSED, "slurm.limit"),
        ("BeginTime", SCARCE_S, What.BARRED, "slurm.put-off"),
        ("Priority", LONG_S, What.BARRED, "slurm.not-started"),
    ],
)
def test_a_limit_that_is_no_gpu_is_not_waited_for(said: str, after_s: float, what: What, code: str) -> None:
    """The start is taken back as soon as the reason has stood for its time; only what cannot pass counts as refused."""
    made, limited = task(SENT), replace(RELEASED, reason=said)
    assert seen(made, replace(RELEASED, reason="None"), 0.0)[3] is N
    assert [seen(made, limited, now)[3] for now in (0.1, after_s, after_s + 0.2)] == [N, N, Do.HOLD]
    assert seen(made, PINNED, after_s + 0.3)[1:3] == ((what,), code)


@pytest.mark.parametrize(
    ("state", "reported", "what", "why"),
    [
        (Runs, 10, What.FINISHED, because("slurm.forgot-end")),
        (Runs, 4, What.OVER, because("slurm.lost", step=4, of=10)),
        (Stops, -1, What.OVER, because("slurm.lost", step=-1, of=10)),
        (Sent, -1, What.OVER, because("slurm.vanished")),
        (Waits, -1, What.OVER, because("slurm.vanished")),
    ],
)
def test_a_job_that_slurm_has_forgotten(state: type[State], reported: int, what: What, why: Why) -> None:
    made = task(STATES[state], reported=reported)
    for missing in range(1, GONE):
        assert look(replace(made, missing=missing), None, 1.0).what == ()
    found = look(replace(made, missing=GONE), None, 1.0)
    assert (found.what, found.why, found.state) == ((what,), why, Over())
