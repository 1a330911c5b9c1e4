"""Reading public job traces: detect a file's format, read it into one schema, account for every row, sum it up."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import polars as pl

from weft.errors import TraceError
from weft.workload.streams import Stream
from weft.workload.traces import FORMATS, Format
from weft.workload.traces.base import Head, Options, Parsed, stem_of
from weft.workload.traces.columns import NoTableError, read_table
from weft.workload.traces.rows import TRACE, Trace
from weft.workload.traces.tools import PLAIN_COLUMNS


def detect(path: str | Path) -> str:
    """The name of a trace file's (or folder's) format, detected from its content."""
    return _detect_any(Path(path), _files(Path(path))[0]).name


def read(
    path: str | Path,
    format: str | None = None,
    *,
    on_error: Literal["skip", "fail"] = "skip",
    attempts: Literal["all", "last"] = "all",
    said: Mapping[str, str] | None = None,
) -> Trace:
    """Read a trace file, or a folder of files of one format, as one trace.

    A damaged row is reported in `problems` and skipped, or (`on_error="fail"`) raised as a TraceError with its line
    number. `attempts` says how attempts of one job add up where the format lists them (Philly's JSON). In a folder
    every file is a virtual cluster unless the format names its own; if some are called `clusterNN`, only they are read.
    A file of no known format is read as a table whose columns are guessed from their names; `said` names them.
    """
    if said and format is not None:
        raise TraceError(f"{path}: columns are named, and format {format}; give one of them")
    if format is not None and format not in FORMATS:
        raise TraceError(f"format {format!r} is unknown; use one of {', '.join(sorted(FORMATS))}")
    root = Path(path)
    files, ignored = _files(root)
    options = Options(on_error, attempts)
    if said or (format is None and not root.is_dir() and _matching(Head.of(root)) is None):
        return _table(root, said or {}, options)
    reader = FORMATS[format] if format else _detect_any(root, files)
    parts = [_read_one(file, reader, options, forced=format is not None) for file in files]
    frame = pl.concat(part.frame for part in parts)
    if len(files) > 1:
        frame = _distinct(files, parts)
    problems = [p._replace(file=str(file)) for file, part in zip(files, parts, strict=True) for p in part.problems]
    frame, start = _rebase(frame) if reader.wall_clock else (frame, "")
    notes = _notes(parts) + ([f"not read: {', '.join(ignored)}"] if ignored else [])
    rows = sum(part.n_rows_in for part in parts)
    return Trace(frame, reader.name, tuple(problems), rows, str(root), tuple(notes), start)


def write(trace: Trace, path: str | Path) -> None:
    """Write a trace as plain CSV, or as Parquet if the name ends in .parquet."""
    target, frame = Path(path), trace.frame.select(PLAIN_COLUMNS)
    try:
        if target.suffix == ".parquet":
            frame.write_parquet(target)
        elif target.suffix == ".csv":
            frame.write_csv(target)
        else:
            raise TraceError(f"{target}: the name must end in .csv or .parquet, which says what to write")
    except OSError as error:
        raise TraceError(f"{target}: {error.strerror or error}; give a path that can be written") from error


def sample(trace: Trace, jobs: int, seed: int) -> Trace:
    """A random choice of jobs without repetition, in their old order; the jobs left out are not reported."""
    if not 1 <= jobs <= trace.frame.height:
        raise TraceError(f"{trace.path}: cannot sample {jobs} jobs of {trace.frame.height}; ask for 1 to all of them")
    chosen = sorted(Stream(seed, "trace sample").shuffled(range(trace.frame.height))[:jobs])
    note = f"{jobs} of {trace.frame.height} jobs, drawn with seed {seed}"
    return Trace(trace.frame[chosen], trace.format, (), jobs, trace.path, (*trace.notes, note), trace.start)


def _files(root: Path) -> tuple[list[Path], list[str]]:
    """The files of a trace, and the names of the other files in its folder."""
    if not root.is_dir():
        return [root], []
    found = sorted(p for p in root.iterdir() if p.is_file() and not p.name.startswith("."))
    clusters = [p for p in found if re.match(r"cluster\d+\.", p.name)]
    if not found:
        raise TraceError(f"{root}: the folder holds no file; give a trace file or a folder of them")
    chosen = clusters or [p for p in found if p.suffix.lower() != ".md"] or found
    return chosen, [p.name for p in found if p not in chosen]


def _detect_any(root: Path, files: Sequence[Path]) -> Format:
    """The format of a trace's first file; where no file of a folder has one, they are named."""
    if root.is_dir() and not any(_matching(Head.of(path)) for path in files):
        names = ", ".join(path.name for path in files[:MOST]) + (", ..." if len(files) > MOST else "")
        raise TraceError(f"{root}: no file of the folder has a known trace format; give --format, or one of {names}")
    return _detect(files[0])


def _detect(path: Path) -> Format:
    head = Head.of(path)
    if not head.lines:
        raise TraceError(f"{path}: the file is empty; give a trace file")
    if (reader := _matching(head)) is None:
        raise TraceError(_unknown(path, head))
    return reader


def is_known(path: Path) -> bool:
    """Whether a file or folder has a format of its own; else it may be a table of jobs."""
    return path.is_dir() or _matching(Head.of(path)) is not None


def _matching(head: Head) -> Format | None:
    return next((reader for reader in FORMATS.values() if head.lines and reader.matches(head)), None)


def _unknown(path: Path, head: Head) -> str:
    begins = head.lines[0][:60].encode("ascii", "backslashreplace").decode()
    others = ", ".join(column for column in PLAIN_COLUMNS if column not in ("submit_s", "gpus"))
    return (
        f"{path}: no known trace format begins with {begins!r}; give --format, or convert it to plain CSV, whose "
        f"columns are submit_s, gpus and, if known, {others}"
    )


def _table(path: Path, said: Mapping[str, str], options: Options) -> Trace:
    try:
        return read_table(path, said, options)[0]
    except NoTableError as error:
        if said:
            raise
        why = str(error).removeprefix(f"{path}: ")
        raise TraceError(f"{_unknown(path, Head.of(path))}; as a table it is not understood: {why}") from None


def _read_one(path: Path, reader: Format, options: Options, forced: bool) -> Parsed:
    if not forced and (found := _detect(path)).name != reader.name:
        raise TraceError(f"{path}: is of format {found.name}, others in the folder are {reader.name}; separate them")
    return reader.read(path, options)


def _distinct(files: Sequence[Path], parts: Sequence[Parsed]) -> pl.DataFrame:
    """The files as one frame: a file is a virtual cluster, and ids that repeat between files get the file's name."""
    frames = [part.frame for part in parts]
    ids = pl.concat(frame["job_id"].unique() for frame in frames)
    if ids.n_unique() < len(ids):
        pairs = zip(files, frames, strict=True)
        frames = [
            f.with_columns(pl.format("{}/{}", pl.lit(stem_of(p)), pl.col("job_id")).alias("job_id")) for p, f in pairs
        ]
    return pl.concat(
        frame.with_columns(pl.when(pl.col("vc") == "").then(pl.lit(stem_of(path))).otherwise("vc").alias("vc"))
        for path, frame in zip(files, frames, strict=True)
    ).select(*TRACE)


def _rebase(frame: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Submissions counted from the first, and when that was."""
    if frame.is_empty():
        return frame, ""
    first = frame.select(pl.col("submit_s").min()).item()
    return frame.with_columns(pl.col("submit_s") - first), datetime.fromtimestamp(first, UTC).strftime(
        "%Y-%m-%d %H:%M:%S"
    )


def _notes(parts: Sequence[Parsed]) -> list[str]:
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.notes)
    return [f"{n} {what}" for what, n in total.items()]


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
        "title": FORMATS[trace.format].title if trace.format in FORMATS else "a table of jobs",
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
