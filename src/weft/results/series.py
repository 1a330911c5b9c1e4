"""Time series of a run, as arrays: waiting jobs, busy GPUs, occupancy and link load. Plots and timeline draw them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from weft.results.run import RunResult

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """A step function: value[i] holds from time_s[i] until time_s[i + 1]."""

    time_s: Floats
    value: Floats


@dataclass(frozen=True)
class LinkGrid:
    """Utilisation of some links, busiest first (rows), in equal time bins (columns)."""

    names: tuple[str, ...]
    edges_s: Floats
    utilisation: Floats


def extent_s(run: RunResult) -> tuple[float, float]:
    """First and last instant that anything happened at."""
    times = [run.jobs["submit_s"], run.jobs["finish_s"], run.spans["start_s"], run.spans["end_s"]]
    known = [t for column in times for t in (column.min(), column.max()) if isinstance(t, float)]
    return (min(known), max(known)) if known else (0.0, 0.0)


def spans_until(run: RunResult) -> pl.DataFrame:
    """The run's spans; one that never ended lasts until the run's last instant."""
    return run.spans.with_columns(pl.col("end_s").fill_null(extent_s(run)[1]))


def waiting_jobs(run: RunResult) -> Steps:
    """Jobs submitted and not finished that hold no GPUs."""
    spans = spans_until(run)
    submitted = run.jobs["submit_s"].drop_nulls().to_numpy()
    finished = run.jobs["finish_s"].drop_nulls().to_numpy()
    start, end = spans["start_s"].to_numpy(), spans["end_s"].to_numpy()
    times = np.concatenate([submitted, finished, start, end])
    signs = np.repeat([1.0, -1.0, -1.0, 1.0], [len(submitted), len(finished), len(start), len(end)])
    return _steps(times, signs)


def busy_gpus(run: RunResult) -> Steps:
    """GPUs that at least one job holds."""
    held = _held(run)
    n = held.height
    times = np.concatenate([held["start_s"].to_numpy(), held["end_s"].to_numpy()])
    return _steps(times, np.repeat([1.0, -1.0], [n, n]))


def cluster_rows(run: RunResult, most: int) -> tuple[Ints, str]:
    """The row of a picture that each GPU belongs to, in at most `most` rows, and what a row is called."""
    gpus = np.arange(run.n_gpus, dtype=np.int64)
    if run.n_gpus <= most:
        return gpus, "GPU"
    if len(run.server_of_gpu) == run.n_gpus:
        servers = np.array(run.server_of_gpu, dtype=np.int64)
        n = int(servers.max()) + 1
        if n <= most:
            return servers, "server"
        per_row = -(-n // most)
        return servers // per_row, f"group of {per_row} servers"
    per_row = -(-run.n_gpus // most)
    return gpus // per_row, f"group of {per_row} GPUs"


def occupancy(run: RunResult, row_of_gpu: Ints, bins: int) -> Floats:
    """Fraction of each row's GPU time that was held, per equal time bin: exact, not sampled.

    A GPU that is held from s to e adds the ramp (t - s)+ - (t - e)+ to its row's held seconds. A ramp that starts in
    bin b at fraction f of it adds 1 - f there and 1 in every later bin; so two bincounts and one cumulative sum do.
    """
    begin, end = extent_s(run)
    n_rows = int(row_of_gpu.max()) + 1 if len(row_of_gpu) else 0
    if end <= begin or n_rows == 0:
        return np.zeros((n_rows, bins))
    held = _held(run)
    row = row_of_gpu[held["gpu"].to_numpy()]
    width = (end - begin) / bins
    first, later = np.zeros(n_rows * (bins + 2)), np.zeros(n_rows * (bins + 2))
    for column, sign in (("start_s", 1.0), ("end_s", -1.0)):
        at = np.clip((held[column].to_numpy() - begin) / width, 0.0, bins)
        bin_ = np.floor(at).astype(np.int64)
        cell = row * (bins + 2) + bin_
        first += sign * np.bincount(cell, 1.0 - (at - bin_), len(first))
        later += sign * np.bincount(cell + 1, minlength=len(later))
    held_bins = first.reshape(n_rows, -1) + np.cumsum(later.reshape(n_rows, -1), axis=1)
    per_row = np.bincount(row_of_gpu, minlength=n_rows)[:, None]
    fraction: Floats = np.clip(held_bins[:, :bins] / np.maximum(per_row, 1), 0.0, 1.0)
    return fraction


def link_grid(run: RunResult, most: int, bins: int) -> LinkGrid | None:
    """Utilisation over time of the busiest links, or None if the run did not record it."""
    if run.link_series.is_empty():
        return None
    begin, end = extent_s(run)
    last = run.link_series["end_s"].max()
    end = max(end, last) if isinstance(last, float) else end
    if end <= begin:
        return None
    edges = np.linspace(begin, end, bins + 1)
    busiest = run.links.sort(["utilisation", "link"], descending=[True, False]).head(most)
    series = run.link_series.filter(pl.col("link").is_in(busiest["link"].to_list())).sort(["link", "start_s"])
    parts = {int(part["link"][0]): part for part in series.partition_by("link")}
    rows, names = [], []
    for link, name, speed in busiest.select("link", "name", "bytes_per_s").iter_rows():
        if link in parts and speed > 0:
            rows.append(np.diff(_carried(parts[link], edges)) / (speed * (edges[1] - edges[0])))
            names.append(str(name))
    return LinkGrid(tuple(names), edges, np.array(rows)) if rows else None


def thin(steps: Steps, most: int) -> Steps:
    """The same picture in about `most` points: only the lowest and the highest value of each time bin are kept."""
    n = len(steps.time_s)
    if n <= most or steps.time_s[-1] <= steps.time_s[0]:
        return steps
    bins = most // 2
    span = steps.time_s[-1] - steps.time_s[0]
    bin_ = np.minimum(((steps.time_s - steps.time_s[0]) / span * bins).astype(np.int64), bins - 1)
    starts = np.flatnonzero(np.diff(bin_, prepend=-1))
    low, high = np.minimum.reduceat(steps.value, starts), np.maximum.reduceat(steps.value, starts)
    begin, end = steps.time_s[starts], np.append(steps.time_s[starts[1:]], steps.time_s[-1])
    time = np.column_stack([begin, (begin + end) / 2]).ravel()
    return Steps(np.append(time, steps.time_s[-1]), np.append(np.column_stack([high, low]).ravel(), steps.value[-1]))


def _steps(times: Floats, changes: Floats) -> Steps:
    if len(times) == 0:
        return Steps(np.zeros(1), np.zeros(1))
    at, where = np.unique(times, return_inverse=True)
    return Steps(at, np.cumsum(np.bincount(where, changes, len(at))))


def _held(run: RunResult) -> pl.DataFrame:
    """Disjoint intervals in which each GPU is held by somebody: columns gpu, start_s, end_s."""
    each = spans_until(run).select(pl.col("gpus").alias("gpu"), "start_s", "end_s").explode("gpu").drop_nulls()
    return joined(each, "gpu")


def joined(intervals: pl.DataFrame, key: str) -> pl.DataFrame:
    """Disjoint intervals (start_s, end_s) that cover the same time for each value of a key column."""
    reached = pl.col("end_s").cum_max().shift(1).over(key)
    fresh = (pl.col("start_s") > reached).fill_null(True)
    return (
        intervals.sort([key, "start_s"])
        .with_columns(fresh.cast(pl.Int64).cum_sum().alias("part"))
        .group_by([key, "part"], maintain_order=True)
        .agg(pl.col("start_s").min(), pl.col("end_s").max())
    )


def _carried(series: pl.DataFrame, at_s: Floats) -> Floats:
    """Bytes that a link has carried up to each time, linear inside a recorded bin and constant between bins."""
    size = np.cumsum(series["bytes"].to_numpy())
    time = np.column_stack([series["start_s"].to_numpy(), series["end_s"].to_numpy()]).ravel()
    before = np.concatenate([[0.0], size[:-1]])
    carried: Floats = np.interp(at_s, time, np.column_stack([before, size]).ravel())
    return carried
