"""Gavel (OSDI '20) `.trace` files: tab-separated, no header, one of two layouts.

Job types read "model (batch size N)". There is no duration: it is steps / throughput on whatever runs the job. In the
seven-column layout (Philly, one file per virtual cluster) the virtual cluster is the file.
"""

from __future__ import annotations

import re

import polars as pl

from weft.workload.traces.base import Delimited, Head
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS", "JOB_TYPE", "job_type", "typed"]

JOB_TYPE = r"^(.+?)\s*\(batch size (\d{1,9})\)$"
SHORT = ("job_type", "command", "steps_arg", "needs_data_dir", "total_steps", "arrival_time", "num_gpus")
LONG = (
    "job_type", "command", "directory", "steps_arg", "needs_data_dir", "total_steps", "num_gpus", "priority", "SLO",
    "arrival_time",
)  # fmt: skip


def typed(head: Head) -> bool:
    """Whether the first field of the first line is a job type."""
    return bool(head.lines) and re.match(JOB_TYPE[:-1] + r"\t", head.lines[0]) is not None


def job_type(rows: Rows) -> tuple[pl.Series, pl.Series]:
    """Model and batch size; a type without a batch size is a model."""
    text = rows.column("job_type")
    rows.damage(text.is_null(), "job_type", "is missing")
    model = text.str.extract(JOB_TYPE, 1).fill_null(text)
    return model, text.str.extract(JOB_TYPE, 2).cast(pl.Int64, strict=False)


def _parse(rows: Rows) -> pl.DataFrame:
    model, batch = job_type(rows)
    return rows.finish({
        "job_id": rows.job_ids(None),
        "submit_s": rows.number("arrival_time"),
        "gpus": rows.gpus("num_gpus"),
        "iterations": rows.count("total_steps", low=1),
        "model": model,
        "batch": batch,
        "vc": "" if rows.has("priority") else rows.stem,
    })  # fmt: skip


FORMATS = (Delimited("gavel", "Gavel trace", _parse, delimiter="\t", layouts={7: SHORT, 10: LONG}, tell=typed),)
