"""Muri (SIGCOMM '22): Philly virtual clusters with models; all times in milliseconds."""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.rows import MAX_S, Rows

__all__ = ["FORMATS"]

MS_PER_S = 1000.0


def _parse(rows: Rows) -> pl.DataFrame:
    return rows.finish({
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number("submit_time", high=MAX_S * MS_PER_S) / MS_PER_S,
        "gpus": rows.gpus("num_gpu"),
        "duration_s": rows.number("duration", high=MAX_S * MS_PER_S) / MS_PER_S,
        "iterations": rows.count("iterations"),
        "model": rows.column("model_name"),
        "batch": rows.count("batch_size", required=False),
    })  # fmt: skip


FORMATS = (
    Delimited(
        "muri", "Muri (milliseconds)", _parse,
        frozenset({"job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "resource_time_0"}),
    ),
)  # fmt: skip
