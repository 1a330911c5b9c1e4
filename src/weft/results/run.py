"""RunResult: everything one run leaves behind, as frames. Metrics, tables, plots and reports are made from it alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# One row per submitted job. Times are absolute simulation seconds; null where it did not happen.
# queueing_s: time waiting for GPUs (all waits, restarts included); run_s: time holding GPUs; comm_s: exposed
# communication (its GPUs waited for the network); gpu_s: GPU seconds computed;
# lost_gpu_s: GPU seconds computed and thrown away by stops.
JOBS = {
    "job_id": pl.String, "model": pl.String, "gpus": pl.Int64, "submit_s": pl.Float64, "start_s": pl.Float64,
    "finish_s": pl.Float64, "jct_s": pl.Float64, "queueing_s": pl.Float64, "run_s": pl.Float64, "comm_s": pl.Float64,
    "gate_s": pl.Float64, "gpu_s": pl.Float64, "lost_gpu_s": pl.Float64, "iterations": pl.Int64,
    "preemptions": pl.Int64, "servers": pl.Int64, "racks": pl.Int64, "status": pl.String, "user": pl.String,
}  # fmt: skip
# Run-length iteration times: `count` iterations of `duration_s`, in order per job.
ITERATIONS = {"job_id": pl.String, "duration_s": pl.Float64, "count": pl.Float64}
LINKS = {
    "link": pl.Int64, "name": pl.String, "tier": pl.String, "bytes_per_s": pl.Float64, "bytes": pl.Float64,
    "busy_s": pl.Float64, "utilisation": pl.Float64,
}  # fmt: skip
# Bytes that a link carried in a time bin (only when the run was asked to record it).
LINK_SERIES = {"link": pl.Int64, "start_s": pl.Float64, "end_s": pl.Float64, "bytes": pl.Float64}
# action: start, stop, gate, route, hold; gpus: ids joined by spaces.
DECISIONS = {
    "cycle": pl.Int64, "time_s": pl.Float64, "job_id": pl.String, "action": pl.String, "gpus": pl.String,
    "reason": pl.String,
}  # fmt: skip
# One row per assignment of a job to GPUs: the cluster timeline.
SPANS: dict[str, pl.DataType | type[pl.DataType]] = {
    "job_id": pl.String,
    "start_s": pl.Float64,
    "end_s": pl.Float64,
    "gpus": pl.List(pl.Int64),
    "end": pl.String,
}
# The first tasks of the run, one row each (kind: compute, transfer), as far as the recording buffer reached.
SEGMENTS = {"job_id": pl.String, "task": pl.String, "kind": pl.String, "start_s": pl.Float64, "end_s": pl.Float64}


@dataclass(frozen=True)
class RunResult:
    """One simulated run (or one recorded real one).

    Examples:
        >>> run = weft.simulate("demo", stack="fifo", seed=1)
        >>> run.summary()["finished"], run.n_gpus
        (100, 64)
        >>> run.jobs.columns[:4]
        ['job_id', 'model', 'gpus', 'submit_s']
    """

    scenario: str
    stack: str
    seed: int
    jobs: pl.DataFrame
    iterations: pl.DataFrame
    links: pl.DataFrame
    decisions: pl.DataFrame
    spans: pl.DataFrame
    n_gpus: int
    events: int  # engine events, skipped ones not counted
    exact: bool
    wall_s: float
    segments: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SEGMENTS))
    link_series: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LINK_SERIES))
    notes: tuple[str, ...] = ()  # what the reader of a report must know (synthetic data, readings chosen, estimates)
    scenario_text: str = ""  # the scenario file as it was read, for the report
    command: str = ""  # the command line that made the run
    version: str = ""  # weft's version
    server_of_gpu: tuple[int, ...] = ()  # server id of every GPU id; empty if unknown
    adjustments: dict[str, int] = field(default_factory=dict)  # times a gate re-aligned a job, where it did
    foreign_bytes_per_s: float | None = None  # mean goodput of all foreign traffic; None: there was none

    def summary(self) -> dict[str, Any]:
        """The run in numbers, as `weft simulate --json` prints them."""
        from weft.results.metrics import summary

        return summary(self)

    def to_pandas(self) -> pd.DataFrame:
        """The jobs for pandas, which must be installed."""
        from weft.results.export import as_pandas

        return as_pandas(self.jobs)

    def plot(self, what: str = "jct") -> Figure:
        """A figure: jct, iterations or load."""
        from weft.results.export import figure

        return figure(what, [self], {})

    def _repr_html_(self) -> str:
        """The run's summary as an HTML table: what a notebook shows."""
        from weft.results.html import notebook_summary

        return notebook_summary(self.summary())
