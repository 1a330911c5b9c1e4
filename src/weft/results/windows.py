"""Intervals for recorded jobs: a moving-block bootstrap over windows of the trace.

The seeds of a run on a trace draw routes, and models where the trace names none; the jobs are the same at every seed.
So the spread over seeds says nothing about another month. Windows of the trace do: jobs are put into narrow bins by the
time of their submission, and a replicate is as many windows (runs of neighbouring bins that begin anywhere) as the
trace is long, drawn with replacement, the same for every stack. Seeds are drawn with replacement, too. An interval
reaches from the 2.5th to the 97.5th percentile of 1,000 replicates (Künsch 1989, "The jackknife and the bootstrap for
general stationary observations").

A window must be longer than the jobs in it take. It is a day, or a sixteenth of a trace of less than four days, and at
least twice the mean completion time under the first stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Table = dict[str, Any]

DRAWS = 1000
DAY_S = 86_400.0
LONG_S = 4 * DAY_S
FEW = 8  # fewer windows than these give a rough interval
_SUMS = {"jct_mean_s": "jct_s", "queueing_mean_s": "queueing_s", "comm_mean_s": "comm_s", "preemptions": "preemptions"}
_QUANTILES = {"jct_median_s": 0.5, "jct_p95_s": 0.95, "jct_p99_s": 0.99}


@dataclass(frozen=True)
class Windows:
    """How a trace is cut: bins of `bin_s`, `bins` of them, of which `per_window` make a window."""

    bin_s: float
    bins: int
    per_window: int

    @property
    def count(self) -> int:
        """Windows that lie side by side in the trace."""
        return self.bins // self.per_window

    @property
    def length_s(self) -> float:
        """How long a window lasts."""
        return self.bin_s * self.per_window

    @property
    def span_s(self) -> float:
        """From the first job's submission to the last one's; 1 ns or less where all come at once."""
        return self.bin_s * self.bins

    def weights(self) -> Floats:
        """How often each bin occurs in each replicate."""
        rng = np.random.default_rng(20)
        blocks = -(-self.bins // self.per_window)
        starts = rng.integers(0, self.bins - self.per_window + 1, (DRAWS, blocks))
        edges = np.zeros((DRAWS, self.bins + 1))
        row = np.arange(DRAWS)[:, None]
        np.add.at(edges, (row, starts), 1.0)
        np.add.at(edges, (row, starts + self.per_window), -1.0)
        return np.asarray(np.cumsum(edges, axis=1)[:, :-1], dtype=np.float64)


def binned(jobs: pl.DataFrame) -> Table:
    """Jobs of a run by the time of their submission: how many finished, and the sums of their times, bin by bin."""
    submit = jobs["submit_s"].to_numpy()
    first, span = float(submit.min()), float(submit.max() - submit.min())
    bin_s = 3600.0 if span >= LONG_S else max(span, 1e-9) / 256
    n = max(1, int(np.ceil(span / bin_s)))
    done = jobs.filter(pl.col("finish_s").is_not_null())
    at = np.minimum(((done["submit_s"].to_numpy() - first) / bin_s).astype(np.int64), n - 1)
    sums = {name: np.bincount(at, done[name].to_numpy().astype(float), n).tolist() for name in _SUMS.values()}
    return {"bin_s": bin_s, "count": np.bincount(at, minlength=n).tolist(), "sums": sums}


def windows_of(table: Table) -> Windows:
    """The windows for a trace, given the bins of the first stack's first run."""
    counts, bin_s = np.array(table["count"]), table["bin_s"]
    span = bin_s * len(counts)
    mean_s = sum(table["sums"]["jct_s"]) / max(int(counts.sum()), 1)
    length = max(2.0 * mean_s, DAY_S if span >= LONG_S else span / 16)
    per_window = min(len(counts), max(1, int(np.ceil(length / bin_s - 1e-9))))
    return Windows(bin_s, len(counts), per_window)


def window_intervals(
    tables: Mapping[str, Sequence[Table]], jobs: Mapping[str, Sequence[pl.DataFrame]] | None, windows: Windows
) -> dict[str, dict[str, dict[str, list[float | None]]]]:
    """By stack, the interval of each metric and of its ratio to the first stack's.

    `tables` has the bins of each seed's run, by stack; `jobs` the jobs themselves, for medians and percentiles. Metrics
    that are neither a sum nor a quantile over jobs have none.
    """
    weights = windows.weights()
    n_seeds = len(next(iter(tables.values())))
    picks = np.random.default_rng(21).integers(0, n_seeds, (DRAWS, n_seeds))
    drawn = {
        stack: _replicates(of, None if jobs is None else jobs[stack], weights, windows) for stack, of in tables.items()
    }
    first = next(iter(drawn.values()))
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            stack: {
                "metrics": {name: _interval(values, picks) for name, values in replicates.items()},
                "ratio_to_first": {name: _interval(values / first[name], picks) for name, values in replicates.items()},
            }
            for stack, replicates in drawn.items()
        }


def _replicates(
    tables: Sequence[Table], jobs: Sequence[pl.DataFrame] | None, weights: Floats, windows: Windows
) -> dict[str, Floats]:
    """Each metric in every replicate: (seeds, draws)."""
    found: dict[str, list[Floats]] = {}
    for i, table in enumerate(tables):
        with np.errstate(divide="ignore", invalid="ignore"):
            per = weights @ np.array(table["count"], dtype=float)
            for name, column in _SUMS.items():
                total = weights @ np.array(table["sums"][column])
                found.setdefault(name, []).append(total if name == "preemptions" else total / per)
        if jobs is not None:
            for name, values in _quantiles(jobs[i], weights, windows).items():
                found.setdefault(name, []).append(values)
    return {name: np.array(rows) for name, rows in found.items()}


def _quantiles(jobs: pl.DataFrame, weights: Floats, windows: Windows) -> dict[str, Floats]:
    """Quantiles of completion times: with the jobs sorted, the first one at which the cumulative weight reaches this
    share."""
    first = float(jobs["submit_s"].min())  # type: ignore[arg-type]
    done = jobs.filter(pl.col("finish_s").is_not_null()).sort("jct_s")
    at = np.minimum(((done["submit_s"].to_numpy() - first) / windows.bin_s).astype(np.int64), windows.bins - 1)
    values, shares = done["jct_s"].to_numpy(), np.array(list(_QUANTILES.values()))
    rows = np.full((len(weights), len(shares)), np.nan)
    for i, row in enumerate(weights):
        upto = np.cumsum(row[at])
        if len(upto) and upto[-1] > 0:
            rows[i] = values[np.minimum(np.searchsorted(upto, shares * upto[-1]), len(values) - 1)]
    return {name: rows[:, k] for k, name in enumerate(_QUANTILES)}


def _interval(values: Floats, picks: Ints) -> list[float | None]:
    """Percentiles over replicates of the mean over the seeds drawn in each."""
    means = values[picks, np.arange(values.shape[1])[:, None]].mean(axis=1)
    if not np.isfinite(means).all():
        return [None, None]
    low, high = np.quantile(means, [0.025, 0.975])
    return [float(low), float(high)]
