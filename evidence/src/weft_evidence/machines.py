"""The machines of a run over time, as the Titan paper measures them; `mean` is over the time in which any is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from weft.results.run import RunResult
from weft.results.series import Floats, Steps, joined, spans_until

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
