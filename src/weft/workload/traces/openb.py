"""Alibaba openb 2023 (ATC '23): pods that may share a GPU.

A share of a GPU counts as a whole one. Duration is deletion - scheduling, and deletion is not completion. Pods without
a GPU and pods never scheduled are left out. The `multigpu` lists have no times: they are sets to pack, all submitted
at 0 with no duration.
"""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS"]


def _parse(rows: Rows) -> pl.DataFrame:
    ids, gpus = rows.job_ids("name"), rows.gpus("num_gpu")
    share = rows.number("gpu_milli", required=False)
    rows.note("pods use a share of a GPU, counted as a whole one", (gpus == 1) & (share < 1000))
    if not rows.has("creation_time"):
        submit, duration = pl.Series([0.0]).new_from_index(0, len(rows)), None
    else:
        submit = rows.number("creation_time")
        start, end = rows.number("scheduled_time", required=False), rows.number("deletion_time", required=False)
        rows.leave_out(start.is_null(), "scheduled_time", "was never scheduled")
        rows.leave_out(end.is_null(), "deletion_time", "has no end")
        rows.damage(end < start, "deletion_time", "lies before scheduled_time")
        duration = end - start
    return rows.finish({
        "job_id": ids, "submit_s": submit, "gpus": gpus, "duration_s": duration, "status": rows.name("pod_phase"),
    })  # fmt: skip


FORMATS = (
    Delimited("openb", "Alibaba openb 2023 pods", _parse, frozenset({"name", "cpu_milli", "num_gpu", "gpu_milli"})),
)
