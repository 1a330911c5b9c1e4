"""Chronus (SoCC '21): Philly with models and deadlines; times in minutes; the column `user` holds the virtual cluster.

About 190 rows per file have no GPU and are left out.
"""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.rows import MAX_S, Rows

__all__ = ["FORMATS"]

S_PER_MIN = 60.0


def _parse(rows: Rows) -> pl.DataFrame:
    return rows.finish({
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number("submit_time", high=MAX_S / S_PER_MIN) * S_PER_MIN,
        "gpus": rows.gpus("num_gpu"),
        "duration_s": rows.number("duration", high=MAX_S / S_PER_MIN) * S_PER_MIN,
        "iterations": rows.count("iterations"),
        "model": rows.column("model_name"),
        "vc": rows.name("user"),
    })  # fmt: skip


FORMATS = (
    Delimited(
        "chronus", "Chronus (minutes)", _parse,
        frozenset({"job_id", "user", "num_gpu", "submit_time", "iterations", "duration", "expect_time_list"}),
    ),
)  # fmt: skip
