import json
import math
from typing import Any

import pytest

from weft.errors import InputError
from weft.results.compare import METRICS, compare, mean_and_interval
from weft.results.metrics import summary
from weft.results.run import RunResult


def fake(seed: int, jct: float | None, preemptions: int = 0) -> dict[str, Any]:
    spread = {"mean": jct, "median": jct, "p95": jct, "p99": jct}
    return {
        "scenario": "demo", "seed": seed, "makespan_s": jct, "jct_s": spread, "queueing_s": spread, "comm_s": spread,
        "iteration_s": spread, "gpu_utilisation": 0.5, "foreign_gbps": None, "preemptions": preemptions,
    }  # fmt: skip


def by_stack(comparison: dict[str, Any], stack: str) -> dict[str, Any]:
    return next(entry for entry in comparison["stacks"] if entry["stack"] == stack)


def test_interval_by_hand() -> None:
    # 1, 2, 3: mean 2, s = 1, t(0.975, 2) = 4.302653: half width 4.302653 / sqrt(3) = 2.484138
    result = mean_and_interval([1.0, 2.0, 3.0])
    assert result["mean"] == 2.0
    assert result["ci95"] == pytest.approx([2 - 2.484138, 2 + 2.484138], abs=1e-6)


def test_ratios_are_paired_by_seed_not_by_mean() -> None:
    # a: 100, 200; b: 50, 160. Ratios 0.5 and 0.8: mean 0.65 (the ratio of means is 0.7),
    # s = 0.3 / sqrt(2), t(0.975, 1) = 12.706205: half width 12.706205 x 0.3 / 2 = 1.905931
    result = compare({"a": [fake(1, 100.0), fake(2, 200.0)], "b": [fake(1, 50.0), fake(2, 160.0)]})
    ratio = by_stack(result, "b")["ratio_to_first"]["jct_mean_s"]
    assert ratio["mean"] == pytest.approx(0.65, rel=1e-12)
    assert ratio["ci95"] == pytest.approx([0.0, 0.65 + 1.905931], abs=1e-6)  # t would reach below 0, where no ratio is


def test_pairing_follows_the_seed_whatever_the_order() -> None:
    straight = compare({"a": [fake(1, 100.0), fake(2, 200.0)], "b": [fake(1, 50.0), fake(2, 160.0)]})
    crossed = compare({"a": [fake(1, 100.0), fake(2, 200.0)], "b": [fake(2, 160.0), fake(1, 50.0)]})
    assert straight == crossed


def test_pairing_removes_the_spread_that_seeds_share() -> None:
    # twice the time at every seed: the ratio is 2 without any doubt, though the means overlap widely
    base = [10.0, 100.0, 1000.0]
    result = compare({"a": [fake(i, v) for i, v in enumerate(base)], "b": [fake(i, 2 * v) for i, v in enumerate(base)]})
    assert by_stack(result, "b")["ratio_to_first"]["jct_mean_s"] == {"mean": 2.0, "ci95": [2.0, 2.0]}
    assert by_stack(result, "b")["metrics"]["jct_mean_s"]["ci95"] == [0.0, pytest.approx(3459.88, abs=0.01)]


def test_schema_on_real_runs(paired_runs: list[RunResult]) -> None:
    stacks = {s: [summary(r) for r in paired_runs if r.stack == s] for s in ("fifo", "srsf")}
    result = json.loads(json.dumps(compare(stacks), allow_nan=False))
    assert list(result) == ["scenario", "seeds", "intervals", "stacks"]
    assert result["seeds"] == [1, 2, 3]
    for entry in result["stacks"]:
        assert list(entry) == ["stack", "metrics", "ratio_to_first"]
        for part in (entry["metrics"], entry["ratio_to_first"]):
            assert list(part) == list(METRICS)
            assert all(list(value) == ["mean", "ci95"] and len(value["ci95"]) == 2 for value in part.values())
    first, second = result["stacks"]
    assert first["ratio_to_first"]["jct_mean_s"] == {"mean": 1.0, "ci95": [1.0, 1.0]}
    assert second["ratio_to_first"]["comm_mean_s"]["mean"] < 1.0  # its network is cheaper
    means = [s["jct_s"]["mean"] for s in stacks["srsf"]]
    assert second["metrics"]["jct_mean_s"]["mean"] == pytest.approx(math.fsum(means) / 3)


def test_one_seed_has_no_interval() -> None:
    result = compare({"a": [fake(7, 10.0)], "b": [fake(7, 5.0)]})
    assert by_stack(result, "b")["ratio_to_first"]["jct_mean_s"] == {"mean": 0.5, "ci95": [None, None]}
    assert by_stack(result, "a")["metrics"]["makespan_s"] == {"mean": 10.0, "ci95": [None, None]}


def test_undefined_and_zero_denominators_are_null() -> None:
    result = compare({"a": [fake(1, None, 0), fake(2, 4.0, 2)], "b": [fake(1, 3.0, 1), fake(2, 4.0, 0)]})
    undefined = {"mean": None, "ci95": [None, None]}
    assert by_stack(result, "a")["metrics"]["jct_mean_s"] == undefined
    assert by_stack(result, "b")["metrics"]["jct_mean_s"]["mean"] == 3.5
    assert by_stack(result, "b")["ratio_to_first"]["jct_mean_s"] == undefined  # no reference at seed 1
    assert by_stack(result, "b")["ratio_to_first"]["preemptions"] == undefined  # 1 / 0 at seed 1
    zero = compare({"a": [fake(1, 4.0, 2), fake(2, 4.0, 2)], "b": [fake(1, 3.0, 0), fake(2, 4.0, 0)]})
    assert by_stack(zero, "b")["ratio_to_first"]["preemptions"] == {"mean": 0.0, "ci95": [0.0, 0.0]}


@pytest.mark.parametrize(
    ("summaries", "words"),
    [
        ({}, "no runs to compare"),
        ({"a": []}, "no runs to compare"),
        ({"a": [fake(1, 1.0)], "b": [fake(2, 1.0)]}, r"stack b ran seeds \[2\], not \[1\]"),
        ({"a": [fake(1, 1.0), fake(1, 1.0)]}, "repeat"),
    ],
)
def test_runs_that_cannot_be_paired_are_refused(summaries: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        compare(summaries)
