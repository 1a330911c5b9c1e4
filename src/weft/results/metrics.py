"""The numbers of one run. Undefined numbers are None, never NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from weft.model.units import bytes_per_s_to_gbps

if TYPE_CHECKING:
    from weft.results.run import RunResult

Floats = npt.NDArray[np.float64]

STATISTICS = {"median": 0.5, "p95": 0.95, "p99": 0.99}  # beside the mean


def summary(run: RunResult) -> dict[str, Any]:
    """One run in numbers, with the keys of `weft simulate --json`.

    JCT, queueing and exposed communication are over finished jobs; iteration times pool every iteration of every job.
    Makespan is last finish - first submission; utilisation is GPU seconds computed (lost ones included) over GPUs x
    makespan. `foreign_gbps` is the goodput of all foreign traffic, null where there was none.
    """
    done = finished_jobs(run)
    makespan_s = _makespan_s(run)
    durations, counts = _iterations(run)
    return {
        "scenario": run.scenario,
        "stack": run.stack,
        "seed": run.seed,
        "jobs": run.jobs.height,
        "finished": done.height,
        "makespan_s": makespan_s,
        "jct_s": distribution(_numbers(done["jct_s"])),
        "queueing_s": distribution(_numbers(done["queueing_s"])),
        "comm_s": distribution(_numbers(done["comm_s"])),
        "iteration_s": distribution(durations, counts),
        "gpu_utilisation": _gpu_utilisation(run, makespan_s),
        "foreign_gbps": None if run.foreign_bytes_per_s is None else bytes_per_s_to_gbps(run.foreign_bytes_per_s),
        "preemptions": int(run.jobs["preemptions"].sum()),
        "iterations": round(float(counts.sum())),
        "events": int(run.events),
        "exact": bool(run.exact),
        "wall_s": _defined(run.wall_s),
    }


def finished_jobs(run: RunResult) -> pl.DataFrame:
    """Rows of the jobs that ran all their iterations."""
    return run.jobs.filter(pl.col("finish_s").is_not_null() & pl.col("finish_s").is_finite())


def distribution(values: Floats, counts: Floats | None = None) -> dict[str, float | None]:
    """Mean, median, p95 and p99 of values, the i-th of them taken counts[i] times (once if no counts are given)."""
    weights = np.ones(len(values)) if counts is None else counts
    total = float(weights.sum())
    if total <= 0.0:
        return {"mean": None, **dict.fromkeys(STATISTICS)}
    # math.fsum: the mean must not depend on how the runs were split
    mean = math.fsum((values * weights).tolist()) / total
    quantiles = run_length_quantiles(values, weights, np.array(list(STATISTICS.values())))
    return {"mean": _defined(mean), **{k: _defined(float(q)) for k, q in zip(STATISTICS, quantiles, strict=True)}}


def run_length_quantiles(values: Floats, counts: Floats, q: Floats) -> Floats:
    """Quantiles, by linear interpolation, of the list that holds values[i] counts[i] times, without expanding it.

    The list has N = sum(counts) entries; quantile q lies at index h = (N - 1) q, between entries floor(h) and
    floor(h) + 1. Entry k is the first sorted value whose cumulative count exceeds k. The interpolation is written as
    numpy writes it, so that the result is the same to the last bit.
    """
    order = np.argsort(values, kind="stable")
    ordered, ends = values[order], np.cumsum(counts[order])
    h = np.maximum(ends[-1] - 1.0, 0.0) * q
    below = np.floor(h)
    t = h - below
    last = len(ordered) - 1
    a = ordered[np.minimum(np.searchsorted(ends, below, side="right"), last)]
    b = ordered[np.minimum(np.searchsorted(ends, below + 1.0, side="right"), last)]
    result: Floats = np.where(t >= 0.5, b - (b - a) * (1.0 - t), a + (b - a) * t)
    return result


def _makespan_s(run: RunResult) -> float | None:
    last, first = run.jobs["finish_s"].max(), run.jobs["submit_s"].min()
    if not isinstance(last, float) or not isinstance(first, float):
        return None
    return _defined(last - first)


def _gpu_utilisation(run: RunResult, makespan_s: float | None) -> float | None:
    if not makespan_s or run.n_gpus <= 0:
        return None
    return _defined(float(run.jobs["gpu_s"].sum()) / (run.n_gpus * makespan_s))


def _iterations(run: RunResult) -> tuple[Floats, Floats]:
    durations = run.iterations["duration_s"].to_numpy().astype(np.float64)
    counts = run.iterations["count"].to_numpy().astype(np.float64)
    kept = np.isfinite(durations) & (counts > 0)
    return durations[kept], counts[kept]


def _numbers(column: pl.Series) -> Floats:
    values = column.drop_nulls().to_numpy().astype(np.float64)
    finite: Floats = values[np.isfinite(values)]
    return finite


def _defined(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
