"""Microsoft ITP clusters published with ElasticFlow (ASPLOS '23): `raw`, `sim`, and the older ElasticFlow inputs.

The virtual cluster is the file (`cluster04`); a folder of such files is read as one trace on one clock. Models, batch
sizes and iterations in `sim` are generated, not observed.
"""

from __future__ import annotations

import polars as pl

from weft.workload.traces.base import Delimited
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS"]


def _parse_raw(rows: Rows) -> pl.DataFrame:
    return rows.finish({
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number("submission_time"),
        "gpus": rows.gpus("num_gpu"),
        "duration_s": rows.number("duration"),
        "vc": rows.stem,
    })  # fmt: skip


def _sim(rows: Rows, submit: str, iterations: str) -> pl.DataFrame:
    return rows.finish({
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number(submit),
        "gpus": rows.gpus("num_gpu"),
        "duration_s": rows.number("duration"),
        "iterations": rows.count(iterations),
        "model": rows.column("model_name"),
        "batch": rows.count("batch_size", required=False),
        "vc": rows.stem,
    })  # fmt: skip


FORMATS = (
    Delimited(
        "elasticflow-sim", "Microsoft ITP with models, published with ElasticFlow",
        lambda rows: _sim(rows, "submission_time", "num_iteration"),
        frozenset({"job_id", "submission_time", "duration", "num_gpu", "num_iteration", "model_name"}),
    ),
    Delimited(
        "elasticflow-raw", "Microsoft ITP, published with ElasticFlow", _parse_raw,
        frozenset({"job_id", "submission_time", "duration", "num_gpu"}), lacks=frozenset({"num_iteration"}),
    ),
    Delimited(
        "elasticflow-input", "job list of the ElasticFlow simulator",
        lambda rows: _sim(rows, "submit_time", "iteration"),
        frozenset({"job_id", "submit_time", "iteration", "model_name", "ddl", "num_gpu", "duration"}),
    ),
)  # fmt: skip
