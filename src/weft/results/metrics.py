"""The numbers of one run, and its machines as the Titan paper measures them. Undefined numbers are None, never NaN.

What concerns machines is a step function of time, or a number made from one; `mean` is over the time in which any
machine is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from weft.model.units import bytes_per_s_to_gbps
from weft.results.run import RunResult
from weft.results.series import Steps, joined, spans_until

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


HOUR_S = 3600.0


@dataclass(frozen=True)
class MachineUse:
    """Machines with at least one GPU held, over time, and the idle part of their GPUs (fragmentation rate)."""

    used: Steps
    fragmentation: Steps

    @property
    def machine_hours(self) -> float:
        """Used machines x time."""
        return total(self.used) / HOUR_S


def machine_use(run: RunResult, kept: Mapping[str, Sequence[int]] | None = None) -> MachineUse:
    """Used machines and their fragmentation: the mean over used machines of idle GPUs / GPUs.

    `kept` are GPUs that a job keeps idle beside its own; a machine with only such GPUs counts as used and idle.
    """
    servers = np.asarray(run.server_of_gpu, dtype=np.int64)
    sizes = np.bincount(servers) if len(servers) else np.zeros(0, dtype=np.int64)
    spans = spans_until(run).select("job_id", "start_s", "end_s", "gpus")
    gpu = spans.explode("gpus").drop_nulls()
    where = servers[gpu["gpus"].to_numpy()] if len(gpu) else np.zeros(0, dtype=np.int64)
    held = gpu.with_columns(pl.Series("server", where), pl.Series("part", 1.0 / sizes[where] if len(where) else where))
    busy = (held["start_s"].to_numpy(), held["end_s"].to_numpy(), held["part"].to_numpy())
    if kept:
        more = [(j, s, e, g) for j, s, e, _ in spans.iter_rows() for g in kept.get(j, ())]
        extra = pl.DataFrame(more, schema=["job_id", "start_s", "end_s", "gpus"], orient="row")
        extra = extra.with_columns(pl.Series("server", servers[extra["gpus"].to_numpy()] if len(extra) else []))
        held = pl.concat([held.select("server", "start_s", "end_s"), extra.select("server", "start_s", "end_s")])
    apart = joined(held.select("server", "start_s", "end_s").unique(), "server")
    one = np.ones(len(apart))
    starts, ends = apart["start_s"].to_numpy(), apart["end_s"].to_numpy()
    times = np.unique(np.concatenate([starts, ends, busy[0], busy[1], [0.0]]))
    used = _sampled(times, starts, ends, one)
    full = _sampled(times, *busy)
    idle = np.where(used > 0.5, 1.0 - full / np.maximum(used, 1.0), 0.0)
    return MachineUse(Steps(times, np.round(used)), Steps(times, np.clip(idle, 0.0, 1.0)))


def overhead_bytes(run: RunResult, across: Callable[[str, Sequence[int]], float]) -> Steps:
    """Bytes that one iteration of all running jobs sends between machines; `across` gives those of one job."""
    spans = spans_until(run)
    values = np.array([across(job, gpus) for job, gpus in spans.select("job_id", "gpus").iter_rows()], dtype=np.float64)
    starts, ends = spans["start_s"].to_numpy(), spans["end_s"].to_numpy()
    times = np.unique(np.concatenate([starts, ends, [0.0]]))
    return Steps(times, _sampled(times, starts, ends, values))


def profit_rate(run: RunResult, use: MachineUse) -> Steps:
    """K P / (N T) of the paper: prices of the running jobs over their durations, per used machine.

    The price rule: a tenant pays one unit for each GPU hour of computing in a job, wherever it is placed; a placement
    that makes a job longer, or spreads it over more machines, earns less, and what a stop throws away
    is not paid for. In units per machine and hour.
    """
    spans = spans_until(run)
    earned = {
        job: (gpu_s - (lost_gpu_s or 0.0)) / run_s
        for job, gpu_s, lost_gpu_s, run_s in run.jobs.select("job_id", "gpu_s", "lost_gpu_s", "run_s").iter_rows()
        if gpu_s is not None and run_s
    }
    rates = np.array([earned.get(job, 0.0) for job in spans["job_id"]])
    income = _sampled(use.used.time_s, spans["start_s"].to_numpy(), spans["end_s"].to_numpy(), rates)
    return Steps(use.used.time_s, np.where(use.used.value > 0.5, income / np.maximum(use.used.value, 1.0), 0.0))


def throughput(run: RunResult, samples_per_iteration: Mapping[str, float]) -> dict[str, float]:
    """Samples per second of each finished job while it held its GPUs."""
    rows = run.jobs.filter(pl.col("finish_s").is_not_null()).select("job_id", "iterations", "run_s").iter_rows()
    return {job: samples_per_iteration[job] * n / run_s for job, n, run_s in rows if job in samples_per_iteration}


def comm_s_per_epoch(run: RunResult, iterations_per_epoch: Mapping[str, float]) -> dict[str, float]:
    """Seconds of exposed communication in an epoch of each job."""
    rows = run.jobs.select("job_id", "iterations", "comm_s").iter_rows()
    return {job: comm / n * iterations_per_epoch[job] for job, n, comm in rows if n and job in iterations_per_epoch}


def accuracy(run: RunResult, job: str, curve: Sequence[float], iterations_per_epoch: float) -> Steps:
    """Accuracy against time since the job's start, from a given accuracy after each epoch (0 before the first)."""
    rows = run.iterations.filter(pl.col("job_id") == job)
    counts = np.concatenate([[0.0], np.cumsum(rows["count"].to_numpy())])
    seconds = np.concatenate([[0.0], np.cumsum((rows["count"] * rows["duration_s"]).to_numpy())])
    epochs = np.arange(1, len(curve) + 1) * iterations_per_epoch
    reached = epochs <= counts[-1] * (1.0 + 1e-9)
    times = np.interp(epochs[reached], counts, seconds)
    return Steps(np.concatenate([[0.0], times]), np.concatenate([[0.0], np.asarray(curve)[reached]]))


def total(steps: Steps) -> float:
    """Integral over time."""
    return float((np.diff(steps.time_s) * steps.value[:-1]).sum()) if len(steps.time_s) > 1 else 0.0


def mean(steps: Steps, where: Steps) -> float:
    """Mean over the time in which `where` (on the same times, or used machines) is above 0."""
    grid = np.unique(np.concatenate([steps.time_s, where.time_s]))
    if len(grid) < 2:
        return 0.0
    at = [s.value[np.clip(np.searchsorted(s.time_s, grid[:-1], "right") - 1, 0, None)] for s in (steps, where)]
    spans = np.diff(grid) * (at[1] > 0)
    return float((spans * at[0]).sum() / spans.sum()) if spans.sum() > 0 else 0.0


def at_arrivals(run: RunResult, steps: Steps) -> Floats:
    """The value right after each job arrived, as the paper takes its averages."""
    found: Floats = steps.value[
        np.clip(np.searchsorted(steps.time_s, run.jobs["submit_s"].to_numpy(), "right") - 1, 0, None)
    ]
    return found


def _sampled(times: Floats, starts: Floats, ends: Floats, values: Floats) -> Floats:
    """The sum of `values` over the intervals that hold each time."""
    change = np.bincount(np.searchsorted(times, starts), values, len(times))
    change -= np.bincount(np.searchsorted(times, ends), values, len(times))
    result: Floats = np.cumsum(change)
    return result
