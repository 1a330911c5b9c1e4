import pytest

from weft.model.reason import Reason, because, code_of
from weft_live.ending import NONE, OTHERS_FAULT, RAN_WELL_S, Becomes, Faults, Verdict, judge

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
