import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.results.metrics import distribution, run_length_quantiles, summary
from weft.results.run import ITERATIONS, RunResult

KEYS = [
    "scenario", "stack", "seed", "jobs", "finished", "makespan_s", "jct_s", "queueing_s", "comm_s", "iteration_s",
    "gpu_utilisation", "foreign_gbps", "preemptions", "iterations", "events", "exact", "wall_s",
]  # fmt: skip
SPREADS = ("jct_s", "queueing_s", "comm_s", "iteration_s")

runs_of_lengths = st.lists(
    st.tuples(st.floats(1e-6, 1e6, allow_nan=False), st.integers(1, 40)), min_size=1, max_size=25
)


def test_keys_are_those_of_the_command_in_order(run: RunResult) -> None:
    numbers = summary(run)
    assert list(numbers) == KEYS
    for name in SPREADS:
        assert list(numbers[name]) == ["mean", "median", "p95", "p99"]


def test_definitions_against_numpy(run: RunResult) -> None:
    numbers = summary(run)
    jobs = run.jobs
    jct = (jobs["finish_s"] - jobs["submit_s"]).to_numpy()
    assert numbers["jct_s"]["mean"] == pytest.approx(jct.mean(), rel=1e-12)
    assert numbers["jct_s"]["p95"] == pytest.approx(np.percentile(jct, 95), rel=1e-12)
    assert numbers["queueing_s"]["median"] == np.percentile(jobs["queueing_s"].to_numpy(), 50)
    makespan = jobs["finish_s"].max() - jobs["submit_s"].min()  # type: ignore[operator]
    assert numbers["makespan_s"] == makespan
    assert numbers["gpu_utilisation"] == pytest.approx(jobs["gpu_s"].sum() / (run.n_gpus * makespan), rel=1e-12)
    assert 0 < numbers["gpu_utilisation"] <= 1
    expanded = np.repeat(run.iterations["duration_s"].to_numpy(), run.iterations["count"].to_numpy().astype(int))
    assert numbers["iterations"] == len(expanded) == jobs["iterations"].sum()
    assert numbers["iteration_s"]["p99"] == np.percentile(expanded, 99)
    assert numbers["iteration_s"]["mean"] == pytest.approx(expanded.mean(), rel=1e-12)
    assert numbers["preemptions"] == (run.decisions["action"] == "stop").sum() > 0


@given(runs_of_lengths, st.sampled_from([0.0, 0.01, 0.5, 0.95, 0.99, 1.0]) | st.floats(0.0, 1.0))
def test_run_length_quantiles_equal_numpy_on_the_expanded_list_to_the_last_bit(
    lengths: list[tuple[float, int]], q: float
) -> None:
    values, counts = np.array([v for v, _ in lengths]), np.array([c for _, c in lengths])
    expected = np.quantile(np.repeat(values, counts), q, method="linear")
    assert run_length_quantiles(values, counts.astype(float), np.array([q]))[0] == expected


@given(runs_of_lengths)
def test_splitting_a_run_changes_nothing(lengths: list[tuple[float, int]]) -> None:
    values, counts = np.array([v for v, _ in lengths]), np.array([float(c) for _, c in lengths])
    split = distribution(np.concatenate([values, values]), np.concatenate([counts - 0.0, np.zeros(len(counts))]))
    halves = distribution(np.repeat(values, 2), np.column_stack([np.ceil(counts / 2), np.floor(counts / 2)]).ravel())
    whole = distribution(values, counts)
    for name in ("median", "p95", "p99"):
        assert whole[name] == split[name] == halves[name]
    assert whole["mean"] == pytest.approx(halves["mean"], rel=1e-12)


def test_counts_far_beyond_memory() -> None:
    # 10^12 fast iterations before 10^10 slow ones: the step is at 1 / 1.01 = 0.990099 of the list
    values, counts = np.array([2.0, 1.0]), np.array([1e10, 1e12])
    assert run_length_quantiles(values, counts, np.array([0.5, 0.99009, 0.9901, 1.0])).tolist() == [1, 1, 2, 2]


def test_nothing_finished_is_null_and_valid_json(stuck_run: RunResult, empty_run: RunResult) -> None:
    for run in (stuck_run, empty_run):
        numbers = json.loads(json.dumps(summary(run), allow_nan=False))
        assert numbers["finished"] == 0
        assert numbers["makespan_s"] is None
        assert numbers["gpu_utilisation"] is None
        assert all(value is None for name in SPREADS for value in numbers[name].values())
    assert summary(stuck_run)["jobs"] == 3
    assert summary(empty_run)["jobs"] == 0


def test_one_job_is_its_own_distribution(single_run: RunResult) -> None:
    numbers = summary(single_run)
    jct = single_run.jobs["jct_s"][0]
    assert numbers["jct_s"] == {"mean": jct, "median": jct, "p95": jct, "p99": jct}
    assert numbers["makespan_s"] == jct


def test_jobs_that_did_not_finish_count_only_as_jobs(run: RunResult) -> None:
    last = run.jobs.sort("finish_s")["job_id"][-1]
    undone = pl.when(pl.col("job_id") == last).then(None)
    jobs = run.jobs.with_columns(
        undone.otherwise(pl.col("finish_s")).alias("finish_s"), undone.otherwise(pl.col("jct_s")).alias("jct_s")
    )
    numbers = summary(replace(run, jobs=jobs))
    rest = run.jobs.filter(pl.col("job_id") != last)
    assert (numbers["jobs"], numbers["finished"]) == (run.jobs.height, run.jobs.height - 1)
    assert numbers["comm_s"]["mean"] == pytest.approx(rest["comm_s"].mean(), rel=1e-12)
    assert numbers["makespan_s"] == rest["finish_s"].max() - run.jobs["submit_s"].min()  # type: ignore[operator]


def test_infinite_and_missing_numbers_do_not_leak(run: RunResult) -> None:
    iterations = pl.DataFrame([("a", float("inf"), 1.0), ("b", 2.0, 3.0)], ITERATIONS, orient="row")
    numbers = summary(replace(run, wall_s=float("nan"), iterations=iterations))
    assert numbers["wall_s"] is None
    assert numbers["iteration_s"]["p99"] == 2.0
    json.dumps(numbers, allow_nan=False)
