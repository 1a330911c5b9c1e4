"""SenseTime Helios (SC '21): the original `cluster_log.csv` and the converted `venus_gpu_jobs.csv`.

Original: duration is end - start. CPU-only jobs, more than half, and jobs without an end are left out.
Converted: GPU jobs only, durations cut at 48 h by the converter.
"""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited, Head
from weft.workload.traces.rows import Rows

__all__ = ["CONVERTED", "CUT_S", "FORMATS", "parse_converted"]

CUT_S = 172_800.0
CONVERTED = frozenset({"job_id", "arrival_s", "service_sec", "gpu_count"})


def _parse(rows: Rows) -> pl.DataFrame:
    ids, submit, gpus = rows.job_ids("job_id"), rows.moment("submit_time"), rows.gpus("gpu_num")
    start, end = rows.moment("start_time", required=False), rows.moment("end_time", required=False)
    rows.leave_out(start.is_null() | end.is_null(), "end_time", "has no start or no end")
    rows.damage(end < start, "end_time", "lies before start_time")
    return rows.finish({
        "job_id": ids,
        "submit_s": submit,
        "gpus": gpus,
        "duration_s": end - start,
        "user": rows.name("user"),
        "vc": rows.name("vc"),
        "status": rows.name("state"),
        "model": rows.column("model"),
        "batch": rows.count("batchsize", required=False),
        "wait_s": (start - submit).clip(0.0),
    })  # fmt: skip


def parse_converted(rows: Rows) -> pl.DataFrame:
    """Rows of the four converted columns, which Helios Venus and the PAI sample share."""
    duration = rows.number("service_sec")
    columns = {
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number("arrival_s"),
        "gpus": rows.gpus("gpu_count"),
        "duration_s": duration,
    }
    rows.note("jobs have a duration cut at 48 h", duration == CUT_S)
    return rows.finish(columns)


def _not_pai(head: Head) -> bool:
    return not (len(head.lines) > 1 and head.lines[1].startswith("ali-"))


FORMATS = (
    Delimited(
        "helios", "SenseTime Helios cluster_log", _parse,
        frozenset({"job_id", "user", "vc", "gpu_num", "state", "submit_time", "start_time", "end_time"}),
        wall_clock=True,
    ),
    Delimited("helios-converted", "SenseTime Helios, converted GPU jobs", parse_converted, CONVERTED, tell=_not_pai),
)  # fmt: skip
