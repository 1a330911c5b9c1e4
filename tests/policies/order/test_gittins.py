import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.toys import moves, played
from weft.errors import StackError
from weft.model import Start, Stop
from weft.policies.order.gittins import HISTORY, Gittins, gittins_index
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_a_wrong_threshold_is_reported_under_its_own_name() -> None:
    with pytest.raises(StackError, match=r"^gittins:x: 'x' is not known"):
        Gittins.from_text("x")


def test_index_by_hand() -> None:
    """Services 2, 2, 10. From 0: d = 2 has P = 2/3 and E = (2 + 2 + 2)/3 = 2, so 1/3; d = 10 has P = 1 and
    E = 14/3, so 3/14. From 2 only the 10 is left: 1 / 8. From 10 nothing is."""
    history = [2.0, 2.0, 10.0]
    assert gittins_index(0.0, history) == pytest.approx(1 / 3)
    assert gittins_index(2.0, history) == pytest.approx(1 / 8)
    assert gittins_index(9.0, history) == pytest.approx(1.0)
    assert gittins_index(10.0, history) == 0.0
    assert gittins_index(3.0, history, end=9.0) == 0.0  # nobody finishes before it is ranked anew
    assert gittins_index(0.0, []) == 0.0


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=20), st.floats(0, 1e4), st.floats(1, 2e4))
def test_index_is_the_supremum(services: list[float], attained: float, end: float) -> None:
    """By its definition, over every d that ends at a service and many between them."""
    history = sorted(services)
    rest = [s - attained for s in history if s > attained]
    trials = [d for d in rest if d + attained <= end]
    trials += [(end - attained) * k / 50 for k in range(1, 51) if end > attained]

    def ratio(d: float) -> float:
        spent = sum(min(r, d) for r in rest)
        return sum(r <= d for r in rest) / spent if spent > 0 else 0.0

    expected = max(map(ratio, trials), default=0.0) if rest else 0.0
    assert gittins_index(attained, history, end) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_by_hand() -> None:
    """One server of 4 GPUs, thresholds of 12 and 1,000 GPU s.

    h1 gives way to h2 at 3 s (12 GPU s); h2 passes the threshold at 6 s and stays, until 53 s (200 GPU s); then h1,
    until 55 s (20). x gives way to y at 70 s with 40 GPU s, y to z at 74 s with 16; z ends at 76 s (8). Then x and y
    wait in the second queue. From 16, h1's 20 are 4 away and h2's 200 are 184: (1/2) / 4 beats 1 / 94, so y has 1/8.
    From 40 only h2's are left: x has 1/160. y goes first; by submission it would be x.
    """
    jobs = [
        toy_job("h1", 4, 5), toy_job("h2", 4, 50), toy_job("x", 4, 100, submit_s=60.0),
        toy_job("y", 4, 100, submit_s=70.0), toy_job("z", 4, 2, submit_s=74.0),
    ]  # fmt: skip
    first = [
        (0.0, Start, "h1"), (3.0, Stop, "h1"), (3.0, Start, "h2"), (53.0, Start, "h1"), (60.0, Start, "x"),
        (70.0, Stop, "x"), (70.0, Start, "y"), (74.0, Stop, "y"), (74.0, Start, "z"),
    ]  # fmt: skip
    for order, last in (("gittins:12/1000", "y"), ("las-queues:12/1000", "x")):
        core = played(ToyWorld(toy_cluster(1, 1, 4), jobs), "tiresias:gittins", order=order, until=90.0)
        assert moves(core) == [*first, (76.0, Start, last)]
        if order.startswith("gittins"):
            assert core.planner_state["order"]["services"] == [8.0, 20.0, 200.0]


def test_state_is_json_and_bounded() -> None:
    world = ToyWorld(toy_cluster(1, 1, 4), [toy_job(f"j{i:03d}", 1 + i % 4, 1 + i % 7) for i in range(60)])
    core = played(world, "tiresias:gittins")
    state = core.planner_state["order"]
    assert json.loads(json.dumps(state)) == state
    assert len(state["services"]) == len(state["recent"]) <= HISTORY
    assert state["services"] == sorted(state["recent"])
    assert math.isclose(sum(state["services"]), sum((1 + i % 4) * (1 + i % 7) for i in range(60)), rel_tol=0.05)
