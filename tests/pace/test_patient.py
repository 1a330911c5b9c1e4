"""shortest:patient: how long foreign flows will stay is learned, and who leaves soon is waited for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.draws import examples
from tests.sim.paced import CAPACITY, program, servers
from weft.errors import StackError
from weft.model.flows import FlowSet, flow_set
from weft.pace.rates import Demand, Moment, Others
from weft.pace.shortest import ROUNDS, Shortest, owed
from weft.pace.shortest.patient import ENOUGH, GENTLE, PATIENCE, PatientRule
from weft.scenario import Scenario
from weft.scenario.shipped import scenario_path
from weft.sim.engine.ruled import flow_rows
from weft.testing import check_pace


def _told(lasted: list[float], since: list[float] | None = None) -> Others:
    since = [] if since is None else since
    return Others(np.zeros((len(since), 1), np.int64), np.full(len(since), np.inf), np.array(since), np.array(lasted))


def _rule(compute_s: float = 1.8) -> tuple[PatientRule, FlowSet]:
    """A rule that knows one job: a push of 6 bytes at 10 bytes/s and its broadcast, so 0.6 s of sending."""
    rule, flows = PatientRule(), flow_set(8, 3)
    rule.begin(Demand(CAPACITY))
    flows.put(0, 0, flow_rows(program(compute_s, servers(1, (0,), 6.0))), CAPACITY, 3)
    rule.came(np.arange(3), flows)
    return rule, flows


def test_how_long_a_flow_will_stay_by_hand() -> None:
    """Twenty flows have lasted 1 s (ten) and 3 s (ten): 2 s in the mean. One that is 0.5 s old stays for (10 x 0.5 +
    10 x 2.5 + 2) / 21 s, one of 2 s for (10 x 1 + 2) / 11 s, and one of 4 s, older than any before, for 2 s. The job
    sends for 0.6 s, so the factor is 0.7 x 2 / 0.6."""
    rule, _ = _rule()
    rule.others(_told([1.0] * 10 + [3.0] * 9))
    assert rule.stays_s(5.0)[0].tolist() == []
    rule.others(_told([3.0], [4.5, 3.0, 1.0]))
    stays, factor = rule.stays_s(5.0)
    assert stays == pytest.approx([32 / 21, 12 / 11, 2.0])
    assert factor == pytest.approx(PATIENCE * 2.0 / 0.6)


def test_nothing_is_assumed_before_enough_have_ended() -> None:
    """Then, and where no job of ours computes, foreign flows weigh 1."""
    rule, _ = _rule()
    rule.others(_told([1.0] * (ENOUGH - 1), [0.0]))
    assert rule.stays_s(1.0)[0].tolist() == [0.0]
    rule, _ = _rule(compute_s=0.0)
    rule.others(_told([1.0] * ENOUGH, [0.0]))
    assert rule.stays_s(1.0)[0].tolist() == [0.0]


def test_what_a_foreign_flow_weighs() -> None:
    """Flows that lasted 2 s each: one that has just come stays for 2 s. The job needs 0.6 s, so with a factor of 0.7 x
    2 / 0.6 the flow weighs (0.7 x 2 / 0.6 x 0.6 / 2)^2 = 0.49; one that is about to leave weighs more."""
    rule, _ = _rule()
    kept = []
    for age in (0.0, 1.9):
        rule.others(_told([2.0] * ENOUGH if age == 0.0 else [], [10.0 - age]))
        stays, factor = rule.stays_s(10.0)
        begins, links = np.array([0, 1]), np.array([0])
        theirs = rule.kernel.patient(begins, links, np.array([0.6]), rule.there.path, stays, factor, len(CAPACITY))
        kept.append(float(theirs[0]))
    assert kept[0] == pytest.approx(0.49)
    assert kept[1] > 10.0 * kept[0]


def test_who_waits_makes_jobs_push() -> None:
    """Jobs weigh 1.2, and 200 while others wait for GPUs; the parts for which they send count by their squares."""
    rule, _ = _rule()
    part = np.array([0.2, 0.4])
    assert rule.weights(part) == pytest.approx(1.2 * np.array([2.25, 0.5625]))
    rule.waiting = 3
    assert rule.weights(part) == pytest.approx(200.0 * np.array([2.25, 0.5625]))


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=ENOUGH, max_size=60),
    st.lists(st.floats(0.0, 1e3), min_size=1, max_size=6),
)
@settings(max_examples=examples(100), deadline=None)
def test_weights_are_finite_and_more_than_nothing(lasted: list[float], ages: list[float]) -> None:
    """Whatever lasted however long, and however old a flow is; the rates that follow are as `owed` says."""
    rule, _ = _rule()
    rule.others(_told(lasted, [1e3 - age for age in ages]))
    stays, factor = rule.stays_s(1e3)
    assert (stays > 0.0).all()
    seconds = np.array([0.6])
    theirs = rule.kernel.patient(np.array([0, 1]), np.array([0]), seconds, rule.there.path, stays, factor, 1)
    expected = np.clip((factor * 0.6 / stays) ** 2, 1e-4, 1e4)
    assert theirs == pytest.approx(expected)
    room, weights = np.array([10.0]), np.array([1.2])
    most, n_of = rule.there.most, np.array([1])
    found = rule.kernel.owed(
        np.array([0, 1]), np.array([0]), n_of, rule.there.path, most, theirs, room, weights, ROUNDS
    )
    told = [((0,), float(m)) for m in most]
    assert found == pytest.approx(owed([{0: 1}], [1.2], told, [10.0], theirs.tolist()))


def test_it_is_a_pace() -> None:
    """It keeps the rules of a pace, has a name that it is found by, and says what else can be written."""
    check_pace(lambda: Shortest.from_text("patient"))
    assert Shortest.from_text("patient").name == "shortest:patient"
    assert isinstance(Shortest.from_text("patient").rates(), PatientRule)
    with pytest.raises(StackError, match="shortest:patient"):
        Shortest.from_text("patience")


def test_the_rule_decides_with_it() -> None:
    """A job beside a foreign flow that will stay gets more of the link than beside one that is about to leave."""
    rates = []
    for age in (0.0, 1.99):
        rule, flows = _rule()
        live = np.flatnonzero(flows.path[:3].max(axis=1) >= 0)  # one of the three does not leave its server
        flows.active[live] = True
        link = int(flows.path[live[0]][0])
        there = Others(np.array([[link]]), np.full(1, np.inf), np.array([10.0 - age]), np.full(ENOUGH, 2.0))
        rule.others(there)
        rates.append(float(rule.decide(Moment(0, now_s=10.0), flows, live).caps[live[0]]))
    assert rates[0] > 2.0 * rates[1] > 0.0


def test_on_the_testbed_it_learns_and_jobs_end() -> None:
    """Slices of `flows`: cross traffic comes and goes every second, so lifetimes are known soon; from then on it does
    otherwise than a rule with the same weights that learns nothing. Conservation is checked in every run."""
    data = Scenario.load(scenario_path("flows")).model_dump(exclude_unset=True)
    data["workload"] |= {"jobs": 4, "iterations": [5, 10]}
    ends = [
        weft.simulate(data, stack=f"fifo[place=first-fit,pace={pace}]", seed=1).jobs["finish_s"].to_list()
        for pace in ("shortest:patient", f"shortest:{GENTLE:g}", "shortest:patient")
    ]
    assert ends[0] == ends[2]
    assert ends[0] != ends[1]
    assert None not in ends[0]
