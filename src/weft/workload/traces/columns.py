"""Any table of jobs. What a column holds is guessed from its name, or given with `--map submit=Submit,gpus=NGPUS`.

A table needs a submission time, a number of GPUs, and a length (a duration, or a start and an end). Times are seconds,
milliseconds or dates; durations are seconds (another unit if the column is called so, or if `--map duration=Runtime:h`
says so) or [days-]hours:minutes:seconds; GPUs are a number or Slurm's `gres/gpu=8`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import polars as pl

from weft.errors import InputError, TraceError
from weft.workload.traces import tools as slurm
from weft.workload.traces.base import Delimited, Head, Options
from weft.workload.traces.rows import MAX_S, Rows, Trace

Unit = tuple[str, float]  # its name, and what it is in seconds

# field: column names that stand for it, without case, blanks and punctuation, the likeliest first
FIELDS: Mapping[str, tuple[str, ...]] = {
    "job_id": ("jobid", "jobidraw", "id", "job", "jobname", "name", "taskid"),
    "submit": (
        "submit", "submittime", "submissiontime", "submitted", "submits", "arrival", "arrivaltime", "arrivals",
        "arrivaltimestamp", "timestamp", "queuedtime", "queuedat", "submittedat", "createdat", "createtime", "created",
        "creationtime", "eligible", "time",
    ),
    "start": ("start", "starttime", "started", "begin", "begintime", "starts"),
    "end": ("end", "endtime", "finish", "finished", "finishtime", "completiontime", "ended"),
    "duration": (
        "duration", "durations", "runtime", "elapsedraw", "elapsed", "servicesec", "servicetime", "walltime",
        "executiontime", "runningtime", "length",
    ),
    "wait": ("wait", "waittime", "waits", "queuetime", "queueingtime", "queuingdelay", "queuedelay"),
    "gpus": (
        "gpus", "ngpus", "numgpus", "numgpu", "ngpu", "gpunum", "gpucount", "gpu", "reqgpus", "allocgpus", "alloctres",
        "reqtres", "gpurequest", "plangpu", "workers", "nproc",
    ),
    "model": ("model", "modelname", "network", "workload"),
    "user": ("user", "username", "uid", "owner"),
    "vc": ("vc", "partition", "virtualcluster", "queue", "account", "cluster", "project"),
    "status": ("status", "state", "jobstatus", "result"),
}  # fmt: skip
_DATES = (
    "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M:%S%z",
    "%Y-%m-%d %H:%M", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p",
    "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M",
)  # fmt: skip
# Units of durations: what `--map` and the end of a column's name call them, their names, and what they are in seconds
_UNITS = (
    ("ms|msecs?|milli(second)?s?", "milliseconds", 1e-3), ("s|secs?|seconds?", "seconds", 1.0),
    ("m|mins?|minutes?", "minutes", 60.0), ("h|hrs?|hours?", "hours", 3600.0), ("d|days?", "days", 86_400.0),
)  # fmt: skip
_USUAL = Options()
_TIMED = ("duration", "wait")  # fields that have a unit
# The call that prints what a log needs
SACCT = (
    "sacct --allusers --parsable2 --starttime 2024-05-01 "
    "--format JobIDRaw,Submit,Start,End,ElapsedRaw,AllocTRES,User,Partition,State"
)
_MILLISECONDS = 1e11  # seconds since 1970 are fewer until the year 5138


class NoTableError(TraceError):
    """A file that cannot be read as a table, whatever its rows say."""


def parse_map(text: str, where: str = "--map") -> dict[str, str]:
    """`submit=Submit,gpus=NGPUS` as a mapping of fields to columns."""
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        field, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or not column or field not in FIELDS:
            raise InputError(f"{where} {part}: write FIELD=COLUMN; fields are {', '.join(FIELDS)}")
        if field in _TIMED and ":" in column and _unit_called(unit := column.rpartition(":")[2]) is None:
            raise InputError(f"{where} {part}: {unit!r} is no unit; write FIELD=COLUMN:UNIT with ms, s, m, h or d")
        found[field] = column
    return found


def guess(columns: list[str], said: Mapping[str, str]) -> dict[str, str]:
    """The column of each field: the one that the user named, or else the likeliest name that no other field has."""
    found = {field: _without_unit(field, column, columns) for field, column in said.items()}
    for column in found.values():
        if column not in columns:
            raise InputError(f"--map: there is no column {column}; the file has {', '.join(columns)}")
    plain = {re.sub(r"[^a-z0-9]", "", _without_words(column).lower()): column for column in reversed(columns)}
    plain |= {re.sub(r"[^a-z0-9]", "", column.lower()): column for column in reversed(columns)}
    taken = set(found.values())
    for field, names in FIELDS.items():
        likely = next((plain[name] for name in names if name in plain and plain[name] not in taken), None)
        if field not in found and likely is not None:
            found[field] = likely
            taken.add(likely)
    return found


def read_table(
    path: Path, said: Mapping[str, str], options: Options = _USUAL
) -> tuple[Trace, dict[str, str]]:  # fmt: skip
    """The jobs of a table with a header, and which column was taken for what."""
    head = Head.of(path)
    if not head.lines:
        raise TraceError(f"{path}: the file is empty; give a table of jobs")
    if b"\0" in head.raw:
        raise NoTableError(f"{path}: this is not UTF-8 text; give the output of sacct, or save the table as CSV")
    delimiter = max("|,;\t", key=head.lines[0].count)
    mapping = guess(head.header(delimiter), said)
    _check(path, mapping, head.header(delimiter))
    units = {field: _unit_of(field, mapping[field], said.get(field, "")) for field in _TIMED if field in mapping}
    needs = frozenset(mapping.values())  # a damaged header may hold none of them
    reader = Delimited("table", "a table of jobs", partial(_parse, mapping, units), needs, delimiter=delimiter)
    parsed = reader.read(path, options)
    frame = parsed.frame
    if frame.is_empty():
        first = f" ({parsed.problems[0]})" if parsed.problems else ""
        raise TraceError(f"{path}: no row is a GPU job with a length{first}; say which column is what with --map")
    zero = frame["submit_s"].min()
    frame = frame.with_columns(pl.col("submit_s") - zero)
    shown = dict(mapping)
    for field, (unit, seconds) in units.items():
        if seconds != 1.0 or field in said:
            shown[field] = f"{mapping[field]} ({unit})"
    note = "read as a table: " + ", ".join(f"{field} = {column}" for field, column in shown.items())
    return Trace(frame, "table", tuple(parsed.problems), parsed.n_rows_in, str(path), (note,)), shown


def _check(path: Path, mapping: Mapping[str, str], columns: list[str]) -> None:
    missing = [field for field in ("submit", "gpus") if field not in mapping]
    if "duration" not in mapping and not {"start", "end"} <= mapping.keys():
        missing.append("duration")
    if missing:
        slurm_too = f"; Slurm prints all that is needed with: {SACCT}" * any(c.startswith("JobID") for c in columns)
        raise NoTableError(
            f"{path}: no column looks like {' or '.join(missing)} (the first line, the header, has "
            f"{', '.join(columns)}); say which with --map {','.join(f'{field}=COLUMN' for field in missing)}{slurm_too}"
        )


def _parse(mapping: Mapping[str, str], units: Mapping[str, Unit], rows: Rows) -> pl.DataFrame:
    blank = pl.Series([None] * len(rows), dtype=pl.Float64)
    submit = _moment(rows, mapping["submit"], required=True)
    start = _moment(rows, mapping["start"]) if "start" in mapping else blank
    end = _moment(rows, mapping["end"]) if "end" in mapping else blank
    gpus = _gpus(rows, mapping["gpus"])
    rows.leave_out(gpus == 0, mapping["gpus"], "uses no GPU")
    duration = _duration(rows, mapping["duration"], units["duration"]) if "duration" in mapping else end - start
    rows.leave_out(duration.is_null(), mapping.get("duration", mapping.get("end", "")), "has no length")
    rows.damage(duration < 0, mapping.get("end", ""), "ends before it starts")
    rows.leave_out(duration == 0, mapping.get("duration", mapping.get("end", "")), "took no time")
    wait = _duration(rows, mapping["wait"], units["wait"]) if "wait" in mapping else start - submit
    names = {field: rows.name(mapping[field]) for field in ("user", "vc", "status") if field in mapping}
    return rows.finish(
        {"job_id": rows.job_ids(mapping.get("job_id")), "submit_s": submit, "gpus": gpus, "duration_s": duration,
         "model": rows.column(mapping["model"]) if "model" in mapping else None, "wait_s": wait.clip(0.0), **names}
    )  # fmt: skip


def _moment(rows: Rows, column: str, required: bool = False) -> pl.Series:
    """Times as seconds: numbers (milliseconds since 1970, if that large), or dates in one of the usual forms."""
    rows.text = rows.text.with_columns(pl.col(column).replace(dict.fromkeys(slurm.NEVER)))
    known = rows.column(column).drop_nulls()
    numbers = known.cast(pl.Float64, strict=False)
    if numbers.null_count() <= len(known) // 10:  # what is no number is damaged
        values = rows.number(column, high=1e15, required=required)
        return values / 1000.0 if (numbers.median() or 0.0) > _MILLISECONDS else values  # type: ignore[operator]
    known = known.head(1000)
    for pattern in _DATES:
        if known.str.to_datetime(pattern, time_unit="us", strict=False).null_count() <= len(known) // 10:
            return rows.moment(column, pattern, required=required)
    text = rows.column(column)
    rows.damage(
        text.is_not_null(), column,
        lambda row: f"{str(text[row])[:40]!r} is not a time; write seconds, milliseconds, or dates like "
        "2024-05-31 14:05:00, 05/31/2024 02:05 PM or 31.05.2024 14:05",
    )  # fmt: skip
    return rows.moment(column, _DATES[0], required=required)


def _unit_called(word: str) -> Unit | None:
    """The unit of that name."""
    return next(((name, s) for words, name, s in _UNITS if re.fullmatch(words, word.strip(), re.IGNORECASE)), None)


def _without_words(column: str) -> str:
    """A column's name without the unit at its end: `Runtime` of `Runtime(h)`, `run` of `run_min`."""
    name, _, word = re.sub(r"[\s()\[\]_]+", " ", column).strip().rpartition(" ")
    return name if name and _unit_called(word) else column


def _without_unit(field: str, said: str, columns: Sequence[str]) -> str:
    """The column of `--map`, which may end in a unit."""
    return said.rpartition(":")[0] if field in _TIMED and ":" in said and said not in columns else said


def _unit_of(field: str, column: str, said: str) -> Unit:
    """The unit of a column of numbers: what `--map` says, or the end of its name, or seconds."""
    asked = _unit_called(said.rpartition(":")[2]) if said not in ("", column) else None
    return asked or _unit_called(re.split(r"[\s()\[\]_]+", re.sub(r"[)\]\s]+$", "", column))[-1]) or ("seconds", 1.0)


def _duration(rows: Rows, column: str, unit: Unit) -> pl.Series:
    text = rows.column(column)
    known = text.drop_nulls()
    if (~known.str.contains(r"^\d+(\.\d*)?$")).sum() <= len(known) // 10:  # what is no number is damaged
        return rows.number(column, required=False) * unit[1]
    seconds = slurm.elapsed_s(text)
    bad = text.is_not_null() & (seconds.is_null() | (seconds > MAX_S))
    rows.damage(bad, column, lambda row: f"{str(text[row])[:40]!r} is neither seconds nor [days-]hours:minutes:seconds")
    return seconds


def _gpus(rows: Rows, column: str) -> pl.Series:
    text = rows.name(column)
    if bool(text.str.contains("=|:|gpu").any()):
        rows.text = rows.text.with_columns(pl.col(column).alias("AllocTRES"))
        return slurm.gpus_of(rows)
    return rows.count(column, high=1e7, required=False).fill_null(0)
