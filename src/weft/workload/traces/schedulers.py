"""Readers of the job lists that were published with other schedulers."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from weft.workload.traces.base import Delimited, Head, JsonList, Options
from weft.workload.traces.rows import ByName, Rows

JOB_TYPE = r"^(.+?)\s*\(batch size (\d{1,9})\)$"
SHORT = ("job_type", "command", "steps_arg", "needs_data_dir", "total_steps", "arrival_time", "num_gpus")
LONG = (
    "job_type", "command", "directory", "steps_arg", "needs_data_dir", "total_steps", "num_gpus", "priority", "SLO",
    "arrival_time",
)  # fmt: skip
WITH_DURATION = (*LONG[:7], "mode", "priority", "SLO", "duration", "arrival_time")


def typed(head: Head) -> bool:
    """Whether the first field of the first line is a job type."""
    return bool(head.lines) and re.match(JOB_TYPE[:-1] + r"\t", head.lines[0]) is not None


def job_type(rows: Rows) -> tuple[pl.Series, pl.Series]:
    """Model and batch size; a type without a batch size is a model."""
    text = rows.column("job_type")
    rows.damage(text.is_null(), "job_type", "is missing")
    model = text.str.extract(JOB_TYPE, 1).fill_null(text)
    return model, text.str.extract(JOB_TYPE, 2).cast(pl.Int64, strict=False)


def _gavel(rows: Rows) -> pl.DataFrame:
    """`.trace` files of Gavel (OSDI '20) and Shockwave (NSDI '23): tab-separated, no header.

    Job types read "model (batch size N)". Gavel's two layouts have no duration, which depends on the GPUs that run the
    job. In the one with seven columns (Philly, one file per virtual cluster) the virtual cluster is the file.
    Shockwave, whose jobs are synthetic, adds a batch-size mode and a duration."""
    model, batch = job_type(rows)
    return rows.finish({
        "job_id": rows.job_ids(None),
        "submit_s": rows.number("arrival_time"),
        "gpus": rows.gpus("num_gpus"),
        "duration_s": rows.number("duration") if rows.has("duration") else None,
        "iterations": rows.count("total_steps", low=1),
        "model": model,
        "batch": batch,
        "vc": "" if rows.has("priority") else rows.stem,
    })  # fmt: skip


GAVEL = Delimited("gavel", "Gavel trace", _gavel, delimiter="\t", layouts={7: SHORT, 10: LONG}, tell=typed)
SHOCKWAVE = Delimited("shockwave", "Shockwave trace", _gavel, delimiter="\t", layouts={12: WITH_DURATION}, tell=typed)


# Muri (SIGCOMM '22): Philly virtual clusters with models; all times in milliseconds.
MURI = Delimited(
    "muri", "Muri (milliseconds)",
    ByName("job_id", "submit_time", "num_gpu", "duration", "iterations", model="model_name", batch="batch_size",
           unit_s=0.001),
    frozenset({"job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "resource_time_0"}),
)  # fmt: skip

# Chronus (SoCC '21): Philly with models and deadlines; times in minutes; `user` holds the virtual cluster. About 190
# rows per file have no GPU and are left out.
CHRONUS = Delimited(
    "chronus", "Chronus (minutes)",
    ByName("job_id", "submit_time", "num_gpu", "duration", "iterations", model="model_name", vc="user", unit_s=60),
    frozenset({"job_id", "user", "num_gpu", "submit_time", "iterations", "duration", "expect_time_list"}),
)  # fmt: skip

# Tiresias (NSDI '19) job lists: seconds, a model name, and iterations where the list has them.
TIRESIAS = Delimited(
    "tiresias", "Tiresias job list",
    ByName("job_id", "submit_time", "num_gpu", "duration", some_iterations="iterations", model="model_name"),
    frozenset({"job_id", "num_gpu", "submit_time", "model_name", "duration"}),
    lacks=frozenset({"resource_time_0", "expect_time_list", "ddl"}),
)  # fmt: skip

# Themis (NSDI '20): hyper-parameter experiments on Philly in 2018, and their form with relative start times. The
# experiment stands in the column `user`: it is what Themis is fair between.
THEMIS = (
    Delimited(
        "themis", "Themis hyper-parameter experiments",
        ByName("job-id", "start-time", "num-gpus", "run-time", user="experiment-id", dates=True),
        frozenset({"experiment-id", "job-id", "start-time", "run-time", "num-gpus"}), wall_clock=True,
    ),
    Delimited(
        "themis-processed", "Themis experiments, relative times",
        ByName("", "start_time", "num_gpus", "running_time", user="experiment_id"),
        frozenset({"experiment_id", "start_time", "running_time", "num_gpus"}),
    ),
)  # fmt: skip

# Pollux (OSDI '21) and Sia (SOSP '23) workloads: a model, a batch size and a number of GPUs, but no duration.
POLLUX = Delimited(
    "pollux", "Pollux or Sia workload",
    ByName("name", "time", "num_replicas", model="application", batch="batch_size"),
    frozenset({"name", "time", "application", "num_replicas", "batch_size"}),
)  # fmt: skip

# Dally's job files: SenseTime Venus jobs with models, a JSON list whose every value is a string. Submission is
# `arrival_time` where present, else `start_time` (which is -1 in files that have the former).
DALLY_COLUMNS = (
    "job_id", "user", "state", "max_parallelism", "duration", "total_iterations", "model", "batchsize", "submit",
)  # fmt: skip


def _record(job: Mapping[str, object], options: Options) -> dict[str, str | None]:
    record = {key: None if job.get(key) is None else str(job[key]) for key in DALLY_COLUMNS}
    submit = job.get("arrival_time", job.get("start_time"))
    return record | {"submit": None if submit is None else str(submit)}


DALLY = JsonList(
    "dally", "Dally job file", DALLY_COLUMNS, _record,
    ByName("job_id", "submit", "max_parallelism", "duration", some_iterations="total_iterations", model="model",
           batch="batchsize", user="user", status="state"),
    ("job_id", "max_parallelism", "total_iterations"),
)  # fmt: skip
