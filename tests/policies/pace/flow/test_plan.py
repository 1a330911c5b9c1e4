"""Algorithm 1 and the rules of Algorithm 2, by hand and against the compiled twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from testkit.draws import examples
from tests.sim.paced import CAPACITY, servers
from weft.model.flows import flow_set
from weft.policies.pace.flow import FlowRule, FlowSpec, available_bandwidth
from weft.policies.pace.flow.host import Answer, HostScheduler, OwnFlow, Peers
from weft.policies.pace.flow.plan import ENOUGH, adjusted, allowance, path_state, plan
from weft.policies.pace.rates import Carried, Demand, Moment
from weft.sim.engine.program import make_program
from weft.sim.engine.ruled import flow_rows

RATES = st.floats(0, 10, allow_nan=False).map(lambda x: round(x, 2))


def test_example_by_hand() -> None:
    """docs/baselines/flow.md: capacity 10; others plan 10, 4, 0, 6 on one link; the flow has 12 left."""
    free, load, prices = path_state([[10.0, 4.0, 0.0, 6.0]], [10.0], 4)
    assert free == [0.0, 6.0, 10.0, 4.0]
    assert load == [10.0, 4.0, 0.0, 6.0]
    assert prices == pytest.approx([0.1, 0.04, 0.0, 0.06])
    assert plan(12.0, free, load, prices) == [0.0, 2.0, 10.0, 0.0]  # D = 3: cost 3 + 2 x 0.04 = 3.08; D = 4: 4.08
    assert plan(6.0, free, load, prices) == [0.0, 6.0, 0.0, 0.0]  # D = 2: 2 + 6 x 0.04 = 2.24; D = 3: 3 + 0
    assert plan(30.0, free, load, prices) == free  # nothing fits: all that is free


def test_a_dear_early_slot_is_left_for_a_cheap_later_one() -> None:
    """D = 1 costs 1 + 1.5 (a price of 0.3 on each of 5); D = 2 costs 2: one slot later, and nobody is met."""
    assert plan(5.0, [5.0, 10.0], [5.0, 0.0], [0.3, 0.0]) == [0.0, 5.0]


def test_dependencies_by_hand() -> None:
    """F in units of rate; a push is raised to the furthest broadcast, others to the least advanced feeder."""
    assert adjusted(3.0, 2.0, [7.0, 9.0], [], most=10.0, free=10.0) == 5.0  # 7 - (2 + 3) = 2 more
    assert adjusted(3.0, 2.0, [], [6.5], most=10.0, free=10.0) == 4.5
    assert adjusted(3.0, 2.0, [7.0], [], most=4.0, free=10.0) == 4.0  # B_i
    assert adjusted(3.0, 2.0, [7.0], [], most=10.0, free=3.5) == 3.5  # what the path has
    assert adjusted(3.0, 2.0, [1.0], [], most=10.0, free=10.0) == 3.0
    assert adjusted(3.0, 2.0, [9.0], [], most=1.0, free=10.0) == 3.0  # the plan itself is kept
    assert allowance(2.0, 1.0, [4.0, 3.0]) == 2.0  # chunk 1 + least 3 - sent 2
    assert allowance(9.0, 1.0, [4.0]) == 0.0
    assert allowance(9.0, 1.0, []) == float("inf")


@given(st.integers(1, 10), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_the_kernel_plans_the_same(k: int, data: st.DataObject) -> None:
    columns = st.lists(RATES, min_size=k, max_size=k)
    left, free, load = data.draw(st.floats(0, 60)), data.draw(columns), data.draw(columns)
    prices = [x / 100 for x in data.draw(columns)]
    mine = plan(left, free, load, prices)
    work = [np.empty(k, np.int64) for _ in range(2)]
    rates = np.empty(k)
    FlowRule().kernel.plan(left, np.array(free), np.array(load), np.array(prices), 0, *work, rates)
    assert rates.tolist() == mine
    assert all(0.0 <= r <= f for r, f in zip(mine, free, strict=True))
    fits = sum(free) >= left * ENOUGH
    assert sum(mine) == pytest.approx(min(left, sum(free)) if fits else sum(free))


def test_what_is_available() -> None:
    """A link that was full in the window is ours as far as we got through it, any other at line rate."""
    carried = np.array([[3.0, 3.0], [5.0, 5.0], [0.0, 0.0], [1.0, 1.0]])
    full = np.array([[True, False], [False, False], [False, False], [False, False]])
    assert available_bandwidth(np.array([10.0, 10.0]), carried, full).tolist() == [5.0, 10.0]
    inner = FlowRule().kernel.best_rate
    best = njit(lambda reached, i, line: inner(reached, i, line))
    assert best(np.array([[1.0, 4.0], [0.0, 0.0]]), 0, 9.0) == 4.0
    assert best(np.array([[1.0, 4.0], [0.0, 0.0]]), 1, 9.0) == 9.0


# A push of 12 (in units of rate) over links of 10; another job has posted 4 for this slot. Algorithm 1: D = 2 fills the
# empty slot 1 with 10 and this one with 2, at 2 + 2 x 0.04. Then by how far the furthest broadcast will be after this
# slot, and by the best rate of the last slots (0: unknown, so line rate), what Algorithm 2 makes of it:
RAISES = [
    (1.0, 0.0, [2.0, 10.0]),  # F_b - F_i = 1 - 2 < 0: the plan
    (5.0, 0.0, [5.0, 7.0]),  # raised by 5 - 2; the rest is planned anew
    (5.0, 4.0, [4.0, 8.0]),  # no more than B_i
    (5.0, 1.0, [2.0, 10.0]),  # B_i does not lower the plan
    (9.0, 0.0, [6.0, 6.0]),  # no more than the others leave of the link
]


@pytest.mark.parametrize(("furthest", "best", "rates"), RAISES)
def test_a_push_is_raised_to_the_furthest_broadcast(furthest: float, best: float, rates: list[float]) -> None:
    """By the host, and by the kernel for all hosts: Algorithm 2, lines 4-12."""
    host = HostScheduler(slot_s=1.0, slots=4)
    host.begin(OwnFlow(0, 12.0, 0.0, (0, 5), 10.0, (), (1,)))
    if best:
        host.carried(0, 0.0, best)
    answers = {0: Answer([4.0, 0.0, 0.0, 0.0], 10.0), 5: Answer([0.0] * 4, 10.0)}
    told = host.decide(0, 0, answers, Peers({1: 0.0}, {1: furthest}))
    assert list(told.rates) == pytest.approx([*rates, 0.0, 0.0])

    rule = FlowRule(FlowSpec(slot_s=1.0, slots=4))
    rule.begin(Demand(CAPACITY))
    flows = flow_set(3, 2)
    flows.put(0, 0, flow_rows(make_program(servers(1, (0,), 12.0), CAPACITY)), CAPACITY)  # a push and its broadcast
    rule._room(3)
    rule.table[0, 0] = 4.0  # of the other job
    rule.plans[1, 0] = furthest
    rule.table[flows.path[1, 0], 0] = rule.table[flows.path[1, 1], 0] = furthest
    rule.reached[0, 0] = best
    rule.decide(Moment(0), flows, np.array([0]))
    assert rule.plans[0].tolist() == pytest.approx([*rates, 0.0, 0.0])


@pytest.mark.parametrize(("idle", "ours"), [(3, 5.0), (4, 10.0), (50, 10.0)])
def test_slots_without_traffic_of_ours_count(idle: int, ours: float) -> None:
    """What a link denied us is forgotten after 4 slots, also if nobody sent in them and nobody was asked."""
    rule, flows, none = FlowRule(), flow_set(2, 2), np.zeros(0, np.int64)
    rule.begin(Demand(np.array([10.0, 10.0])))
    rule.decide(Moment(7), flows, none)
    rule.carried(7, flows, none, Carried(np.array([5.0, 5.0]), np.array([True, False])))
    assert rule.available.tolist() == [5.0, 10.0]
    rule.decide(Moment(8 + idle), flows, none)
    assert rule.available.tolist() == [ours, 10.0]
