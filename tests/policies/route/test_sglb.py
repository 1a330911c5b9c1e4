"""sglb: the less loaded half of the paths, and who is hashed anew."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.policies.route.sights import fabric, job, numbers, sight
from weft.policies.route.sglb import Sglb, eligible


def test_the_half_with_the_lowest_scores() -> None:
    """Scores 3, 0, 1, 5: paths 1 and 2."""
    assert eligible(np.array([3.0, 0.0, 1.0, 5.0])) == [1, 2]
    assert eligible(np.array([1.0, 1.0, 1.0])) == [0]
    assert eligible(np.array([2.0])) == [0]


def test_a_flow_avoids_the_loaded_half() -> None:
    """Three flows of one pair of racks are on path 0, two on path 2: the next one goes to path 1 or 3."""
    old = [job("a", [(0, 4)] * 3), job("b", [(1, 5)] * 2)]
    routes = {"a": (((0, 1.0),),) * 3, "b": (((2, 1.0),),) * 2}
    for name in "cdefgh":
        view = sight(fabric(), [*old, job(name, [(2, 6)])], routes)
        assert numbers(Sglb().route(view, {}).routes[name])[0] in (1, 3)


def test_a_flow_stays_while_its_path_is_eligible_and_does_not_count_itself() -> None:
    """Alone on path 1 or 3 of four it counts 0 like the others: paths 0 and 1 are eligible, so a flow on 3 leaves."""
    for at, stays in ((0, True), (1, True), (3, False)):
        view = sight(fabric(), [job("a", [(0, 4)])], {"a": (((at, 1.0),),)})
        found = numbers(Sglb().route(view, {}).routes["a"])[0]
        assert (found == at) is stays
        assert found in (0, 1)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=16))
def test_nobody_outside_has_a_lower_score(scores: list[int]) -> None:
    chosen = eligible(np.array(scores, float))
    assert len(chosen) == len(scores) // 2
    assert max(scores[i] for i in chosen) <= min(scores[i] for i in range(len(scores)) if i not in chosen)
