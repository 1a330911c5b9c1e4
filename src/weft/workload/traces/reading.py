"""Reading public job traces: detect a file's format, read it into one schema, account for every row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import polars as pl

from weft.errors import TraceError
from weft.workload.streams import Stream
from weft.workload.traces import FORMATS
from weft.workload.traces.base import Format, Head, Options, Parsed, stem_of
from weft.workload.traces.plain import PLAIN_COLUMNS
from weft.workload.traces.schema import TRACE, Problem, Trace, TraceJob

__all__ = ["FORMATS", "TRACE", "Problem", "Trace", "TraceJob", "detect", "read", "sample", "write"]


def detect(path: str | Path) -> str:
    """The name of a trace file's (or folder's) format, detected from its content."""
    return _detect(_files(Path(path))[0][0]).name


def read(
    path: str | Path,
    format: str | None = None,
    *,
    on_error: Literal["skip", "fail"] = "skip",
    attempts: Literal["all", "last"] = "all",
) -> Trace:
    """Read a trace file, or a folder of files of one format, as one trace.

    A damaged row is reported in `problems` and skipped, or (`on_error="fail"`) raised as a TraceError with its line
    number. `attempts` says how attempts of one job add up where the format lists them (Philly's JSON). In a folder
    every file is a virtual cluster unless the format names its own; if some are called `clusterNN`, only they are read.
    """
    if format is not None and format not in FORMATS:
        raise TraceError(f"format {format!r} is unknown; use one of {', '.join(sorted(FORMATS))}")
    root = Path(path)
    files, ignored = _files(root)
    reader = FORMATS[format] if format else _detect(files[0])
    parts = [_read_one(file, reader, Options(on_error, attempts), forced=format is not None) for file in files]
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
    keys = Stream(seed, "trace sample").uniform(trace.frame.height)
    chosen = sorted(sorted(range(trace.frame.height), key=lambda i: keys[i])[:jobs])
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
    chosen = clusters or found
    return chosen, [p.name for p in found if p not in chosen]


def _detect(path: Path) -> Format:
    head = Head.of(path)
    if not head.lines:
        raise TraceError(f"{path}: the file is empty; give a trace file")
    for reader in FORMATS.values():
        if reader.matches(head):
            return reader
    begins = head.lines[0][:60].encode("ascii", "backslashreplace").decode()
    raise TraceError(f"{path}: no known trace format begins with {begins!r}; give --format, or convert it to plain CSV")


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
    total: dict[str, int] = {}
    for part in parts:
        for what, n in part.notes.items():
            total[what] = total.get(what, 0) + n
    return [f"{n} {what}" for what, n in total.items()]
