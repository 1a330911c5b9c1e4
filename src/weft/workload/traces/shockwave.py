"""Shockwave (NSDI '23) `.trace` files: Gavel's layout with a batch-size mode and a duration added; synthetic."""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.gavel import job_type, typed
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS"]

COLUMNS = (
    "job_type", "command", "directory", "steps_arg", "needs_data_dir", "total_steps", "num_gpus", "mode", "priority",
    "SLO", "duration", "arrival",
)  # fmt: skip


def _parse(rows: Rows) -> pl.DataFrame:
    model, batch = job_type(rows)
    return rows.finish({
        "job_id": rows.job_ids(None),
        "submit_s": rows.number("arrival"),
        "gpus": rows.gpus("num_gpus"),
        "duration_s": rows.number("duration"),
        "iterations": rows.count("total_steps", low=1),
        "model": model,
        "batch": batch,
    })  # fmt: skip


FORMATS = (Delimited("shockwave", "Shockwave trace", _parse, delimiter="\t", layouts={12: COLUMNS}, tell=typed),)
