"""Alibaba spot 2026 (ASPLOS '26) `job_info_df.csv`: GPUs = GPUs per worker x workers; the organisation is the VC.

A job whose workers use a share of a GPU each is rounded up to whole GPUs per worker.
"""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.rows import MAX_GPUS, Rows

__all__ = ["FORMATS"]


def _parse(rows: Rows) -> pl.DataFrame:
    each, workers = rows.number("gpu_request", high=MAX_GPUS), rows.count("worker_num", high=MAX_GPUS)
    gpus = (each.ceil() * workers).cast(pl.Int64, strict=False)
    rows.leave_out(gpus == 0, "gpu_request", "uses no GPU")
    rows.damage(gpus > MAX_GPUS, "worker_num", "gives more GPUs than any cluster has")
    rows.note("jobs use a share of a GPU per worker, counted as a whole one", each != each.ceil())
    return rows.finish({
        "job_id": rows.job_ids("job_name"),
        "submit_s": rows.number("submit_time"),
        "gpus": gpus,
        "duration_s": rows.number("duration"),
        "vc": rows.name("organization"),
    })  # fmt: skip


FORMATS = (
    Delimited(
        "spot", "Alibaba spot 2026 jobs", _parse,
        frozenset({"job_name", "organization", "gpu_request", "worker_num", "submit_time", "duration"}),
    ),
)  # fmt: skip
