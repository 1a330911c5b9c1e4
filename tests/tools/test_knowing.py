"""Plans of all jobs beside cross traffic that is known: what one job chooses, by hand, and a small case."""

from typing import Any

import numpy as np
import pytest

from tools import knowing
from tools.knowing import LAST, Knowing, choices, more_by_the_end, played, study, table
from weft.model.flows import FlowSet
from weft.pace.rates import Ints, Limits, Moment
from weft.research.claims import Request
from weft.research.flows.runs import Lab, bed, others_more_together
from weft.scenario import Scenario
from weft.scenario.build import build_cluster, physics
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


@pytest.mark.parametrize(
    ("until", "pushes", "price", "cost"),
    [
        (0.5, False, 0.0, 0.5 * 1.0 - 3.5),  # waits for 0.5 s, then a rule that always pushes sends
        (0.5, False, RULE_WAITS, -3.0),  # ... a rule that waits goes on waiting until the foreign flow has ended
        (0.0, True, RULE_WAITS, 0.5 * 1.0 - 4.0),
    ],
)
def test_a_job_waits_and_then_follows_the_rule(until: float, pushes: bool, price: float, cost: float) -> None:
    """In the first case the job sends from 0.5 to 1.5 s; the foreign flow, which is there until 2 s, loses 1 s of a
    line rate, and the job 0.5 s. In the others it is there until 1 s."""
    chosen = (np.array([until]), np.array([pushes]), np.zeros(1))
    ends_s = 2.0 if price == 0.0 else 1.0
    assert played(4.0, JOB, STATE, chosen, flow(ends_s), price, 0.5, ONE) == pytest.approx(cost)


def test_a_choice_is_for_one_iteration() -> None:
    """Foreign flows are there all the time, and the rule waits for them. A job that pushes sends once, computes, and
    waits for the rest of 4 s: 2 s gained, 1 s of a line rate lost."""
    chosen = (np.zeros(1), np.array([True]), np.zeros(1))
    assert played(4.0, JOB, STATE, chosen, flow(9.0), RULE_WAITS, 0.5, ONE) == pytest.approx(0.5 - 2.0)


def test_who_has_waited_for_long_pushes() -> None:
    """A foreign flow is there until 1 s, and another from then until 10 s. The job waits for the first, and has waited
    for 1 s when the second comes. Waiting then costs 9 + 1/2 s by the rule, and pushing 1 s times the rule's price: it
    pushes at a price of 9.2, and gains 1 s of the two. Others lose 1 s of a line rate. At 9.7 it waits."""
    chosen = (np.zeros(1), np.array([False]), np.zeros(1))
    two = (np.array([[0], [0]]), np.full(2, np.inf), np.array([-1.0, 1.0]), np.array([1.0, 10.0]), 0.0)
    assert played(2.0, JOB, STATE, chosen, two, 9.2, 0.5, ONE) == pytest.approx(0.5 - 1.0)
    assert played(2.0, JOB, STATE, chosen, two, 9.7, 0.5, ONE) == pytest.approx(0.0)


def test_the_order_of_jobs_can_be_turned() -> None:
    """Two jobs that need 1 and 2 s of one link. By default the shorter goes first; within 3 s it then computes for 1 s
    and sends no more, so both have gained 1 + 1 + 2 s. If the longer goes first it sends for 2 s and computes for 1 s;
    the shorter sends for the last second: again 4 s. Within 2 s it is 1 + 1 + 1 against 2 s."""
    jobs = (
        np.array([0, 1, 2]), np.array([0, 0]), np.array([1, 1]), np.array([10.0]), np.array([10.0, 10.0]),
        np.array([5.0, 5.0]), np.array([1.0, 2.0]),
    )  # fmt: skip
    state = (np.array([True, True]), np.array([1.0, 2.0]), np.zeros(2))
    nobody = (np.zeros((0, 1), np.int64), np.zeros(0), np.zeros(0), np.zeros(0), 0.0)
    for turn, gained in ((0.0, 3.0), (LAST, 2.0)):
        chosen = (np.zeros(2), np.zeros(2, np.bool_), np.array([turn, 0.0]))
        assert played(2.0, jobs, state, chosen, nobody, 1.0, 1.0, ONE) == pytest.approx(-gained)


def test_it_knows_when_jobs_will_send_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for which a job has computed already counts, also if the rule was not asked when it began to; and so do
    the foreign flows that are there."""
    found: list[float] = []
    told: list[bool] = []
    monkeypatch.setattr(knowing, "PRICES", (0.5,))
    decide = Knowing.decide

    def noted(self: Knowing, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        path, _, starts, ends = self.to_come(when.now_s)
        now = (starts <= 1e-9) & (ends > 1e-9)
        told.append(sorted(path[now].tolist()) == sorted(self.there.path.tolist()))
        for uid in {*flows.uid[live].tolist()} & self._ends.keys() - self._began.keys():
            found.append(when.now_s - self._ends[uid] - self._jobs_there[uid][2])
        return decide(self, when, flows, live)

    monkeypatch.setattr(Knowing, "decide", noted)
    study(slice_of_flows(), "first-fit", seed=1)
    assert len(found) > 10
    assert np.median(np.abs(found)) < 1e-6
    assert np.quantile(np.abs(found), 0.9) < 0.1  # single flows may have had more than was played
    assert len(told) > 50
    assert all(told)  # the foreign flows that it is told are those that are there


def test_what_others_have_by_the_end_is_counted_as_in_the_reproduction() -> None:
    """The same percentage as that of `weft reproduce flows`."""
    ours, fair = bed("shortest"), bed("fair")
    lab = Lab(Request(seed=1, seeds=1, quick=True, workers=1), (ours, fair))
    given = slice_of_flows(jobs=8, iterations=[15, 30])
    network, _ = physics(given, 1)
    found = more_by_the_end(build_cluster(given, 1), network, 1, lab.runs[ours][0], lab.runs[fair][0])
    assert found == pytest.approx(others_more_together(lab, ours, fair).value)


def slice_of_flows(**workload: Any) -> Scenario:
    """A few jobs of `flows`."""
    data = Scenario.load(scenario_path("flows")).model_dump(exclude_unset=True)
    data["workload"] |= {"jobs": 4, "iterations": [4, 6], **workload}
    return Scenario.load(data)


def test_others_have_more_at_a_higher_price(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of `flows`: jobs are slower at a higher price, and others have more."""
    monkeypatch.setattr(knowing, "PRICES", (0.05, 3.0))
    _, (fast, taken), (slow, left) = study(slice_of_flows(), "first-fit", seed=1).values()
    assert fast < slow
    assert taken is not None
    assert left is not None
    assert taken < left


def test_a_table_of_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no intervals."""
    monkeypatch.setattr(knowing, "study", lambda *_: {"nobody else": (0.9, None), "a price of 1": (0.95, -2.0)})
    assert list(table(range(1, 2)))[2:4] == [
        "| `flows`, nobody else | 90.0 % |  |",
        "| `flows`, a price of 1 | 95.0 % | -2.0 % |",
    ]


@pytest.mark.parametrize("words", [["x"], ["1", "0"], ["-1"], ["1", "2", "3"]])
def test_seeds_that_cannot_be_read(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["knowing", *words])
    with pytest.raises(SystemExit) as ended:
        knowing.main()
    assert ended.value.code == 2
