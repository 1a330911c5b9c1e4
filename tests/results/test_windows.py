import numpy as np
import polars as pl
import pytest

from weft.results.compare import compare
from weft.results.windows import DAY_S, Windows, binned, window_intervals, windows_of


def jobs(submit_s: np.ndarray, jct_s: np.ndarray) -> pl.DataFrame:
    zero = np.zeros(len(submit_s))
    return pl.DataFrame(
        {"submit_s": submit_s, "jct_s": jct_s, "finish_s": submit_s + jct_s, "queueing_s": zero, "comm_s": zero,
         "preemptions": zero.astype(int)}
    )  # fmt: skip


def summary(seed: int, frame: pl.DataFrame) -> dict[str, object]:
    value = frame["jct_s"].mean()
    spread = {"mean": value, "median": value, "p95": value, "p99": value}
    return {
        "scenario": "t", "seed": seed, "makespan_s": 1.0, "jct_s": spread, "queueing_s": spread, "comm_s": spread,
        "iteration_s": spread, "gpu_utilisation": 0.5, "foreign_gbps": None, "preemptions": 0,
    }  # fmt: skip


def test_jobs_by_the_hour_of_their_submission() -> None:
    hour = 3600.0
    table = binned(jobs(np.array([0.0, 10.0, hour, 100 * hour]), np.array([1.0, 2.0, 4.0, 8.0])))
    assert table["bin_s"] == hour
    assert len(table["count"]) == 100  # the last job ends the last bin
    assert table["count"][:2] == [2, 1]
    assert table["sums"]["jct_s"][:2] == [3.0, 4.0]
    assert (table["count"][-1], table["sums"]["jct_s"][-1]) == (1, 8.0)


def test_a_window_is_a_day_or_twice_the_mean_completion_time() -> None:
    submit = np.arange(0, 10 * DAY_S + 1, 600.0)
    short = windows_of(binned(jobs(submit, np.full(len(submit), 60.0))))
    assert (short.length_s, short.count) == (DAY_S, 10)
    long = windows_of(binned(jobs(submit, np.full(len(submit), 1.5 * DAY_S))))
    assert (long.length_s, long.count) == (3 * DAY_S, 3)
    endless = windows_of(binned(jobs(submit, np.full(len(submit), 9 * DAY_S))))
    assert endless.count == 1
    hours = np.arange(0, DAY_S, 60.0)
    day = windows_of(binned(jobs(hours, np.full(len(hours), 60.0))))
    assert day.count == 16
    assert windows_of(binned(jobs(np.array([5.0]), np.array([1.0])))).count == 1


def test_replicates_are_runs_of_neighbouring_bins_and_as_long_as_the_trace() -> None:
    weights = Windows(3600.0, 48, 12).weights()
    assert np.all(weights.sum(axis=1) == 48)
    assert weights.min() == 0.0
    changes = np.count_nonzero(np.diff(weights, axis=1), axis=1)
    assert changes.max() <= 8  # four windows have eight ends; single bins drawn alone would have many more
    assert np.array_equal(weights, Windows(3600.0, 48, 12).weights())  # one result


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Independent jobs around a known mean: a 95 % interval holds it in about 95 of 100 traces."""
    rng = np.random.default_rng(1)
    submit = np.arange(0, 30 * DAY_S, 1800.0)
    held = 0
    for _ in range(100):
        table = binned(jobs(submit, rng.exponential(100.0, len(submit))))
        found = window_intervals({"a": [table]}, None, Windows(3600.0, len(table["count"]), 24))
        low, high = found["a"]["metrics"]["jct_mean_s"]
        assert low is not None
        assert high is not None
        held += low <= 100.0 <= high
    assert 86 <= held <= 100


def test_correlated_days_widen_the_interval() -> None:
    """Jobs of a bad day are all slow: as many jobs say less, and windows notice."""
    rng = np.random.default_rng(2)
    submit = np.arange(0, 30 * DAY_S, 1800.0)
    day = (submit // DAY_S).astype(int)
    values = rng.exponential(100.0, 30)[day]
    together, apart = (jobs(submit, v) for v in (values, rng.permutation(values)))

    def width(frame: pl.DataFrame) -> float:
        table = binned(frame)
        low, high = window_intervals({"a": [table]}, None, windows_of(table))["a"]["metrics"]["jct_mean_s"]
        assert low is not None
        assert high is not None
        return high - low

    assert width(together) > 3 * width(apart)


def test_ratios_are_paired() -> None:
    """Twice the time for every job is a ratio of 2 in every replicate, however much days differ."""
    rng = np.random.default_rng(3)
    submit = np.arange(0, 20 * DAY_S, 3600.0)
    frame = jobs(submit, rng.exponential(500.0, len(submit)))
    double = frame.with_columns(pl.col("jct_s") * 2.0)
    tables = {"a": [binned(frame)], "b": [binned(double)]}
    found = window_intervals(tables, {"a": [frame], "b": [double]}, windows_of(tables["a"][0]))
    for name in ("jct_mean_s", "jct_median_s", "jct_p95_s", "jct_p99_s"):
        assert found["b"]["ratio_to_first"][name] == pytest.approx([2.0, 2.0])
    assert found["a"]["ratio_to_first"]["preemptions"] == [None, None]  # 0 / 0


def test_seeds_that_change_nothing_do_not_look_like_certainty() -> None:
    rng = np.random.default_rng(4)
    submit = np.arange(0, 10 * DAY_S, 1800.0)
    frames = {
        "a": jobs(submit, rng.exponential(500.0, len(submit))),
        "b": jobs(submit, rng.exponential(400.0, len(submit))),
    }
    summaries = {name: [summary(seed, frame) for seed in (1, 2, 3)] for name, frame in frames.items()}
    over_seeds = compare(summaries)
    assert over_seeds["intervals"]["over"] == "seeds"
    low, high = over_seeds["stacks"][1]["ratio_to_first"]["jct_mean_s"]["ci95"]
    assert high - low < 1e-12  # what is not to be shown
    bins = {name: [binned(frame)] * 3 for name, frame in frames.items()}
    honest = compare(summaries, bins, {name: [frame] * 3 for name, frame in frames.items()})
    said = honest["intervals"]
    assert (said["over"], said["windows"], said["window_s"], said["seeds_differ"]) == ("windows", 10, DAY_S, False)
    assert said["note"] == "intervals over 10 windows of 24.0 h; the 3 seeds gave the same result"
    low, high = honest["stacks"][1]["ratio_to_first"]["jct_mean_s"]["ci95"]
    assert low < honest["stacks"][1]["ratio_to_first"]["jct_mean_s"]["mean"] < high
    assert high - low > 0.02
    assert honest["stacks"][1]["metrics"]["makespan_s"]["ci95"] == [None, None]


def test_one_window_has_no_interval_and_says_so() -> None:
    frame = jobs(np.array([0.0, 10.0, 20.0]), np.array([100.0, 50.0, 80.0]))
    found = compare({"a": [summary(1, frame), summary(2, frame)]}, {"a": [binned(frame)] * 2}, {"a": [frame] * 2})
    assert found["intervals"]["over"] is None
    assert found["intervals"]["note"].startswith("the recorded jobs are one window of 20.0 s, so there is no interval")
    assert found["stacks"][0]["metrics"]["jct_mean_s"]["ci95"] == [None, None]


def test_jobs_that_come_at_once_make_no_window() -> None:
    frame = jobs(np.zeros(3), np.array([100.0, 50.0, 80.0]))
    found = compare({"a": [summary(1, frame)]}, {"a": [binned(frame)]}, {"a": [frame]})
    assert found["intervals"]["over"] is None
    assert "at once" in found["intervals"]["note"]
    assert "window" not in found["intervals"]["note"]
