"""Readers of what tools write: weft's plain CSV and Parquet, and Slurm's accounting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from weft.errors import TraceError
from weft.workload.traces.base import Delimited, Head, Options, Parsed, collect, stem_of
from weft.workload.traces.rows import MAX_GPUS, MAX_S, Rows

PLAIN_COLUMNS = (
    "job_id", "submit_s", "gpus", "duration_s", "iterations", "model", "user", "vc", "status", "batch", "wait_s",
    "shape",
)  # fmt: skip


def _plain(rows: Rows) -> pl.DataFrame:
    """weft's own plain CSV: a header with the column names of the common schema, in any order.

    `submit_s` and `gpus` must be there; `duration_s`, `iterations` (either or both), `job_id`, `model`, `user`, `vc`,
    `status`, `batch`, `wait_s` and `shape` ("4+4": GPUs on each server), both as recorded, may be. Seconds count from
    any zero. A job with neither duration nor iterations is kept: the workload must then say how long jobs are.
    """
    gpus = rows.gpus("gpus")
    columns = {
        "job_id": rows.job_ids("job_id"),
        "submit_s": rows.number("submit_s"),
        "gpus": gpus,
        "shape": rows.shape("shape", gpus),
        "duration_s": rows.number("duration_s", required=False),
        "iterations": rows.count("iterations", low=1, required=False),
        "batch": rows.count("batch", required=False),
        "wait_s": rows.number("wait_s", required=False),
        "model": rows.column("model"),
        "user": rows.name("user"),
        "vc": rows.name("vc"),
        "status": rows.name("status"),
    }
    return rows.finish(columns)


PLAIN = Delimited("plain", "weft's plain CSV", _plain, frozenset({"submit_s", "gpus"}),
          tell=lambda head: set(head.header(",")) <= set(PLAIN_COLUMNS))  # fmt: skip


@dataclass(frozen=True)
class Parquet:
    """Parquet with the columns of the plain CSV, as `weft trace convert` writes it.

    Its rows have no lines, so problems name the row number, from 1.
    """

    name: str = "parquet"
    title: str = "Parquet with the plain columns"
    wall_clock: bool = False

    def matches(self, head: Head) -> bool:
        """Whether the file begins as Parquet does."""
        return head.raw.startswith(b"PAR1")

    def read(self, path: Path, options: Options) -> Parsed:
        """Read a file; every value goes through the checks of the plain format."""
        try:
            frame = pl.read_parquet(path.read_bytes())
            kept = frame.select(pl.col(c).cast(pl.String) for c in frame.columns if c in PLAIN_COLUMNS)
        except (OSError, pl.exceptions.PolarsError, ValueError) as error:
            first = str(error).split("\n")[0]
            raise TraceError(f"{path}: cannot be read as Parquet ({first}); write it again") from error
        if missing := {"submit_s", "gpus"} - set(kept.columns):
            raise TraceError(f"{path}: no column {', '.join(sorted(missing))}; see the plain format in docs/traces.md")
        text: dict[str, Sequence[str | None]] = {c: kept[c].to_list() for c in kept.columns}
        parsed = Parsed()
        collect(path, Rows(text, list(range(1, kept.height + 1)), 0, stem_of(path)), _plain, [], parsed, options)
        return parsed


WHEN = "%Y-%m-%dT%H:%M:%S"
NEVER = ("Unknown", "None", "N/A", "INVALID")
UNENDED = ("PENDING", "RUNNING", "REQUEUED", "RESIZING", "SUSPENDED", "CONFIGURING", "COMPLETING")
ELAPSED = r"^(?:(\d{1,6})-)?(\d{1,6}):(\d{2}):(\d{2})(?:\.\d+)?$"


def _slurm(rows: Rows) -> pl.DataFrame:
    """Slurm accounting: the output of `sacct --parsable2`, led by its header, so any choice of fields will do.

    Needed: a job id (`JobIDRaw` or `JobID`), `Submit`, GPUs (`AllocTRES`, else `ReqTRES`: `gres/gpu=N`), and a length
    (`ElapsedRaw`, `Elapsed`, or `Start` and `End`). The partition is the virtual cluster. Steps (`123.batch`), jobs
    without GPUs, and jobs that never started or have not ended are left out. A good call is in docs/traces.md.
    """
    for column in ("Submit", "Start", "End"):
        if rows.has(column):
            rows.text = rows.text.with_columns(pl.col(column).replace(dict.fromkeys(NEVER)))
    ids = rows.job_ids("JobIDRaw" if rows.has("JobIDRaw") else "JobID")
    rows.leave_out(ids.str.contains(r"\."), "JobID", "is a step of a job, not a job")
    state = rows.name("State").str.extract(r"^(\S*)", 1).fill_null("")  # "CANCELLED by 1000" is CANCELLED
    gpus = gpus_of(rows)
    rows.leave_out(gpus == 0, "AllocTRES", "uses no GPU")
    submit = _moment(rows, "Submit", required=True)
    rows.leave_out(state.is_in(UNENDED), "State", lambda row: f"is {state[row]}: it has not ended")
    duration = _duration(rows)
    rows.leave_out(duration.is_null(), "End", "has no start or no end")
    if rows.has("Start"):
        rows.leave_out(rows.column("Start").is_null(), "Start", "never started")
    wait = _moment(rows, "Start", required=False) - submit
    return rows.finish({
        "job_id": ids,
        "submit_s": submit,
        "gpus": gpus,
        "duration_s": duration,
        "user": rows.name("User"),
        "vc": rows.name("Partition"),
        "status": state,
        "wait_s": wait.clip(0.0),  # clocks of two machines
    })  # fmt: skip


def gpus_of(rows: Rows) -> pl.Series:
    """GPUs allocated, or asked for; `gres/gpu=N` counts all types, else `gres/gpu:type=N` are added up."""
    text = rows.name("AllocTRES")
    text = pl.Series(text.zip_with(text != "", rows.name("ReqTRES")))
    every = text.str.extract(r"(?:^|,)gres/gpu=(\d{1,15})(?:,|$)", 1).cast(pl.Int64, strict=False)
    typed = text.str.extract_all(r"(?:^|,)gres/gpu:[^=,]+=\d{1,15}")
    parts = typed.list.eval(pl.element().str.extract(r"=(\d+)$", 1).cast(pl.Int64, strict=False))
    total = every.fill_null(parts.list.sum()).fill_null(0)
    unread = (total == 0) & text.str.contains("gres/gpu") & ~text.str.contains(r"gres/gpu(?::[^=,]+)?=0+(?:,|$)")
    rows.damage(unread, "AllocTRES", lambda row: f"{text[row][:40]!r} has GPUs but no count of them")
    rows.damage(total > MAX_GPUS, "AllocTRES", "gives more GPUs than any cluster has")
    return total


def _moment(rows: Rows, column: str, required: bool) -> pl.Series:
    """A time as Slurm writes it, or in seconds (SLURM_TIME_FORMAT=%s)."""
    if not rows.has(column):
        return pl.Series(column, [None] * len(rows), dtype=pl.Float64)
    text = rows.column(column)
    if bool(text.drop_nulls().str.contains(r"^\d+$").all()):
        return rows.number(column, required=required)
    return rows.moment(column, WHEN, required=required)


def elapsed_s(text: pl.Series) -> pl.Series:
    """[days-]hours:minutes:seconds as seconds; null where it is written in another way."""
    day, hour, minute, second = (text.str.extract(ELAPSED, i).cast(pl.Float64, strict=False) for i in (1, 2, 3, 4))
    return day.fill_null(0.0) * 86_400 + hour * 3_600 + minute * 60 + second


def _duration(rows: Rows) -> pl.Series:
    if rows.has("ElapsedRaw"):
        return rows.number("ElapsedRaw")
    if not rows.has("Elapsed"):
        start, end = _moment(rows, "Start", required=False), _moment(rows, "End", required=False)
        rows.damage(end < start, "End", "lies before Start")
        return end - start
    text = rows.column("Elapsed")
    seconds = elapsed_s(text)
    bad = seconds.is_null() | (seconds > MAX_S)
    rows.damage(bad, "Elapsed", lambda row: f"{str(text[row])[:40]!r} is not [days-]hours:minutes:seconds")
    return seconds


SLURM = Delimited(
    "slurm", "Slurm sacct --parsable2", _slurm, frozenset({"Submit"}),
    either=(
        frozenset({"JobID", "JobIDRaw"}), frozenset({"AllocTRES", "ReqTRES"}),
        frozenset({"ElapsedRaw", "Elapsed", "End"}),
    ),
    delimiter="|", wall_clock=True,
)  # fmt: skip
