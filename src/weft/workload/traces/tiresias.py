"""Tiresias (NSDI '19) job lists: seconds, a model name, and iterations where the list has them."""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS"]


def _parse(rows: Rows) -> pl.DataFrame:
    return rows.finish({
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number("submit_time"),
        "gpus": rows.gpus("num_gpu"),
        "duration_s": rows.number("duration"),
        "iterations": rows.count("iterations", required=False),
        "model": rows.column("model_name"),
    })  # fmt: skip


FORMATS = (
    Delimited(
        "tiresias", "Tiresias job list", _parse,
        frozenset({"job_id", "num_gpu", "submit_time", "model_name", "duration"}),
        lacks=frozenset({"resource_time_0", "expect_time_list", "ddl"}),
    ),
)  # fmt: skip
