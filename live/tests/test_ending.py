from pathlib import Path

import pytest

from live.tests.jobs import describe
from weft.model.reason import Reason, because, code_of
from weft.testing import toy_cluster
from weft_live.description import unread
from weft_live.ending import NONE, OTHERS_FAULT, RAN_WELL_S, Becomes, Bounds, Faults, Verdict, judge
from weft_live.local import LocalWorld
from weft_live.slurm.states import SlurmTask

HOW = because("live.exit", status=3)


def judged(faults: Faults = NONE, restarts: int = 0, ran_s: float = 0.0, **more: bool) -> Verdict:
    flags = {"done": False, "own": True, "stopping": False, "cancelled": False, **more}
    return judge(HOW, faults, restarts, ran_s=ran_s, **flags)


@pytest.mark.parametrize(
    ("flags", "becomes", "code"),
    [
        ({"done": True, "cancelled": True, "stopping": True}, Becomes.FINISHED, "live.exit"),
        ({"cancelled": True, "stopping": True}, Becomes.OVER, "live.cancelled"),
        ({"stopping": True}, Becomes.AGAIN, "live.stopped"),
        ({}, Becomes.OVER, "live.failed"),
        ({"own": False}, Becomes.AGAIN, "live.anew"),
    ],
)
def test_who_goes_before_whom(flags: dict[str, bool], becomes: Becomes, code: str) -> None:
    found = judged(**flags)  # type: ignore[arg-type]
    assert (found.becomes, code_of(found.why)) == (becomes, code)


def test_a_job_that_fails_at_once_pauses_twice_as_long_each_time_and_one_that_ran_well_begins_anew() -> None:
    faults, pauses = NONE, []
    for _ in range(13):
        found = judged(faults, restarts=10**6)
        faults = found.faults
        pauses.append(found.pause_s)
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]
    assert judged(faults, 10**6, ran_s=RAN_WELL_S).pause_s == 1
    assert judged(Faults(own=10**6), restarts=10**6).becomes is Becomes.OVER


def test_faults_of_others_leave_a_jobs_restarts_alone_and_are_not_forgiven_without_end() -> None:
    found = judged(Faults(own=1, others=OTHERS_FAULT - 1), restarts=1, own=False)
    assert (found.becomes, found.faults.own, found.faults.others) == (Becomes.AGAIN, 1, OTHERS_FAULT)
    assert judged(found.faults, restarts=1, own=False).becomes is Becomes.OVER
    assert judged(found.faults, restarts=2).becomes is Becomes.AGAIN


def test_reasons_tell_the_next_server_what_this_one_has_counted() -> None:
    faults, whys = NONE, []
    for own in (True, False, False, True, False):
        found = judged(faults, restarts=9, own=own)
        faults = found.faults if not own else Faults(found.faults.own, 0, found.faults.row)  # it had saved something
        whys.append(found.why)
    assert Faults.told([*whys, "text", because("live.stopped")]) == faults == Faults(own=2, others=1, row=5)
    assert isinstance(whys[0], Reason)


def test_an_operator_bounds_what_jobs_ask_for(tmp_path: Path) -> None:
    said = describe("a", ["true"], restarts=10**6, grace_s=10**6)
    world = LocalWorld(toy_cluster(1, 1, 2), tmp_path)
    world.bounds = Bounds(restarts=0, grace_s=0.5)
    try:
        world.submit(said.job(0.0, unread), said)
        (task,) = world._coming()
        task.gpus = (0,)
        assert world._spec(task)["grace_s"] == 0.5
        slurm = SlurmTask(task.job, said.model_copy(update={"env": {"grace_s": "600"}}), "17", bounds=world.bounds)
        assert (slurm.grace_s, slurm.restarts) == (0.5, 0)
    finally:
        world.close()
