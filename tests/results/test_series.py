from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.results.run import SPANS, RunResult
from weft.results.series import Steps, busy_gpus, cluster_rows, extent_s, link_grid, occupancy, thin, waiting_jobs


def value_at(steps: Steps, time: float) -> float:
    i = int(np.searchsorted(steps.time_s, time, side="right")) - 1
    return 0.0 if i < 0 else float(steps.value[i])


def test_waiting_and_busy_against_counting(run: RunResult) -> None:
    waiting, busy = waiting_jobs(run), busy_gpus(run)
    begin, end = extent_s(run)
    for time in np.random.default_rng(3).uniform(begin, end, 50):
        held: set[int] = set()
        for start, stop, gpus in run.spans.select("start_s", "end_s", "gpus").iter_rows():
            if start <= time < stop:
                held |= set(gpus)
        there = run.jobs.filter((pl.col("submit_s") <= time) & (pl.col("finish_s") > time)).height
        running = run.spans.filter((pl.col("start_s") <= time) & (pl.col("end_s") > time)).height
        assert value_at(busy, time) == len(held) <= run.n_gpus
        assert value_at(waiting, time) == there - running >= 0
    assert busy.value[-1] == waiting.value[-1] == 0


def test_a_gpu_that_two_jobs_share_is_busy_once(run: RunResult) -> None:
    spans = pl.DataFrame(
        [("a", 0.0, 10.0, [0, 1], ""), ("b", 5.0, 20.0, [1], ""), ("c", 10.0, None, [0], "")], SPANS, orient="row"
    )
    shared = replace(run, spans=spans, jobs=run.jobs.clear(), n_gpus=2)
    busy = busy_gpus(shared)
    assert [value_at(busy, t) for t in (1.0, 7.0, 12.0)] == [2.0, 2.0, 2.0]
    assert occupancy(shared, np.array([0, 1]), 4) == pytest.approx(np.ones((2, 4)))


drawn_spans = st.tuples(st.floats(0, 100), st.floats(0.01, 50), st.sets(st.integers(0, 5), min_size=1))


@given(st.lists(drawn_spans, min_size=1, max_size=12), st.integers(1, 9))
def test_occupancy_holds_every_gpu_second(spans: list[tuple[float, float, set[int]]], bins: int) -> None:
    # sum over bins of fraction x GPUs x width = integral of busy GPUs
    rows = [(f"j{i}", start, start + length, sorted(gpus), "") for i, (start, length, gpus) in enumerate(spans)]
    empty = pl.DataFrame(schema={"submit_s": pl.Float64, "finish_s": pl.Float64})
    frame = pl.DataFrame(rows, SPANS, orient="row")
    run = RunResult("s", "x", 0, empty, empty, empty, empty, frame, 6, 0, True, 0.0)
    begin, end = extent_s(run)
    fraction = occupancy(run, np.array([0, 0, 0, 1, 1, 1]), bins)
    steps = busy_gpus(run)
    integral = float(np.dot(steps.value[:-1], np.diff(steps.time_s)))
    assert fraction.sum() * 3 * (end - begin) / bins == pytest.approx(integral, rel=1e-9)


def test_rows_of_large_clusters(run: RunResult) -> None:
    assert cluster_rows(run, 64)[1] == "GPU"
    rows, name = cluster_rows(run, 16)
    assert (name, rows.tolist()) == ("server", [g // 4 for g in range(32)])
    assert cluster_rows(run, 4)[1] == "group of 2 servers"
    rows, name = cluster_rows(replace(run, server_of_gpu=()), 10)
    assert name == "group of 4 GPUs"
    assert rows.max() == 7


@given(st.lists(st.integers(0, 50), min_size=3, max_size=400), st.integers(10, 60))
def test_thinning_keeps_extremes_and_ends(values: list[int], most: int) -> None:
    steps = Steps(np.arange(len(values), dtype=float), np.array(values, dtype=float))
    drawn = thin(steps, most)
    assert len(drawn.time_s) <= max(len(values), 2 * (most // 2) + 1)
    assert len(drawn.time_s) <= len(values) or len(values) > most
    assert (drawn.value.min(), drawn.value.max()) == (steps.value.min(), steps.value.max())
    assert (drawn.time_s[0], drawn.time_s[-1]) == (steps.time_s[0], steps.time_s[-1])
    assert np.all(np.diff(drawn.time_s) >= 0)


def test_link_grid_conserves_bytes(run: RunResult) -> None:
    grid = link_grid(run, most=5, bins=37)  # a grid that does not line up with the recorded bins
    assert grid is not None
    assert len(grid.names) == 5
    links = {name: (speed, size) for name, speed, size in run.links.select("name", "bytes_per_s", "bytes").iter_rows()}
    width = grid.edges_s[1] - grid.edges_s[0]
    begin = grid.edges_s[0]
    for name, row in zip(grid.names, grid.utilisation, strict=True):
        speed, size = links[name]
        assert row.sum() * width * speed <= size * (1 + 1e-9)
        if begin <= run.link_series["start_s"].min():  # type: ignore[operator]
            assert row.sum() * width * speed == pytest.approx(size, rel=1e-9)
    assert grid.utilisation.max() <= 1 + 1e-9
    assert link_grid(replace(run, link_series=run.link_series.clear()), 5, 10) is None


def test_empty_runs_have_empty_series(empty_run: RunResult) -> None:
    assert extent_s(empty_run) == (0.0, 0.0)
    assert waiting_jobs(empty_run).value.tolist() == busy_gpus(empty_run).value.tolist() == [0.0]
    assert occupancy(empty_run, np.arange(8), 3).tolist() == [[0.0] * 3] * 8
