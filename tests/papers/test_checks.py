"""Claims are judged by what was measured, and can be checked one by one."""

from __future__ import annotations

import pytest

from weft.errors import InputError
from weft.papers import reproduce
from weft.papers.checks import on_that_side, order, value_inside
from weft.papers.claims import Measured, Request, Runs


@pytest.mark.parametrize(
    ("low", "high", "holds"), [(1.0, 3.0, True), (2.0, 3.0, True), (2.1, 3.0, False), (None, None, False)]
)
def test_a_value_holds_inside_the_interval(low: float | None, high: float | None, holds: bool) -> None:
    assert value_inside(2.0, Measured(2.5, (low, high))) is holds


@pytest.mark.parametrize(
    ("published", "low", "high", "holds"),
    [(20.0, 1.0, 9.0, True), (20.0, -1.0, 9.0, False), (-5.0, -9.0, -1.0, True), (-5.0, -9.0, 1.0, False)],
)
def test_a_difference_holds_on_the_published_side(published: float, low: float, high: float, holds: bool) -> None:
    assert on_that_side(0.0)(published, Measured((low + high) / 2, (low, high))) is holds


def test_without_an_interval_the_value_decides() -> None:
    assert on_that_side(1.0)(1.5, Measured(1.1))
    assert not on_that_side(1.0)(1.5, Measured(0.9))
    assert not on_that_side(1.0)(1.5, Measured(None))


class Means(Runs):
    """Runs of which only the means are known."""

    def __init__(self, means: dict[str, float]) -> None:
        self.means = means

    def metric(self, stack: str, metric: str, factor: float = 1.0) -> Measured:
        return Measured(self.means[stack])


@pytest.mark.parametrize(("means", "pairs"), [((1.0, 2.0, 3.0), 3), ((2.0, 1.0, 3.0), 2), ((3.0, 2.0, 1.0), 0)])
def test_an_order_holds_if_all_pairs_are_in_it(means: tuple[float, ...], pairs: int) -> None:
    check = order("a < b < c", "abc")
    measured = check.measure(Means(dict(zip("abc", means, strict=True))))
    assert measured.value == pairs
    assert check.holds(check.published, measured) is (pairs == 3)


class Values(Runs):
    """Runs of which one metric is known at each seed."""

    def __init__(self, found: dict[str, list[float | None]]) -> None:
        self.found = found

    def values(self, stack: str, metric: str) -> list[float | None]:
        return self.found[stack]


def test_no_ratio_is_below_zero_but_a_saving_may_be() -> None:
    runs = Values({"a": [1.0, 6.0], "b": [10.0, 2.0]})  # ratios 0.1 and 3: far apart, so wide an interval
    mean, (low, high) = (ratio := runs.ratio("a", "b", "jct_mean_s")).value, ratio.ci95
    assert mean == pytest.approx(1.55)
    assert low == 0.0
    assert high == pytest.approx(1.55 + 12.7062 * 1.45)
    assert runs.metric("a", "jct_mean_s").ci95[0] == 0.0
    saved = runs.ratio("a", "b", "jct_mean_s", lambda r: 100.0 * (1.0 - r))
    assert saved.value == pytest.approx(-55.0)
    assert saved.ci95[0] == pytest.approx(100.0 * (1.0 - high))


def test_unknown_names_are_refused_with_a_hint() -> None:
    with pytest.raises(InputError, match="there is no paper adasrsf; did you mean ada-srsf"):
        reproduce("adasrsf", Request())
    with pytest.raises(InputError, match=r"there is no claim table-iv.ff.jct; did you mean table-iv.ff.jct-"):
        reproduce("ada-srsf", Request(claims=("table-iv.ff.jct",)))


def test_how_many_seeds() -> None:
    assert Request().numbers(10, 5) == list(range(10))
    assert Request(quick=True, seed=3).numbers(10, 2) == [3, 4]
    assert Request(quick=True, seeds=1).numbers(10, 5) == [0]
