from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from testkit.draws import examples
from weft.policies.pace.flow import FlowRule
from weft_live.flow.plan import ENOUGH, adjusted, allowance, path_state, plan

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


@given(st.integers(1, 5), st.data())
@settings(max_examples=examples(50), deadline=None)
def test_for_each_deadline_the_greedy_schedule_is_the_cheapest(k: int, data: st.DataObject) -> None:
    """Section IV-B, on one link, whose price grows with its load: a linear program over the slots of each deadline."""
    columns = st.lists(RATES, min_size=k, max_size=k)
    free, load = data.draw(columns), data.draw(columns)
    left = data.draw(st.floats(0.0, 1.0)) * sum(free)
    prices = [each / 100 for each in load]
    mine = plan(left, free, load, prices)
    costs = []
    for deadline in range(1, k + 1):
        bounds = [(0.0, rate) for rate in free[:deadline]]
        best = linprog(prices[:deadline], A_eq=np.ones((1, deadline)), b_eq=[left], bounds=bounds)
        if best.success:
            costs.append(deadline + best.fun)
    used = max((t + 1 for t, rate in enumerate(mine) if rate > 0.0), default=1)
    assert used + np.dot(mine, prices) <= min(costs, default=float("inf")) + 1e-6


class Counting(list[float]):
    """A list that knows how often it was read."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        self.reads += 1
        return super().__getitem__(index)


def test_planning_costs_no_more_than_the_paper_says() -> None:
    """Section IV-C: O(T^2 log T) over T slots, where every deadline is tried and every slot is sorted in; what
    Algorithm 2 adds knows no slots."""
    reads = []
    for slots in (16, 32, 64, 128):
        load = Counting(float(slots - t) for t in range(slots))  # each new slot goes in front of all others
        free, prices = Counting([1.0] * slots), Counting([2.0 * slots] * slots)  # so dear that no deadline ends it
        plan(1.0, free, load, prices)
        reads.append((load.reads + free.reads + prices.reads) / (slots**2 * np.log2(slots)))
    assert reads == sorted(reads, reverse=True)
    assert reads[0] < 2.0
