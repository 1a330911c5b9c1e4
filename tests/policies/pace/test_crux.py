"""crux: strict priority on links, and the level of each job."""

import math

import numpy as np
import pytest

from testkit.paced import CAPACITY, Flows, program, rule_of, run_all, spec_of
from weft.model.flows import FlowRows, FlowSet, flow_set
from weft.policies.pace.crux import Crux, CruxRule
from weft.policies.pace.rates import Demand, Ints, Limits, Moment, RateRule
from weft.sim.engine import Engine
from weft.sim.engine.program import transfer_node


class Given(RateRule):
    """Job 0 is on the high level and may have so much; the others are below it."""

    slot_s = math.inf
    everyone = True

    def __init__(self, cap: float) -> None:
        self.cap = cap

    def begin(self, demand: Demand) -> None: ...

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        high = flows.uid == 0
        return Limits(np.where(high, self.cap, math.inf), levels=np.where(high, 0, 1).astype(np.int64))


@pytest.mark.parametrize(("cap", "rates"), [(4.0, (4.0, 3.0, 3.0)), (math.inf, (10.0, 0.0, 0.0))])
def test_strict_priority(cap: float, rates: tuple[float, ...]) -> None:
    """A link of 10, one high flow and two low ones: 4, 3, 3 if the high one is capped at 4, else 10, 0, 0."""
    engine = Engine(spec_of(lambda: Given(cap)))
    for uid in range(3):
        engine.attach(uid, program(0.0, send(100.0)), 1)
    engine.run(1.0)
    assert [engine.on_link(0)[uid][0] for uid in range(3)] == pytest.approx(rates)


def send(size: float, link: int = 0) -> Flows:
    return (transfer_node(1, size, [(link, 1)]),)


def test_example_1_in_the_engine() -> None:
    """Figure 9: 2 and 1 s on a link of 10, 2 and 1 s of computing, each on ten GPUs. k = 1.5 puts the short job first,
    which then goes as if alone: 2 s each. The long one gets the link while the short one computes: 1 s of every 2, so
    its 2 s of sending end at 5 s (2 to 3 and 4 to 5; the link is its own from 1 s on, but it computes until 2)."""
    engine = Engine(spec_of(rule_of(Crux())))
    long, short = engine.attach(0, program(2.0, send(20.0)), 1), engine.attach(1, program(1.0, send(10.0)), 3)
    run_all(engine, 2)
    assert engine.finish_s(short) == pytest.approx(6.0)
    assert engine.finish_s(long) == pytest.approx(5.0)


def told(levels: int, jobs: dict[int, tuple[float, float, float, int]]) -> dict[int, int]:
    """Levels of jobs: (GPU seconds, seconds of computing, bytes, link) by uid."""
    flows, rule = flow_set(len(jobs), 1), CruxRule(levels)
    rule.begin(Demand(CAPACITY))
    for row, (uid, (work, compute_s, size, link)) in enumerate(jobs.items()):
        rows = FlowRows(((link,),), (size,), (size,), ((0, 0),), ((0, 0),), compute_s, work)
        flows.put(row, row, rows, CAPACITY, uid)
        rule.came(np.array([row]), flows)
    limits = rule.decide(Moment(0), flows, np.arange(len(jobs)))
    assert limits.levels is not None
    return dict(zip(jobs, limits.levels.tolist(), strict=True))


def test_levels_follow_from_profiles() -> None:
    """On one link, 1 s of sending each beside 9 s of computing: the intensity decides."""
    jobs = {uid: (work, 9.0, 10.0, 0) for uid, work in enumerate((9.0, 36.0, 18.0))}
    assert told(3, jobs) == {0: 2, 1: 0, 2: 1}


def test_jobs_that_do_not_meet_need_no_level_of_their_own() -> None:
    """Two pairs on two links (the compression example): two levels are enough."""
    jobs = {0: (36.0, 9.0, 10.0, 0), 1: (9.0, 9.0, 10.0, 0), 2: (30.0, 9.0, 10.0, 1), 3: (8.0, 9.0, 10.0, 1)}
    assert told(2, jobs) == {0: 0, 1: 1, 2: 0, 3: 1}


def test_a_job_that_ends_gives_up_its_level() -> None:
    flows, rule = flow_set(2, 1), CruxRule(2)
    rule.begin(Demand(CAPACITY))
    for row, work in enumerate((9.0, 36.0)):
        flows.put(row, row, FlowRows(((0,),), (10.0,), (10.0,), ((0, 0),), ((0, 0),), 9.0, work), CAPACITY)
        rule.came(np.array([row]), flows)
    both = rule.decide(Moment(0), flows, np.arange(2)).levels
    rule.gone(np.array([1]), flows)
    alone = rule.decide(Moment(0), flows, np.arange(1)).levels
    assert both is not None
    assert alone is not None
    assert (both.tolist(), alone[0]) == ([1, 0], 0)
