"""Dally's job files: SenseTime Venus jobs with models, a JSON list whose every value is a string.

Submission is `arrival_time` where present, else `start_time` (which is -1 in files that have the former).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from weft.workload.traces.base import JsonList, Options
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS"]

COLUMNS = ("job_id", "user", "state", "max_parallelism", "duration", "total_iterations", "model", "batchsize", "submit")


def _record(job: Mapping[str, object], options: Options) -> dict[str, str | None]:
    record = {key: None if job.get(key) is None else str(job[key]) for key in COLUMNS}
    submit = job.get("arrival_time", job.get("start_time"))
    return record | {"submit": None if submit is None else str(submit)}


def _parse(rows: Rows) -> pl.DataFrame:
    return rows.finish({
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number("submit"),
        "gpus": rows.gpus("max_parallelism"),
        "duration_s": rows.number("duration"),
        "iterations": rows.count("total_iterations", required=False),
        "model": rows.column("model"),
        "batch": rows.count("batchsize", required=False),
        "user": rows.name("user"),
        "status": rows.name("state"),
    })  # fmt: skip


FORMATS = (
    JsonList("dally", "Dally job file", COLUMNS, _record, _parse, ("job_id", "max_parallelism", "total_iterations")),
)
