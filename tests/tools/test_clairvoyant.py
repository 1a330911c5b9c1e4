"""What a pace could do that knows the cross traffic in advance: parts of the plan by hand, and a small case."""

import numpy as np
import pytest

from tools.clairvoyant import SLOPE, SLOPES, least_loss, plan, slopes, study
from weft.scenario import Scenario
from weft.scenario.shipped import scenario_path

INF = float("inf")


def test_what_others_lose_by_hand() -> None:
    """Links of 10. One foreign flow on the job's only link loses what the job takes. Where two share another link, each
    has half of its own, so the job takes the other half of the first's link for nothing; of what it takes beyond that
    the second gets all that the first loses."""
    ten, uses = np.full(3, 10.0), np.array([10.0, 0.0, 0.0])
    one = slopes([((0,), INF)], ten, uses)
    assert one[round(1.0 / SLOPE)] == pytest.approx(1.0)
    free = slopes([((0, 2), INF), ((1, 2), INF)], ten, uses)
    assert free[0] == pytest.approx(1.0)
    assert free.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("price", "taken", "lost"), [(0.4, 6.0, 2.0), (0.6, 7.0, 0.0), (2.0, 7.0, 0.0)])
def test_a_plan_by_hand(price: float, taken: float, lost: float) -> None:
    """Two iterations of one step of computing and two of sending; a foreign flow is there in steps 1 and 4. Who never
    waits sends in steps 1, 2, 4 and 5: 6 steps, in which others lose 2. Who waits in step 1 sends in steps 2, 3, 5 and
    6: 7 steps, in which they lose nothing. Below a price of 1/2 the first is better."""
    parts = np.zeros((2, SLOPES))
    parts[0, 0], parts[1, round(1.0 / SLOPE)] = 1.0, 1.0
    which = np.zeros(12, np.int64)
    which[[1, 4]] = 1
    loss = least_loss(parts, which, 2.0, 6)
    assert plan(loss, 2, 1, price) == pytest.approx((taken, lost))


def test_a_plan_is_slower_and_costs_others_less_at_higher_prices() -> None:
    """A slice of `flows`: times rise with the price and losses fall; nobody is faster than where nobody else sends."""
    data = Scenario.load(scenario_path("flows")).model_dump(exclude_unset=True)
    data["workload"] |= {"jobs": 4, "iterations": [4, 6]}
    found = study(Scenario.load(data), seed=1)
    (floor, _), *planned = found.values()
    times, losses = [floor, *(time for time, _ in planned)], [loss for _, loss in planned]
    assert times[1] >= 0.99 * floor
    assert times[1:] == sorted(times[1:])
    assert losses == sorted(losses, reverse=True)
