"""mltcp: two equal jobs drift apart as the fluid equation says; weights of what was sent."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from testkit.paced import CAPACITY, Flows, program, rule_of, run_all, spec_of
from weft.model.flows import FlowRows, flow_set
from weft.policies.pace.mltcp import FINE, Mltcp, MltcpRule
from weft.policies.pace.rates import Demand, Ints, Moment
from weft.sim.engine import Engine
from weft.sim.engine.program import transfer_node


def send(seconds: float) -> Flows:
    """So many seconds on a link of 10."""
    return (transfer_node(1, 10.0 * seconds, [(0, 1)]),)


def next_difference(d: float, at: float, slope: float, intercept: float) -> float:
    """d + Slope d (aT - d) / (aT Intercept + Slope d), while there is an overlap."""
    return d + slope * d * (at - d) / (at * intercept + slope * d) if d < at else d


def differences(slope: float, intercept: float, d: float, n: int) -> list[float]:
    """By how much the second job begins its communication later than the first, iteration by iteration: 0.7 s of
    computing, 0.5 s on the link alone, T = 1.2."""
    engine = Engine(spec_of(rule_of(Mltcp(slope, intercept))))
    first = engine.attach(0, program(0.7, send(0.5)), n)
    engine.run(d)
    second = engine.attach(1, program(0.7, send(0.5)), n)
    run_all(engine, 2)
    late, early = ([0.0, *iterations_s(engine, row)] for row in (second, first))
    return [d + sum(late[: k + 1]) - sum(early[: k + 1]) for k in range(n)]


def iterations_s(engine: Engine, row: int) -> list[float]:
    """Seconds of each iteration of a job."""
    mine = [record for record in engine.records() if record["row"] == row]
    return [float(record["duration"]) for record in mine for _ in range(int(record["count"]))]


@pytest.mark.parametrize(
    ("slope", "intercept", "expected"),
    [
        (1.75, 0.25, [0.0500, 0.2353, 0.4384, 0.4914, 0.4989, 0.4999, 0.5]),
        (4.0, 0.25, [0.0500, 0.3269, 0.4849, 0.4991]),
        (0.0, 1.0, [0.05] * 4),
    ],
)
def test_two_jobs_drift_apart(slope: float, intercept: float, expected: list[float]) -> None:
    """T = 1.2, aT = 0.5, d = 0.05. Fair share (slope 0) changes nothing."""
    found = differences(slope, intercept, 0.05, len(expected))
    assert found == pytest.approx(expected, abs=1e-4)
    d = 0.05
    for each in found:
        assert each == pytest.approx(d, abs=2e-5)
        d = next_difference(d, 0.5, slope, intercept)


@given(st.floats(0.02, 0.45), st.floats(0.5, 4.0), st.floats(0.1, 1.0))
@settings(max_examples=examples(10), deadline=None)
def test_the_fluid_equation(d: float, slope: float, intercept: float) -> None:
    found = differences(slope, intercept, d, 3)
    assert found[1] == pytest.approx(next_difference(found[0], 0.5, slope, intercept), abs=5e-5)
    assert found[2] == pytest.approx(next_difference(found[1], 0.5, slope, intercept), abs=5e-5)


def test_who_starts_together_stays_together() -> None:
    """d = 0 is an equilibrium, though not a stable one."""
    assert differences(1.75, 0.25, 0.0, 4) == pytest.approx([0.0] * 4, abs=1e-9)


def test_ends_of_communication_come_a_period_apart() -> None:
    """1.2617, 1.2087, 1.2011, 1.2002 s between the ends of job 1."""
    engine = Engine(spec_of(rule_of(Mltcp())))
    engine.attach(0, program(0.7, send(0.5)), 6)
    engine.run(0.05)
    engine.attach(1, program(0.7, send(0.5)), 6)
    run_all(engine, 2)
    assert iterations_s(engine, 0)[1:5] == pytest.approx([1.2617, 1.2087, 1.2011, 1.2002], abs=2e-4)


def test_weights_by_hand() -> None:
    """F = 1.75 x ratio + 0.25. A job of two flows of 4 bytes has sent 4, then all of one and none of the other.
    Another, of 1,000 bytes, shares both links and sends nothing."""
    flows, rule = flow_set(4, 1), MltcpRule()
    flows.put(0, 0, FlowRows(((0,), (1,)), (4.0, 4.0), (4.0, 4.0), ((0, 0),) * 2, ((0, 0),) * 2), CAPACITY)
    flows.put(2, 1, FlowRows(((0,), (1,)), (500.0,) * 2, (500.0,) * 2, ((1, 0),) * 2, ((1, 0),) * 2), CAPACITY)
    rule.begin(Demand(CAPACITY))
    both, other = np.arange(2), np.arange(2, 4)
    rule.came(both, flows)
    rule.came(other, flows)

    def weight(now: float, live: Ints) -> float:
        weights = rule.decide(Moment(0, now_s=now), flows, np.concatenate([live, other])).weights
        assert weights is not None
        assert len(set(weights[live].tolist())) == 1
        return float(weights[live[0]]) / FINE

    assert weight(0.0, both) == pytest.approx(0.25, abs=1e-5)
    assert rule.again_s == pytest.approx(8.0 / 16.0 / 20.0)  # at 20 bytes/s together
    flows.sent[:2] = 2.0
    assert weight(1.0, both) == pytest.approx(0.25 + 1.75 / 2.0, abs=1e-5)
    assert rule.again_s == pytest.approx((1.0 / 16.0) / (0.5 / 1.0))  # as fast as it was
    flows.sent[:2] = (4.0, 2.0)
    rule.over(np.array([0]), flows)
    assert weight(2.0, np.array([1])) == pytest.approx(0.25 + 1.75 * 0.75, abs=1e-5)
    rule.over(np.array([1]), flows)
    flows.sent[0] = 1.0
    assert weight(3.0, np.array([0])) == pytest.approx(0.25 + 1.75 / 8.0, abs=1e-5)  # another iteration


def test_a_job_of_other_volume_is_looked_at_on_the_way() -> None:
    """Weights of unequal jobs have no constant ratio, so the rule is asked about sixteen times for each job while
    both send. Between these times weights stay what they were, which costs the newcomer 2.5 %."""
    engine = Engine(spec_of(rule_of(Mltcp())))
    engine.attach(0, program(0.0, send(1.0)), 1)
    engine.attach(1, program(0.0, send(3.0)), 1)
    run_all(engine, 2)
    assert 16 <= engine.ruled.decisions / 2 <= 100  # type: ignore[union-attr]
    assert engine.finish_s(1) == pytest.approx(4.0)
    # dr1/dt = F1 / (F1 + F2), 3 dr2/dt = F2 / (F1 + F2): F2 = 0.25 (F1 / 0.25)^(1/3), until r1 = 1 and F1 = 2
    sent = (0.25 * 8.0 ** (1.0 / 3.0) - 0.25) / 1.75 * 3.0
    assert engine.finish_s(0) == pytest.approx(1.0 + sent, rel=0.03)


def looks(*jobs: tuple[int, int]) -> float:
    """How often the rule was asked, for each iteration of each job; jobs compute 1 s and send in buckets of 1 s over a
    link, one after another: (link, buckets) of each."""
    engine = Engine(spec_of(rule_of(Mltcp())))
    for at, (link, n) in enumerate(jobs):
        buckets = tuple(transfer_node(1, 10.0, [(link, 1)], after=(i,)) for i in range(n))
        engine.attach(at, program(1.0, buckets), 10)
    run_all(engine, len(jobs))
    return engine.ruled.decisions / (10.0 * len(jobs))  # type: ignore[union-attr]


def test_it_looks_only_while_jobs_share_a_link() -> None:
    """A job that has its link to itself is looked at when its transfers start and end; one that shares it, about
    sixteen times for each iteration of each job as well."""
    for buckets in (1, 3):
        assert looks((0, buckets)) <= 2.0 * buckets
        assert looks((0, buckets), (0, buckets)) <= 2.0 * buckets + 2 * 16.0 * buckets
    assert looks((0, 1), (1, 1)) <= 4.0
    assert looks((0, 1), (0, 1)) >= 8.0


def test_settings() -> None:
    assert Mltcp.from_text("slope=4").name == "mltcp:slope=4"
    assert math.isclose(Mltcp.from_text("slope=4,intercept=0.5").intercept, 0.5)
