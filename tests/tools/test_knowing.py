"""Plans of all jobs beside cross traffic that is known: what one job chooses, by hand, and a small case."""

import numpy as np
import pytest

from tools import knowing
from tools.knowing import choices, played, study
from weft.scenario import Scenario
from weft.scenario.shipped import scenario_path

# One job on a link of 10 bytes/s: it computes for 1 s, sends for 1 s, and is about to send.
JOB = (
    np.array([0, 1]), np.array([0]), np.array([1]), np.array([10.0]), np.array([10.0]), np.array([1.0]), np.array([1.0])
)  # fmt: skip
STATE = (np.array([True]), np.array([1.0]), np.array([0.0]))
RULE_WAITS, ONE = 1e9, 1.0  # the price of the rule that jobs follow otherwise; the value of a job's second


def flow(ends_s: float) -> tuple[np.ndarray, ...]:
    """A foreign flow that is on the link until then, and the time that flows last."""
    return np.array([[0]]), np.array([np.inf]), np.array([-1.0]), np.array([ends_s]), 0.0


@pytest.mark.parametrize(("price", "pushes"), [(0.5, True), (2.0, False)])
def test_a_job_pushes_or_waits_by_what_it_costs(price: float, pushes: bool) -> None:
    """A foreign flow stays for another 1 s. Who pushes takes 1 s of a line rate from it and loses nothing; who waits
    loses 1 s. So it pushes where a second of a line rate costs less than a second of the job."""
    until, pushed, _ = choices(4.0, np.array([1.0]), 1e-6, JOB, STATE, flow(1.0), RULE_WAITS, price, ONE)
    assert bool(pushed[0]) is pushes
    assert not until[0]  # the rule waits anyhow


def test_what_the_next_seconds_cost_by_hand() -> None:
    """In 4 s a job that pushes sends, computes, sends and computes: 4 s gained, and 1 s of a line rate lost. One that
    waits for 1 s gains 3 s."""
    push = (np.zeros(1), np.array([True]), np.zeros(1))
    wait = (np.zeros(1), np.array([False]), np.zeros(1))
    assert played(4.0, JOB, STATE, push, flow(1.0), RULE_WAITS, 0.5, ONE) == pytest.approx(0.5 * 1.0 - 4.0)
    assert played(4.0, JOB, STATE, wait, flow(1.0), RULE_WAITS, 0.5, ONE) == pytest.approx(-3.0)


def test_others_have_more_at_a_higher_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of `flows`: jobs are slower at a higher price, and others have more."""
    monkeypatch.setattr(knowing, "PRICES", (0.05, 3.0))
    data = Scenario.load(scenario_path("flows")).model_dump(exclude_unset=True)
    data["workload"] |= {"jobs": 4, "iterations": [4, 6]}
    (fast, taken), (slow, left) = study(Scenario.load(data), "first-fit", seed=1).values()
    assert fast < slow
    assert taken < left
