"""What a trace holds, in numbers: span, GPU counts, durations, the load it implies."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from weft.workload.traces import FORMATS
from weft.workload.traces.schema import Trace

__all__ = ["SIZE_BINS", "summary"]

# Upper ends of the size classes that published tables use.
SIZE_BINS = (1, 2, 4, 8, 16, 32, 64)
MOST = 10  # entries of a list of models, users, problems
DAY_S = 86_400.0


def summary(trace: Trace) -> dict[str, Any]:
    """A trace in numbers, as one JSON-able mapping; what is not known is None.

    `load` is GPU time over the span from first to last submission: the number of GPUs the trace would keep busy on an
    unlimited cluster.
    """
    frame = trace.frame
    submit = frame["submit_s"]
    first, last = submit.quantile(0), submit.quantile(1)
    span = None if first is None or last is None else last - first
    gpu_hours = _gpu_hours(frame)
    return {
        "path": trace.path,
        "format": trace.format,
        "title": FORMATS[trace.format].title,
        "rows": trace.n_rows_in,
        "jobs": frame.height,
        "damaged": trace.n_damaged,
        "left_out": trace.n_left_out,
        "left_out_because": dict(Counter(p.message for p in trace.problems if p.left_out).most_common(MOST)),
        "first_damaged": _damaged(trace),
        "start": trace.start or None,
        "first_submit_s": first,
        "last_submit_s": last,
        "span_days": None if span is None else span / DAY_S,
        "gpus": _gpus(frame),
        "duration_s": _spread(frame["duration_s"].drop_nulls()),
        "iterations": _spread(frame["iterations"].drop_nulls().cast(pl.Float64)),
        "gpu_hours": gpu_hours,
        "load_gpus": gpu_hours * 3600 / span if gpu_hours is not None and span else None,
        "models": _top(frame["model"].drop_nulls()),
        "unknown_models": frame["model"].null_count(),
        "repeated_ids": frame.height - frame["job_id"].n_unique(),
        "vcs": _top(frame.filter(pl.col("vc") != "")["vc"]),
        "users": frame.filter(pl.col("user") != "")["user"].n_unique(),
        "status": _top(frame.filter(pl.col("status") != "")["status"]),
        "notes": list(trace.notes),
    }


def _damaged(trace: Trace) -> list[str]:
    """The first damaged rows; in a folder, with the names of their files."""
    damaged = [p for p in trace.problems if not p.left_out][:MOST]
    return [str(p._replace(file="" if p.file == trace.path else Path(p.file).name)) for p in damaged]


def _gpu_hours(frame: pl.DataFrame) -> float | None:
    """GPU time of all jobs; None unless every job has a duration."""
    if frame.is_empty() or frame["duration_s"].null_count():
        return None
    return float((frame["gpus"] * frame["duration_s"]).sum()) / 3600


def _gpus(frame: pl.DataFrame) -> dict[str, Any] | None:
    """Jobs by size class ("3-4", ">64"), and the mean and largest size."""
    if frame.is_empty():
        return None
    gpus = frame["gpus"]
    classes: dict[str, int] = {}
    low = 1
    for high in SIZE_BINS:
        classes[str(high) if low == high else f"{low}-{high}"] = int(((gpus >= low) & (gpus <= high)).sum())
        low = high + 1
    classes[f">{SIZE_BINS[-1]}"] = int((gpus > SIZE_BINS[-1]).sum())
    return {"mean": gpus.mean(), "max": gpus.max(), "jobs": {name: n for name, n in classes.items() if n}}


def _spread(values: pl.Series) -> dict[str, float | int | None] | None:
    if values.is_empty():
        return None

    def quantile(q: float) -> float | None:
        return values.quantile(q, "linear")

    return {
        "known": len(values), "min": quantile(0), "median": quantile(0.5), "mean": float(values.mean()),  # type: ignore[arg-type]
        "p95": quantile(0.95), "p99": quantile(0.99), "max": quantile(1),
    }  # fmt: skip


def _top(values: pl.Series) -> dict[str, int]:
    """The most frequent values, most frequent first, and how many jobs have another."""
    counts = Counter(values.to_list())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(n for _, n in ranked[MOST:])
    return dict(ranked[:MOST]) | ({f"{len(ranked) - MOST} others": rest} if rest else {})
