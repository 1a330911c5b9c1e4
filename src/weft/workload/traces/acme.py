"""Shanghai AI Lab Acme (NSDI '24): the original Seren and Kalos files and a converted set of completed Kalos jobs.

Original: duration is computed as end - start, because the column of that name is end - submit in Kalos. CPU-only jobs
and jobs that have not ended (still RUNNING, or cancelled before a start) are left out. Times carry a zone.
Converted: duration = num_iteration x 0.5 s; GPUs = nodes x GPUs per node; its iteration times are made up.
"""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.rows import MAX_GPUS, Rows

__all__ = ["FORMATS"]

ZONED = "%Y-%m-%d %H:%M:%S%z"
ITERATION_S = 0.5  # the converter's divisor


def _parse(rows: Rows) -> pl.DataFrame:
    ids, submit, gpus = rows.job_ids("job_id"), rows.moment("submit_time", ZONED), rows.gpus("gpu_num")
    start, end = rows.moment("start_time", ZONED, required=False), rows.moment("end_time", ZONED, required=False)
    rows.leave_out(start.is_null() | end.is_null(), "end_time", "has no start or no end")
    rows.damage(end < start, "end_time", "lies before start_time")
    return rows.finish({
        "job_id": ids,
        "submit_s": submit,
        "gpus": gpus,
        "duration_s": end - start,
        "user": rows.name("user"),
        "status": rows.name("state"),
        "wait_s": (start - submit).clip(0.0),
    })  # fmt: skip


def _parse_converted(rows: Rows) -> pl.DataFrame:
    nodes, per_node = rows.count("gpu_workers", high=MAX_GPUS), rows.count("gpu_per_worker", high=MAX_GPUS)
    gpus = nodes * per_node
    rows.leave_out(gpus == 0, "gpu_workers", "uses no GPU")
    return rows.finish({
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number("arrival_time"),
        "gpus": gpus,
        "duration_s": rows.number("num_iteration") * ITERATION_S,
        "status": "COMPLETED",
    })  # fmt: skip


FORMATS = (
    Delimited(
        "acme", "Shanghai AI Lab Acme (Seren, Kalos)", _parse,
        frozenset({"job_id", "user", "gpu_num", "type", "state", "submit_time", "start_time", "end_time"}),
        lacks=frozenset({"vc"}), wall_clock=True,
    ),
    Delimited(
        "acme-converted", "Acme Kalos, converted completed jobs", _parse_converted,
        frozenset({"job_id", "arrival_time", "num_iteration", "gpu_workers", "gpu_per_worker"}),
    ),
)  # fmt: skip
