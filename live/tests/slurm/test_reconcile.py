"""Decisions against what Slurm tells: every row of the table, and that nothing but a look changes anything."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.reason import code_of, speak
from weft.testing import toy_job
from weft_live.description import Description
from weft_live.ending import OTHERS_FAULT, Faults
from weft_live.slurm.reconcile import (
    AGAIN_S,
    FORGET_S,
    FORGOTTEN,
    FORGOTTEN_RUN,
    GONE,
    NAMED_S,
    PATIENCE_S,
    SCARCE_S,
    Do,
    Look,
    Phase,
    Pin,
    Task,
    What,
)
from weft_live.slurm.reconcile import look as look_at
from weft_live.slurm.records import Record


def look(task: Task, record: Record | None, now: float) -> Look:
    """With the reason in words."""
    found = look_at(task, record, now)
    return replace(found, why=speak(found.why))


PIN = Pin(("n1", "n2"), 4, 2, "weft:attempt=1")
WAITS = "weft: waits: stands behind others"
HELD = Record("17", "17", "PENDING", False, True, reason="JobHeldUser", gpus_per_job=8)
PINNED = replace(
    HELD, required=frozenset(PIN.nodes), gpus_per_job=0, gpus_per_node=4, node_count=2, admin_comment=PIN.note
)
RELEASED = replace(PINNED, held=False, reason="Resources")
RUNNING = replace(RELEASED, state="RUNNING", nodes=PIN.nodes)
DONE = replace(RUNNING, state="COMPLETED")


def task(phase: Phase, **more: object) -> Task:
    """A job of weft's in a phase."""
    said = Description(name="17", argv=("sbatch", "x"), gpus=8)
    made = Task(toy_job("17", 8), said, "17", phase, pin=PIN if phase is not Phase.WAITING else None)
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("phase", "record", "expected"),
    [
        (Phase.WAITING, HELD, Look()),
        (Phase.WAITING, RELEASED, Look(do=Do.HOLD)),
        (Phase.WAITING, RUNNING, Look(do=Do.REQUEUE)),
        (Phase.STARTING, HELD, Look(do=Do.UPDATE)),
        (Phase.STARTING, PINNED, Look(do=Do.RELEASE)),
        (Phase.STARTING, replace(PINNED, gpus_per_job=8), Look(do=Do.UPDATE)),
        (Phase.STARTING, replace(PINNED, admin_comment="weft:attempt=0"), Look(do=Do.UPDATE)),
        (Phase.STARTING, RELEASED, Look()),
        (Phase.STARTING, RUNNING, Look((What.STARTED,))),
        (Phase.STARTING, replace(RUNNING, nodes=("n3", "n4")), Look(do=Do.REQUEUE)),
        (Phase.STARTING, replace(RELEASED, admin_comment=WAITS), Look(do=Do.HOLD)),
        (Phase.STARTING, replace(RUNNING, admin_comment=WAITS), Look(do=Do.REQUEUE)),
        (Phase.STARTING, replace(DONE, admin_comment=WAITS, state="FAILED"), Look((What.STARTED,), do=Do.REVIVE)),
        (
            Phase.STARTING, replace(DONE, admin_comment=WAITS),
            Look((What.STARTED, What.FINISHED), "exited with code 0"),
        ),
        (Phase.STARTING, replace(DONE, state="FAILED", exit_code=3),
         Look((What.STARTED, What.OVER), "failed: exited with code 3")),
        (Phase.STARTING, DONE, Look((What.STARTED, What.FINISHED), "exited with code 0")),
        (Phase.RUNNING, RUNNING, Look()),
        (Phase.RUNNING, replace(RELEASED, reason="BeginTime"), Look(do=Do.HOLD)),
        (Phase.RUNNING, PINNED, Look((What.STOPPED,), "requeued by Slurm (JobHeldUser)")),
        (Phase.RUNNING, DONE, Look((What.FINISHED,), "exited with code 0")),
        (Phase.RUNNING, replace(DONE, completing=True), Look()),
        (Phase.RUNNING, replace(DONE, state="FAILED", exit_code=3), Look((What.OVER,), "failed: exited with code 3")),
        (Phase.RUNNING, replace(DONE, state="FAILED", signal=9), Look((What.OVER,), "failed: ended by SIGKILL")),
        (Phase.RUNNING, replace(DONE, state="TIMEOUT"), Look((What.OVER,), "failed: timeout")),
        (Phase.RUNNING, replace(DONE, state="NODE_FAIL"), Look(do=Do.REVIVE)),
        (Phase.STOPPING, RUNNING, Look(do=Do.REQUEUE)),
        (Phase.STOPPING, PINNED, Look((What.STOPPED,), "stopped as asked")),
        (Phase.STOPPING, replace(PINNED, completing=True), Look()),
        (Phase.STOPPING, RELEASED, Look(do=Do.HOLD)),
        (Phase.STOPPING, DONE, Look((What.FINISHED,), "exited with code 0")),
        (Phase.WAITING, DONE, Look((What.OVER,), "ran to its end, though weft had not started it")),
        (
            Phase.WAITING, replace(HELD, state="CANCELLED"),
            Look((What.OVER,), "cancelled by its user or an administrator"),
        ),
    ],
)  # fmt: skip
def test_every_row_of_the_table(phase: Phase, record: Record, expected: Look) -> None:
    assert look(task(phase), record, 10.0) == expected


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("record", [HELD, PINNED, RELEASED, RUNNING])
def test_a_cancellation_is_repeated_until_it_is_so(phase: Phase, record: Record) -> None:
    assert look(task(phase, cancelled=True), record, 10.0) == Look(do=Do.CANCEL)


def test_a_job_that_fails_while_it_is_cancelled_is_not_started_again() -> None:
    failed = replace(DONE, state="FAILED", exit_code=3)
    said = Description(name="17", argv=("sbatch", "x"), gpus=8, restarts=2)
    assert look(task(Phase.RUNNING, description=said), failed, 10.0).do is Do.REVIVE
    ended = look(task(Phase.RUNNING, description=said, cancelled=True), failed, 10.0)
    assert ended == Look((What.OVER,), "cancelled; exited with code 3")


def test_a_start_that_slurm_does_not_take_is_tried_less_and_less_often_and_fails_with_slurms_reason() -> None:
    made = task(Phase.STARTING, told="Invalid node name")
    times = [n / 10 for n in range(51) if look(made, HELD, n / 10).do is Do.UPDATE]
    assert times == pytest.approx([0.0, 0.2, 0.6, 1.4, 3.0], abs=0.15)
    said = look(made, HELD, SCARCE_S + 0.1)
    assert said == Look((What.REFUSED,), "Slurm does not accept the placement: Invalid node name")


def test_a_start_that_is_not_taken_for_no_reason_is_not_the_jobs_fault() -> None:
    made = task(Phase.STARTING)
    tries = sum(look(made, HELD, n / 10).do is Do.UPDATE for n in range(600))
    assert 6 <= tries <= 15
    assert look(made, HELD, PATIENCE_S + 1).what == (What.BARRED,), "it waits, and is tried again later"


def test_the_number_of_nodes_that_slurm_shows_is_not_believed() -> None:
    """After a requeue it is that of the last start."""
    assert look(task(Phase.STARTING), replace(PINNED, node_count=7), 10.0) == Look(do=Do.RELEASE)


def test_a_start_whose_placement_the_controller_forgot_costs_the_job_nothing() -> None:
    """Slurm has started it by itself: it is stopped, and placed anew; if it has failed meanwhile, that is no failure of
    its own. A note of the same start with another shift, as a server that takes over may write it, will do."""
    made = task(Phase.STARTING)
    assert look(made, replace(RUNNING, nodes=("n7",), admin_comment=WAITS), 10.0).do is Do.REQUEUE
    assert look(made, HELD, 11.0) == Look((What.FAILED,), speak(FORGOTTEN))
    made = task(Phase.STARTING)
    look(made, replace(DONE, admin_comment="", state="FAILED", exit_code=1), 10.0)
    assert (made.verdict.faults.others, code_of(made.ending)) == (1, "live.anew")  # type: ignore[union-attr]
    noted = replace(PIN, note="weft:job=17,attempt=3,resume=5,dir=/x")
    same = replace(RUNNING, admin_comment="weft:job=17,attempt=3,resume=0,dir=/x,shift=1/2/3")
    assert look(task(Phase.STARTING, pin=noted), same, 10.0) == Look((What.STARTED,))
    other = replace(RUNNING, admin_comment="weft:job=17,attempt=2,resume=5,dir=/x")
    assert look(task(Phase.STARTING, pin=noted), other, 10.0).do is Do.REQUEUE


def test_a_run_that_the_controller_forgot_is_nobodys_hold_and_is_not_started_beside_its_own_processes() -> None:
    """It is pending with the note of an earlier start, or has not been requeued since it started: that weft itself had
    requeued and held it before says nothing. Nodes need some seconds to tell of what runs there."""
    held, note = "job_requeued_in_held_state", "weft:job=17,attempt=3,resume=5,dir=/x"
    before = replace(
        HELD, description=held, admin_comment="weft:job=17,attempt=2,resume=0,dir=/x,requeued=1", restarts=2
    )
    same = replace(PINNED, description=held, admin_comment=f"{note},requeued=2", restarts=2)
    pin = replace(PIN, note=note)
    for record in (before, same):
        made = task(Phase.RUNNING, pin=pin)
        assert look(made, record, 10.0) == Look((What.STOPPED,), speak(FORGOTTEN_RUN))
        made = replace(made, phase=Phase.STARTING, left_s=10.0)
        assert look(made, same, 10.0 + FORGET_S - 0.1) == Look()
        assert look(made, same, 10.0 + FORGET_S).do is Do.RELEASE
    made = task(Phase.RUNNING, pin=pin)
    assert look(made, replace(same, restarts=3), 10.0).what == (What.STOPPED, What.HELD)
    assert made.pause_s == AGAIN_S
    made = task(Phase.STOPPING, pin=pin)
    assert (look(made, before, 10.0).what, made.pause_s) == ((What.STOPPED,), FORGET_S)


def test_a_release_that_the_controller_forgot_is_not_repeated_at_once() -> None:
    """It may have started the job, whose processes then run."""
    made = task(Phase.STARTING)
    assert look(made, PINNED, 10.0).do is Do.RELEASE
    assert look(made, RELEASED, 10.1) == Look()
    assert look(made, PINNED, 11.0) == Look()
    assert look(made, PINNED, 11.0 + FORGET_S - 0.1) == Look()
    assert look(made, PINNED, 11.0 + FORGET_S).do is Do.RELEASE


def test_a_note_says_how_often_the_job_had_been_requeued_and_holds_all_the_same() -> None:
    noted = replace(PIN, note=f"{PIN.note},requeued=2")
    for pin in (PIN, noted):
        for note in (PIN.note, noted.note):
            assert pin.holds(replace(PINNED, admin_comment=note))
        assert not pin.holds(replace(PINNED, admin_comment="weft:attempt=0,requeued=2"))


def test_what_somebody_requeued_and_held_waits_for_them() -> None:
    held = replace(PINNED, description="job_requeued_in_held_state")
    assert look(task(Phase.RUNNING), held, 10.0).what == (What.STOPPED, What.HELD)
    assert look(task(Phase.STOPPING), held, 10.0).what == (What.STOPPED,), "that was weft itself"
    mine = replace(HELD, comment="mine weft-hold")
    assert look(task(Phase.STARTING), mine, 10.0).what == (What.BARRED,)


def test_a_start_that_takes_too_long_is_taken_back_first() -> None:
    made, slow = task(Phase.STARTING), replace(RELEASED, reason="None")
    assert look(made, slow, PATIENCE_S) == Look()
    assert look(made, slow, PATIENCE_S + 1).do is Do.HOLD
    assert look(made, RUNNING, PATIENCE_S + 2) == Look((What.STARTED,)), "it came after all"
    assert look(made, PINNED, PATIENCE_S + 2).what == (What.BARRED,)


@pytest.mark.parametrize(
    ("reason", "after_s", "what", "words"),
    [
        ("Resources", SCARCE_S, What.BARRED, "n1,n2 lack what it asks for beside GPUs (cores, memory) (Resources)"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", SCARCE_S, What.BARRED, "n1,n2 lack what it asks for"),
        ("Licenses", NAMED_S, What.BARRED, "the licences it asks for are all in use (Licenses)"),
        ("QOSMaxGRESPerUser", NAMED_S, What.BARRED, "a limit of its user, account or QOS is reached"),
        ("AssocGrpCpuLimit", NAMED_S, What.BARRED, "a limit of its user, account or QOS is reached"),
        ("Reservation", NAMED_S, What.BARRED, "a reservation keeps it out"),
        ("PartitionTimeLimit", NAMED_S, What.REFUSED, "Slurm does not start it (PartitionTimeLimit)"),
        ("AssocMaxNodePerJobLimit", NAMED_S, What.REFUSED, "a limit of its user, account or QOS is reached"),
        ("BeginTime", SCARCE_S, What.BARRED, "a node refused it, and Slurm has put it off (BeginTime)"),
        ("Priority", PATIENCE_S, What.BARRED, "Slurm does not start it (Priority)"),
    ],
)
def test_a_limit_that_is_no_gpu_is_not_waited_for(reason: str, after_s: float, what: What, words: str) -> None:
    """The start is taken back as soon as the reason has stood for its time; only what cannot pass counts as refused."""
    made, limited = task(Phase.STARTING), replace(RELEASED, reason=reason)
    assert look(made, replace(RELEASED, reason="None"), 0.0) == Look()
    assert look(made, limited, 0.1) == Look()
    assert look(made, limited, after_s) == Look()
    assert look(made, limited, after_s + 0.2) == Look(do=Do.HOLD)
    given_up = look(made, PINNED, after_s + 0.3)
    assert given_up.what == (what,)
    assert speak(given_up.why).startswith(words)


def test_a_job_does_not_start_in_the_second_in_which_it_ended() -> None:
    made = task(Phase.STARTING, left_s=10.0)
    assert look(made, PINNED, 10.0 + AGAIN_S / 2) == Look()
    assert look(made, PINNED, 10.1 + AGAIN_S).do is Do.RELEASE


def test_a_failure_is_counted_against_what_the_job_allows() -> None:
    failed = replace(DONE, state="FAILED", exit_code=1)
    again = Description(name="17", argv=("sbatch", "x"), gpus=8, restarts=2)
    made = task(Phase.RUNNING, description=again, faults=Faults(own=1))
    assert look(made, failed, 1.0).do is Do.REVIVE
    assert look(made, PINNED, 2.0) == Look((What.STOPPED,), "exited with code 1; started again (2 of 2)")
    over = look(task(Phase.RUNNING, description=again, faults=Faults(own=2)), failed, 1.0)
    assert over == Look((What.OVER,), "failed after 2 restarts: exited with code 1")


def test_ends_that_are_not_its_own_fault_leave_its_restarts_alone() -> None:
    again = Description(name="17", argv=("sbatch", "x"), gpus=8, restarts=1)
    lost, failed = replace(DONE, state="NODE_FAIL"), replace(DONE, state="FAILED", exit_code=1)
    made = task(Phase.RUNNING, description=again, faults=Faults(others=OTHERS_FAULT - 1))
    assert look(made, lost, 1.0).do is Do.REVIVE
    assert (made.verdict.faults.others, speak(made.ending)) == (OTHERS_FAULT, "node fail; placed anew")  # type: ignore[union-attr]
    made = task(Phase.RUNNING, description=again, faults=Faults(others=OTHERS_FAULT))
    assert look(made, lost, 1.0) == Look((What.OVER,), f"failed after {OTHERS_FAULT} restarts: node fail")
    assert look(made, failed, 1.0).do is Do.REVIVE
    assert made.verdict.faults.own == 1  # type: ignore[union-attr]
    made = task(Phase.RUNNING, description=again)
    assert look(made, PINNED, 1.0).what == (What.STOPPED,)
    assert made.verdict is None, "a requeue is nobody's fault"


@pytest.mark.parametrize(
    ("phase", "reported", "expected"),
    [
        (Phase.RUNNING, 10, Look((What.FINISHED,), "had reported its last iteration when Slurm forgot it")),
        (
            Phase.RUNNING, 4,
            Look((What.OVER,), "lost: Slurm no longer knows how it ended; it had reported 4 of 10 iterations"),
        ),
        (
            Phase.STOPPING, -1,
            Look((What.OVER,), "lost: Slurm no longer knows how it ended; it had reported nothing"),
        ),
        (Phase.WAITING, -1, Look((What.OVER,), "cancelled: Slurm no longer knows it")),
    ],
)  # fmt: skip
def test_a_job_that_slurm_has_forgotten(phase: Phase, reported: int, expected: Look) -> None:
    made = task(phase, reported=reported, job=toy_job("17", 8, iterations=10))
    assert [look(made, None, 1.0) for _ in range(GONE - 1)] == [Look()] * (GONE - 1)
    assert look(made, None, 1.0) == expected
    made.missing = GONE - 1
    look(made, HELD if phase is Phase.WAITING else RUNNING, 1.0)
    assert made.missing == 0, "it was there again"


RECORDS = st.sampled_from([HELD, PINNED, RELEASED, RUNNING, DONE, replace(DONE, state="FAILED", exit_code=1),
                           replace(DONE, state="CANCELLED"), replace(RELEASED, completing=True)])  # fmt: skip


@given(st.sampled_from(list(Phase)), st.lists(RECORDS, max_size=8))
def test_whatever_comes_something_sensible_is_done(phase: Phase, records: list[Record]) -> None:
    """A job is never let go where nobody decided that it should run, and never told off where it should."""
    made = task(phase)
    for i, record in enumerate(records):
        seen = look(made, record, float(i))
        if seen.do in (Do.RELEASE, Do.UPDATE):
            assert made.phase is Phase.STARTING
            assert record.held
        if seen.do is Do.REQUEUE:
            assert record.running
        if What.STARTED in seen.what:
            assert made.phase is Phase.STARTING
            made.phase = Phase.RUNNING
        if seen.what and seen.what[-1] is not What.STARTED:
            break
