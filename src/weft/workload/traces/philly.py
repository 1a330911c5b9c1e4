"""Microsoft Philly (ATC '19): the original `cluster_job_log` JSON and the flat CSV published with Pollux.

JSON: GPUs are those of the last attempt that lists any. Duration is the sum of all attempts with a start and an end,
or (`attempts = "last"`) the last of them; papers differ on this. A job without such an attempt, or without GPUs, is
left out. CSV: the row number is the job id. Times carry no zone and are taken as they stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import polars as pl

from weft.workload.traces.base import Delimited, JsonList, Options
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS"]

DAMAGED = "damaged"


def _parse_csv(rows: Rows) -> pl.DataFrame:
    return rows.finish({
        "job_id": rows.job_ids(None),
        "submit_s": rows.moment("timestamp"),
        "gpus": rows.gpus("num_gpus"),
        "duration_s": rows.number("duration"),
        "vc": rows.name("cluster"),
    })  # fmt: skip


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


FORMATS = (
    JsonList(
        "philly", "Microsoft Philly cluster_job_log", ("jobid", "user", "vc", "status", "submitted_time", "attempts",
        "gpus", "duration"), _record, _parse_json, ("jobid", "submitted_time", "attempts"), wall_clock=True,
    ),
    Delimited(
        "philly-csv", "Microsoft Philly, flat CSV of the Pollux authors", _parse_csv,
        frozenset({"timestamp", "duration", "num_gpus", "cluster"}), wall_clock=True,
    ),
)  # fmt: skip
