from dataclasses import replace

import pytest

from weft.errors import InputError
from weft_evidence import reproduce
from weft_evidence.checks import (
    Check,
    bounded,
    chosen,
    compared,
    equal,
    graded,
    judge,
    nearly,
    on_that_side,
    order,
    place_of,
    some_effect,
)
from weft_evidence.claims import Measured, Metric, Reproduction, Request, Runs, Verdict
from weft_evidence.report import render


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (2.5, 2.0, 3.0, "reproduced"),  # in the interval, which is as wide as half of the number
        (2.5, 1.9, 3.1, "not judged"),
        (2.5, 1.4, 3.6, "not judged"),  # an interval that is wider than that would hold nearly anything
        (2.0, -50.0, 54.0, "not judged"),  # be its middle where it may
        (2.5, 2.4, 2.6, "no"),  # outside, and more than a tenth of the mean away
        (2.1, 2.05, 2.15, "reproduced"),  # outside, but within a tenth of the mean
        (2.1, None, None, "reproduced"),
        (2.5, None, None, "no"),
        (None, None, None, "no"),
    ],
)
def test_a_number_is_reproduced_in_the_interval_or_within_a_tenth(
    value: float | None, low: float | None, high: float | None, verdict: Verdict
) -> None:
    assert nearly(2.0, Measured(value, (low, high))) == verdict


@pytest.mark.parametrize(
    ("published", "low", "high", "verdict"),
    [
        (20.0, 1.0, 9.0, "direction"),
        (20.0, 11.0, 29.0, "reproduced"),
        (20.0, 1.0, 29.0, "direction"),  # wider than the published effect: there is one, but its size is open
        (20.0, -1.0, 9.0, "no"),
        (20.0, -1.0, 29.0, "not judged"),  # the interval holds what was published, and no effect as well
        (-5.0, -99.0, -10.0, "direction"),
        (-5.0, -7.0, -3.0, "reproduced"),
        (-5.0, -4.0, 1.0, "no"),
        (-5.0, 1.0, 9.0, "no"),
    ],
)
def test_an_effect_is_on_the_published_side_of_none(
    published: float, low: float, high: float, verdict: Verdict
) -> None:
    assert on_that_side(0.0)(published, Measured((low + high) / 2, (low, high))) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(65.0, 73.0, "direction"), (80.0, 90.0, "direction"), (-5.0, 90.0, "not judged"), (-5.0, 40.0, "no")],
)
def test_a_published_bound_is_a_direction_at_best(low: float, high: float, verdict: Verdict) -> None:
    """The paper says "up to 69 %": there is no size for 4 racks or for 8 that could be reproduced."""
    assert bounded(0.0)(69.0, Measured((low + high) / 2, (low, high))) == verdict


def test_without_an_interval_the_value_decides() -> None:
    """Where nothing is left to chance."""
    assert on_that_side(1.0)(1.5, Measured(1.1)) == "direction"
    assert on_that_side(1.0)(1.5, Measured(1.45)) == "reproduced"
    assert on_that_side(1.0)(1.5, Measured(0.9)) == "no"
    assert on_that_side(1.0)(1.5, Measured(None)) == "no"


def test_an_effect_without_a_number_is_a_direction_at_best() -> None:
    assert some_effect(0.0)(0.0, Measured(3.0, (1.0, 5.0))) == "direction"
    assert some_effect(0.0)(0.0, Measured(3.0, (-1.0, 7.0))) == "no"
    assert some_effect(1.0, more=False)(1.0, Measured(0.5)) == "direction"


@pytest.mark.parametrize(
    ("seeds", "verdict"), [(1, "not judged"), (2, "not judged"), (3, "direction"), (0, "direction")]
)
def test_fewer_than_three_seeds_prove_nothing(seeds: int, verdict: Verdict) -> None:
    """A ratio of 1.0006 from one seed is no sign of a published 1.6. No seeds: nothing is left to chance."""
    check = Check("what", 1.6, "x", ("a",), lambda runs: Measured(1.0006), on_that_side(1.0))
    claim = judge("name", check, Measured(1.0006), "", "", range(seeds))
    assert claim.verdict == verdict
    assert claim.holds is (verdict == "direction")
    assert claim.to_dict()["verdict"] == verdict


def test_what_a_claim_itself_calls_a_direction() -> None:
    assert graded(lambda published, measured: True)(5.0, Measured(1.0)) == "direction"


def test_counts_are_shown() -> None:
    check = Check("what", 1.0, "", (), lambda runs: Measured(1.0), equal, seeded=False, released=(2.0, 3.0))
    found = [judge("a", check, Measured(value), "", "", []) for value in (1.0, 2.0)]
    result = Reproduction("ada-srsf", tuple(found))
    assert result.counts == "1 of 2 claims hold: 1 reproduced, 0 direction, 1 no, 0 not judged"
    assert result.to_dict()["verdicts"] == {"reproduced": 1, "direction": 0, "no": 1, "not judged": 0}
    assert result.to_dict()["claims"][0]["released"] == {"as_released": 2.0, "repaired": 3.0}
    assert result.counts in render(result)
    assert "2; 3" in render(result)


class Values(Runs):
    """Runs of which one metric is known at each seed."""

    def __init__(self, found: dict[str, list[float | None]]) -> None:
        self.found = found

    def values(self, stack: str, metric: Metric) -> list[float | None]:
        return self.found[stack]


@pytest.mark.parametrize(
    ("last", "interval", "verdict"),
    [
        ([9.0, 9.5, 9.2], (3.0, 3.0), "reproduced"),  # all three pairs are in order beyond chance
        ([2.0, 9.0, 2.5], (1.0, 3.0), "not judged"),  # c is behind a and b in the mean, which may be chance
        ([0.1, 0.2, 0.3], (1.0, 1.0), "no"),  # c is before both beyond chance
    ],
)
def test_an_order_holds_if_all_pairs_are_in_it_beyond_chance(
    last: list[float | None], interval: tuple[float, float], verdict: Verdict
) -> None:
    check = order("a < b < c", "abc")
    measured = check.measure(Values({"a": [1.0, 2.0, 1.5], "b": [2.0, 3.1, 2.4], "c": last}))
    assert measured.ci95 == interval
    assert measured.value == (1.0 if verdict == "no" else 3.0)
    assert check.rule(check.published, measured) == verdict


def test_differences_are_paired_by_seed() -> None:
    """Each seed has 9 to 11 % more with b, though the seeds differ by far more than that."""
    a, b = [10.0, 500.0, 90.0], [11.0, 545.0, 99.9]
    mean = -2 * (1 / 21 + 45 / 1045 + 9.9 / 189.9) / 3
    assert compared(a, b) == (pytest.approx(mean), -1)
    assert compared(b, a) == (pytest.approx(-mean), 1)
    assert compared(a, [11.0, 400.0, 99.9])[1] == 0
    assert compared([1.0], [3.0]) == (-1.0, 0)  # one seed has no interval
    assert compared([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]) == (0.0, 0)


def test_a_place_is_known_as_far_as_the_intervals_say() -> None:
    mine = [5.0, 6.0, 5.5]
    better, worse, either = [1.0, 1.1, 1.2], [9.0, 9.1, 9.2], [4.0, 8.0, 4.0]
    assert place_of(mine, [better, worse]) == Measured(2.0, (2.0, 2.0))
    assert place_of(mine, [better, worse, either]) == Measured(3.0, (2.0, 3.0))
    assert place_of(mine, [better, worse], most_first=True) == Measured(2.0, (2.0, 2.0))
    assert place_of(mine, [better, better], most_first=True) == Measured(1.0, (1.0, 1.0))
    assert equal(2.0, place_of(mine, [better, worse])) == "reproduced"
    assert equal(1.0, place_of(mine, [better, worse])) == "no"
    assert equal(3.0, place_of(mine, [better, worse, either])) == "not judged"


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


def test_a_quick_run_names_what_it_leaves_out() -> None:
    """A group of claims by what its names begin with only if none of it is run. Of a group that is partly run up to
    four names are shown, else how many they are; three names or fewer in all are shown as they are."""

    def left_out(slow: str, fast: str) -> list[str]:
        check = Check("", 1.0, "", (), lambda runs: Measured(1.0), nearly)
        checks = {name: replace(check, slow=True) for name in slow.split()} | dict.fromkeys(fast.split(), check)
        names, notes = chosen(Request(quick=True), checks)
        assert names == fast.split()
        return notes

    assert left_out("a.1 b.1 b.2 a.3", "a.2 c.1") == ["quick: without a.1, a.3, b.*."]
    assert left_out("a.1 a.2 a.3 a.4 a.5 b.1", "a.6") == ["quick: without 5 of 6 of a.*, b.*."]
    assert left_out("b.1 b.2 a.3", "a.2") == ["quick: without b.1, b.2, a.3."]
    assert left_out("", "a.1") == []


def test_how_many_seeds() -> None:
    assert Request().numbers(10, 5) == list(range(10))
    assert Request(quick=True, seed=3).numbers(10, 2) == [3, 4]
    assert Request(quick=True, seeds=1).numbers(10, 5) == [0]
