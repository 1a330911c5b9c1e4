"""Compression to levels: cases by hand, and every cut of small orders."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.policies.crux.levels import compressed, cut, kept


def graph(n: int, edges: dict[tuple[int, int], float]) -> np.ndarray:  # type: ignore[type-arg]
    weight = np.zeros((n, n))
    for (a, b), value in edges.items():
        weight[a, b] = value
    return weight


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def best(weight: np.ndarray, levels: int) -> float:  # type: ignore[type-arg]
    """The most over all levels of all jobs under which no edge leads upwards."""
    n = len(weight)
    valid = (
        level
        for level in product(range(levels), repeat=n)
        if all(level[a] <= level[b] for a in range(n) for b in range(n) if weight[a, b] > 0.0)
    )
    return max(kept(weight, level) for level in valid)


def test_two_pairs_share_two_levels() -> None:
    """1 -> 2 and 3 -> 4: {1, 3}, {2, 4} cuts both edges; the order 1, 2, 3, 4 cuts only one of them."""
    weight = graph(4, {(0, 1): 7.0, (2, 3): 5.0})
    assert cut(weight, 2)[0] == 7.0
    level = compressed(weight, 2, rng())
    assert level[0] == level[2] == 0
    assert level[1] == level[3] == 1
    assert kept(weight, level) == 12.0


def test_chain() -> None:
    """I = 4, 3, 2: K = 2, 3, 4 keep 4, 7 and 9. {1, 3}, {2, 4} would keep 6, but 2 -> 3 would lead upwards."""
    weight = graph(4, {(0, 1): 4.0, (1, 2): 3.0, (2, 3): 2.0})
    assert [cut(weight, k)[0] for k in (1, 2, 3, 4)] == [0.0, 4.0, 7.0, 9.0]
    assert [kept(weight, compressed(weight, k, rng())) for k in (2, 3, 4)] == [4.0, 7.0, 9.0]


def test_five_jobs() -> None:
    """1 -> 2 5, 1 -> 5 5, 2 -> 3 4, 2 -> 4 4, 5 -> 4 1: {1}, {2, 5}, {3, 4} keeps all 19; two levels keep 13."""
    weight = graph(5, {(0, 1): 5.0, (0, 4): 5.0, (1, 2): 4.0, (1, 3): 4.0, (4, 3): 1.0})
    assert kept(weight, compressed(weight, 3, rng())) == 19.0
    assert kept(weight, compressed(weight, 2, rng())) == best(weight, 2) == 13.0


@st.composite
def graphs(draw: st.DrawFn) -> np.ndarray:  # type: ignore[type-arg]
    n = draw(st.integers(1, 6))
    intensity = draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    return graph(n, {(a, b): intensity[a] for a in range(n) for b in range(a + 1, n) if draw(st.booleans())})


@given(graphs(), st.integers(1, 4))
def test_no_edge_leads_upwards_and_nothing_beats_enumeration(weight: np.ndarray, levels: int) -> None:  # type: ignore[type-arg]
    level = compressed(weight, levels, rng())
    assert set(level) <= set(range(max(levels, len(weight))))
    for a, b in zip(*np.nonzero(weight), strict=True):
        assert level[a] <= level[b]
    if len(weight) > levels:
        assert set(level) <= set(range(levels))
        assert kept(weight, level) <= best(weight, levels)


@given(graphs(), st.integers(1, 4))
def test_cuts_of_one_order_are_the_best(weight: np.ndarray, levels: int) -> None:  # type: ignore[type-arg]
    n = len(weight)
    ways = (level for level in product(range(levels), repeat=n) if list(level) == sorted(level))
    value, cuts = cut(weight, levels)
    assert value == max(kept(weight, level) for level in ways)
    assert value == pytest.approx(kept(weight, [sum(i >= c for c in cuts) for i in range(n)]))


@given(graphs())
def test_enough_levels_lose_nothing(weight: np.ndarray) -> None:  # type: ignore[type-arg]
    assert kept(weight, compressed(weight, len(weight), rng())) == weight.sum()
