"""Themis (NSDI '20): hyper-parameter experiments on Philly in 2018, and their form with relative start times.

The experiment stands in the column `user`: it is what Themis is fair between.
"""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS"]


def _parse(rows: Rows) -> pl.DataFrame:
    return rows.finish({
        "job_id": rows.job_ids("job-id"),
        "submit_s": rows.moment("start-time"),
        "gpus": rows.gpus("num-gpus"),
        "duration_s": rows.number("run-time"),
        "user": rows.name("experiment-id"),
    })  # fmt: skip


def _parse_processed(rows: Rows) -> pl.DataFrame:
    return rows.finish({
        "job_id": rows.job_ids(""),
        "submit_s": rows.number("start_time"),
        "gpus": rows.gpus("num_gpus"),
        "duration_s": rows.number("running_time"),
        "user": rows.name("experiment_id"),
    })  # fmt: skip


FORMATS = (
    Delimited(
        "themis", "Themis hyper-parameter experiments", _parse,
        frozenset({"experiment-id", "job-id", "start-time", "run-time", "num-gpus"}), wall_clock=True,
    ),
    Delimited(
        "themis-processed", "Themis experiments, relative times", _parse_processed,
        frozenset({"experiment_id", "start_time", "running_time", "num_gpus"}),
    ),
)  # fmt: skip
