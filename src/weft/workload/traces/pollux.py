"""Pollux (OSDI '21) and Sia (SOSP '23) workloads: a model, a batch size and a number of GPUs, but no duration."""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS"]


def _parse(rows: Rows) -> pl.DataFrame:
    return rows.finish({
        "job_id": rows.job_ids("name"),
        "submit_s": rows.number("time"),
        "gpus": rows.gpus("num_replicas"),
        "model": rows.column("application"),
        "batch": rows.count("batch_size", required=False),
    })  # fmt: skip


FORMATS = (
    Delimited(
        "pollux",
        "Pollux or Sia workload",
        _parse,
        frozenset({"name", "time", "application", "num_replicas", "batch_size"}),
    ),
)
