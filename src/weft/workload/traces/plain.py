"""weft's own plain CSV: a header with the column names of the common schema, in any order.

`submit_s` and `gpus` must be there; `duration_s`, `iterations` (either or both), `job_id`, `model`, `user`, `vc`,
`status`, `batch` and `wait_s` (how long the job waited, as recorded) may be. Seconds count from any zero. A job with
neither duration nor iterations is kept: the workload must then say how long jobs are.
"""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited, Head
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS", "PLAIN_COLUMNS", "parse"]

PLAIN_COLUMNS = (
    "job_id", "submit_s", "gpus", "duration_s", "iterations", "model", "user", "vc", "status", "batch", "wait_s",
)  # fmt: skip


def parse(rows: Rows) -> pl.DataFrame:
    columns = {
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number("submit_s"),
        "gpus": rows.gpus("gpus"),
        "duration_s": rows.number("duration_s", required=False),
        "iterations": rows.count("iterations", low=1, required=False),
        "batch": rows.count("batch", required=False),
        "wait_s": rows.number("wait_s", required=False),
        "model": rows.column("model"),
        "user": rows.name("user"),
        "vc": rows.name("vc"),
        "status": rows.name("status"),
    }
    return rows.finish(columns)


def _known(head: Head) -> bool:
    return set(head.header(",")) <= set(PLAIN_COLUMNS)


FORMATS = (Delimited("plain", "weft's plain CSV", parse, frozenset({"submit_s", "gpus"}), tell=_known),)
