"""Readers of what operators published about their own clusters."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial

import polars as pl

from weft.workload.traces.base import Delimited, Head, JsonList, Options
from weft.workload.traces.rows import MAX_GPUS, ByName, Rows

# Microsoft Philly (ATC '19): the original `cluster_job_log` JSON and the flat CSV published with Pollux.
# JSON: GPUs are those of the last attempt that lists any. Duration is the sum of all attempts with a start and an end,
# or (`attempts = "last"`) the last of them; papers differ on this. A job without such an attempt, or without GPUs, is
# left out. CSV: the row number is the job id. Times carry no zone and are taken as they stand.
DAMAGED = "damaged"


def _record(job: Mapping[str, object], options: Options) -> dict[str, str | None]:
    record = {key: _text(job.get(key)) for key in ("jobid", "user", "vc", "status", "submitted_time")}
    attempts = job.get("attempts")
    if attempts is None:
        attempts = []
    if not isinstance(attempts, list) or not all(isinstance(a, dict) for a in attempts):
        return record | {"attempts": DAMAGED}
    sizes = [_gpus(a.get("detail")) for a in attempts]
    spans = [_seconds(a.get("start_time"), a.get("end_time")) for a in attempts]
    if DAMAGED in sizes or DAMAGED in spans:
        return record | {"attempts": DAMAGED}
    gpus = next((n for n in reversed(sizes) if n), 0)
    done = [s for s in spans if isinstance(s, float)]
    duration = None if not done else sum(done) if options.attempts == "all" else done[-1]
    return record | {"attempts": "sound", "gpus": str(gpus), "duration": None if duration is None else repr(duration)}


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _gpus(detail: object) -> int | str:
    """GPUs of one attempt."""
    if detail is None:
        return 0
    if not isinstance(detail, list):
        return DAMAGED
    lists = [host.get("gpus") for host in detail if isinstance(host, dict)]
    if len(lists) < len(detail) or not all(isinstance(g, list) for g in lists):
        return DAMAGED
    return sum(len(g) for g in lists if isinstance(g, list))


def _seconds(start: object, end: object) -> float | str | None:
    """Length of one attempt; None if it did not start or has not ended."""
    if start in (None, "", "None") or end in (None, "", "None"):
        return None
    try:
        begun, ended = datetime.fromisoformat(str(start)), datetime.fromisoformat(str(end))
        return (ended - begun).total_seconds()
    except (ValueError, TypeError, OverflowError):  # TypeError: only one of them has a zone
        return DAMAGED


def _parse_json(rows: Rows) -> pl.DataFrame:
    ids, submit = rows.job_ids("jobid"), rows.moment("submitted_time")
    rows.damage(rows.column("attempts") == DAMAGED, "attempts", "are not a list of times and GPUs")
    gpus = rows.gpus("gpus")
    rows.leave_out(rows.column("duration").is_null(), "attempts", "none has both a start and an end")
    return rows.finish({
        "job_id": ids,
        "submit_s": submit,
        "gpus": gpus,
        "duration_s": rows.number("duration"),
        "user": rows.name("user"),
        "vc": rows.name("vc"),
        "status": rows.name("status"),
    })  # fmt: skip


def _parse_placed(rows: Rows) -> pl.DataFrame:
    """Philly as published with RFold: a superset of that of Pollux, with the GPUs of a job on each of its servers. Its
    durations seem to count all attempts. Virtual clusters were joined from Pollux's rows, and miss for a quarter."""
    gpus = rows.gpus("gpus")
    columns = {
        "job_id": rows.job_ids("job"),
        "submit_s": rows.number("submit_s"),
        "gpus": gpus,
        "shape": rows.shape("shape", gpus),
        "duration_s": rows.number("duration_s"),
        "vc": rows.name("vc"),
    }
    rows.note("jobs ran on several servers", columns["shape"].str.contains("+", literal=True))
    return rows.finish(columns)


PHILLY = (
    Delimited(
        "philly-rfold", "Microsoft Philly with placements, as published with RFold", _parse_placed,
        frozenset({"job", "submit_s", "gpus", "shape", "duration_s"}),
    ),
    JsonList(
        "philly", "Microsoft Philly cluster_job_log", ("jobid", "user", "vc", "status", "submitted_time", "attempts",
        "gpus", "duration"), _record, _parse_json, ("jobid", "submitted_time", "attempts"), wall_clock=True,
    ),
    Delimited(
        "philly-csv", "Microsoft Philly, flat CSV of the Pollux authors",
        ByName(None, "timestamp", "num_gpus", "duration", vc="cluster", dates=True),
        frozenset({"timestamp", "duration", "num_gpus", "cluster"}), wall_clock=True,
    ),
)  # fmt: skip


CUT_S = 172_800.0
CONVERTED = frozenset({"job_id", "arrival_s", "service_sec", "gpu_count"})


def _logged(rows: Rows, dates: str = "%Y-%m-%d %H:%M:%S") -> pl.DataFrame:
    """The original logs of SenseTime Helios (SC '21, `cluster_log.csv`) and Shanghai AI Lab Acme (NSDI '24).

    Duration is computed as end - start, because the column of that name is end - submit in Acme's Kalos. CPU-only jobs
    (more than half in Helios) and jobs that have not ended are left out. Acme's times carry a zone; it names no virtual
    cluster, model or batch.
    """
    ids, submit, gpus = rows.job_ids("job_id"), rows.moment("submit_time", dates), rows.gpus("gpu_num")
    start, end = (rows.moment(f"{when}_time", dates, required=False) for when in ("start", "end"))
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


def _converted(rows: Rows) -> pl.DataFrame:
    """Rows of the four converted columns, which Helios Venus and the PAI sample share; durations are cut at 48 h."""
    duration = rows.number("service_sec")
    columns = {
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number("arrival_s"),
        "gpus": rows.gpus("gpu_count"),
        "duration_s": duration,
    }
    rows.note("jobs have a duration cut at 48 h", duration == CUT_S)
    return rows.finish(columns)


def _is_pai(head: Head) -> bool:
    return len(head.lines) > 1 and head.lines[1].startswith("ali-")


HELIOS = (
    Delimited(
        "helios", "SenseTime Helios cluster_log", _logged,
        frozenset({"job_id", "user", "vc", "gpu_num", "state", "submit_time", "start_time", "end_time"}),
        wall_clock=True,
    ),
    Delimited("helios-converted", "SenseTime Helios, converted GPU jobs", _converted, CONVERTED,
              tell=lambda head: not _is_pai(head)),
)  # fmt: skip


# Alibaba PAI 2020 (NSDI '22), the converted sample of tasks: the columns of the converted Helios file. A row is a task
# (all workers of one role), its arrival is its start, shared GPUs are rounded up, and durations are cut at 48 h; all
# four are the converter's doing.
PAI = Delimited("pai", "Alibaba PAI 2020, sample of tasks", _converted, CONVERTED, tell=_is_pai)


ZONED = "%Y-%m-%d %H:%M:%S%z"
ITERATION_S = 0.5  # the converter's divisor


def _acme_converted(rows: Rows) -> pl.DataFrame:
    """A converted set of completed Kalos jobs: GPUs = nodes x GPUs per node; its iteration times are made up."""
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


ACME = (
    Delimited(
        "acme", "Shanghai AI Lab Acme (Seren, Kalos)", partial(_logged, dates=ZONED),
        frozenset({"job_id", "user", "gpu_num", "type", "state", "submit_time", "start_time", "end_time"}),
        lacks=frozenset({"vc"}), wall_clock=True,
    ),
    Delimited(
        "acme-converted", "Acme Kalos, converted completed jobs", _acme_converted,
        frozenset({"job_id", "arrival_time", "num_iteration", "gpu_workers", "gpu_per_worker"}),
    ),
)  # fmt: skip


# Microsoft ITP clusters published with ElasticFlow (ASPLOS '23): `raw`, `sim`, and the older ElasticFlow inputs.
# The virtual cluster is the file (`cluster04`); a folder of such files is read as one trace on one clock. Models, batch
# sizes and iterations in `sim` are generated, not observed.
ELASTICFLOW = (
    Delimited(
        "elasticflow-sim", "Microsoft ITP with models, published with ElasticFlow",
        ByName("job_id", "submission_time", "num_gpu", "duration", "num_iteration", model="model_name",
               batch="batch_size", file_is_vc=True),
        frozenset({"job_id", "submission_time", "duration", "num_gpu", "num_iteration", "model_name"}),
    ),
    Delimited(
        "elasticflow-raw", "Microsoft ITP, published with ElasticFlow",
        ByName("job_id", "submission_time", "num_gpu", "duration", file_is_vc=True),
        frozenset({"job_id", "submission_time", "duration", "num_gpu"}), lacks=frozenset({"num_iteration"}),
    ),
    Delimited(
        "elasticflow-input", "job list of the ElasticFlow simulator",
        ByName("job_id", "submit_time", "num_gpu", "duration", "iteration", model="model_name", batch="batch_size",
               file_is_vc=True),
        frozenset({"job_id", "submit_time", "iteration", "model_name", "ddl", "num_gpu", "duration"}),
    ),
)  # fmt: skip


def _openb(rows: Rows) -> pl.DataFrame:
    """Alibaba openb 2023 (ATC '23): pods that may share a GPU.

    A share of a GPU counts as a whole one. Duration is deletion - scheduling, and deletion is not completion. Pods
    without a GPU and pods never scheduled are left out. The `multigpu` lists have no times: they are sets to pack, all
    submitted at 0 with no duration.
    """
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


OPENB = Delimited("openb", "Alibaba openb 2023 pods", _openb, frozenset({"name", "cpu_milli", "num_gpu", "gpu_milli"}))


def _spot(rows: Rows) -> pl.DataFrame:
    """Alibaba spot 2026 (ASPLOS '26) `job_info_df.csv`: GPUs = GPUs per worker x workers; the organisation is the VC.

    A job whose workers use a share of a GPU each is rounded up to whole GPUs per worker.
    """
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


SPOT = Delimited(
    "spot", "Alibaba spot 2026 jobs", _spot,
    frozenset({"job_name", "organization", "gpu_request", "worker_num", "submit_time", "duration"}),
)  # fmt: skip


def _crux(rows: Rows) -> pl.DataFrame:
    """Alibaba Lingjun 2023 as the job list of Crux (SIGCOMM '24). Times are whole minutes: of a job of 0 s it is known
    only that it ended within its first minute, and it is left out."""
    duration = rows.number("duration (sec)")
    rows.leave_out(duration == 0, "duration (sec)", "ended within its first minute")
    return rows.finish({
        "job_id": rows.job_ids("#job id"),
        "submit_s": rows.number("arrival time (sec)"),
        "gpus": rows.gpus("size"),
        "duration_s": duration,
    })  # fmt: skip


CRUX = Delimited(
    "crux", "Alibaba Lingjun 2023, job list of Crux", _crux,
    frozenset({"#job id", "arrival time (sec)", "size", "duration (sec)"}),
)  # fmt: skip


def _dlrm(rows: Rows) -> pl.DataFrame:
    """Alibaba disaggregated DLRM 2025 (NSDI '25): long-running inference instances, not training jobs.

    An empty time lies outside the trace: an instance without a creation time is there from 0, one without a scheduling
    or deletion time has no known duration. Instances without a GPU are left out. The application stands in `vc`.
    """
    ids, gpus = rows.job_ids("instance_sn"), rows.gpus("gpu_request")
    created = rows.number("creation_time", required=False)
    start, end = rows.number("scheduled_time", required=False), rows.number("deletion_time", required=False)
    rows.damage(end < start, "deletion_time", "lies before scheduled_time")
    rows.note("inference instances, not training jobs", gpus > 0)
    return rows.finish({
        "job_id": ids, "submit_s": created.fill_null(0.0), "gpus": gpus, "duration_s": end - start, "model": "dlrm",
        "vc": rows.name("app_name"),
    })  # fmt: skip


DLRM = Delimited(
    "dlrm", "Alibaba DLRM 2025 inference instances", _dlrm,
    frozenset({"instance_sn", "app_name", "gpu_request", "creation_time", "scheduled_time", "deletion_time"}),
)  # fmt: skip
