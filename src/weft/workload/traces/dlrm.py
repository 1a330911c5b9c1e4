"""Alibaba disaggregated DLRM 2025 (NSDI '25): long-running inference instances, not training jobs.

An empty time lies outside the trace: an instance without a creation time is there from 0, one without a scheduling or
deletion time has no known duration. Instances without a GPU are left out. The application stands in the column `vc`.
"""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS"]


def _parse(rows: Rows) -> pl.DataFrame:
    ids, gpus = rows.job_ids("instance_sn"), rows.gpus("gpu_request")
    created = rows.number("creation_time", required=False)
    start, end = rows.number("scheduled_time", required=False), rows.number("deletion_time", required=False)
    rows.damage(end < start, "deletion_time", "lies before scheduled_time")
    rows.note("inference instances, not training jobs", gpus > 0)
    return rows.finish({
        "job_id": ids, "submit_s": created.fill_null(0.0), "gpus": gpus, "duration_s": end - start, "model": "dlrm",
        "vc": rows.name("app_name"),
    })  # fmt: skip


FORMATS = (
    Delimited(
        "dlrm", "Alibaba DLRM 2025 inference instances", _parse,
        frozenset({"instance_sn", "app_name", "gpu_request", "creation_time", "scheduled_time", "deletion_time"}),
    ),
)  # fmt: skip
