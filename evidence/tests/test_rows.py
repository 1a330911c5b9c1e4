"""Claims written as rows, and how single claims are recorded."""

import json
from typing import Any

import pytest

from evidence.tests.test_checks import Values
from weft_evidence import claims_of
from weft_evidence.checks import Check
from weft_evidence.claims import Claim, Kind
from weft_evidence.record import merged
from weft_evidence.rows import _check

BOUND = "direction"  # at most
RUNS = Values(
    {
        "a@2": [10.0, 11.0, 12.0], "b@2": [20.0, 22.0, 24.0],
        "a@4": [10.0, 10.0, 10.0], "b@4": [40.0, 41.0, 42.0],
        "a@8": [10.0, 10.0, 10.0], "b@8": [39.0, 42.0, 41.0],
    }
)  # fmt: skip


def made(**row: Any) -> Check:
    return _check({"name": "x", "what": "x", "metric": "jct_mean_s", **row}, str)


@pytest.mark.parametrize(
    ("row", "value", "low", "high", "verdict"),
    [
        ({"mean_saving": ["a@{}", "b@{}"], "over": [2, 4], "published": 62.5}, 62.8, 62.06, 63.54, "reproduced"),
        ({"best_saving": ["a@{}", "b@{}"], "over": [2, 4], "bound": True, "published": 75.0}, 75.6, 74.1, 77.1, BOUND),
        ({"saving": ["b@2", "a@2"]}, -100.0, -100.0, -100.0, "no"),
        ({"times": ["b@2", "a@2"], "less_than": 3.0}, 2.0, 2.0, 2.0, "direction"),
        ({"rising": ["b@{}", "a@{}"], "over": [2, 4]}, 1.0, 1.0, 1.0, "reproduced"),
        ({"rising": ["b@{}"], "over": [2, 4, 8]}, 1.0, 1.0, 2.0, "not judged"),
        ({"pairs": ["a@{}", "b@{}"], "over": [2, 4]}, 2.0, 2.0, 2.0, "reproduced"),
        ({"pairs": [["a@2", "b@2"]], "most_first": True}, 0.0, 0.0, 0.0, "no"),
        ({"order": ["b@4", "b@2", "a@2"], "most_first": True}, 3.0, 3.0, 3.0, "reproduced"),
        ({"place": ["a@4", "a@2", "b@2"]}, 1.0, 1.0, 2.0, "not judged"),
    ],
)  # fmt: skip
def test_each_kind_of_row(row: dict[str, Any], value: float, low: float, high: float, verdict: str) -> None:
    check = made(**row)
    found = check.measure(RUNS)
    assert (found.value, *found.ci95) == pytest.approx((value, low, high), abs=0.1)
    assert check.rule(check.published, found) == verdict
    assert set(check.stacks) <= set(RUNS.found)


def test_a_row_without_a_number_is_a_direction_and_one_with_is_an_effect() -> None:
    assert made(saving=["a@2", "b@2"]).rule.kind is Kind.DIRECTION
    assert made(saving=["a@2", "b@2"], published=50.0).rule.kind is Kind.EFFECT
    assert made(saving=["a@2", "b@2"], published=50.0, bound=True).rule.kind is Kind.DIRECTION
    assert made(order=["a@2", "b@2"]).rule.kind is Kind.ORDER


def test_a_record_takes_its_place_and_leaves_others_as_they_are() -> None:
    first, second, third = list(claims_of("titan"))[:3]
    rows = [{"id": third, "measured": 3.0}, {"id": first, "measured": 1.0}, {"id": "gone", "measured": 0.0}]
    new = Claim(second, "", 5.0, 2.0, (1.0, 3.0), "%", "no", "", "", ())
    found = merged("titan", rows, [new])
    assert [row["id"] for row in found] == [first, second, third]
    assert found[1] == {
        "id": second, "published": 5.0, "measured": 2.0, "ci95": [1.0, 3.0], "unit": "%", "verdict": "no",
        "holds": False, "released": None,
    }  # fmt: skip
    assert json.dumps(found[0]) == json.dumps(rows[1])
