"""Rows: a batch of text rows turned into one frame schema, with an account of every row that fails on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import polars as pl

from weft.errors import EngineError

# One row per job. submit_s counts from the trace's own zero (wall-clock formats: from the first submission).
# duration_s, iterations, model and batch are null where the format does not know them; user, vc and status are "".
TRACE: dict[str, pl.DataType] = {
    "job_id": pl.String(), "submit_s": pl.Float64(), "gpus": pl.Int64(), "duration_s": pl.Float64(),
    "iterations": pl.Int64(), "model": pl.String(), "user": pl.String(), "vc": pl.String(), "status": pl.String(),
    "batch": pl.Int64(), "line": pl.Int64(), "wait_s": pl.Float64(), "shape": pl.String(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace, as the file tells it; `line` is where (the first line of a JSON object)."""

    job_id: str
    submit_s: float
    gpus: int
    duration_s: float | None
    iterations: int | None
    model: str | None
    user: str
    vc: str
    status: str
    batch: int | None
    line: int
    wait_s: float | None = None
    shape: str | None = None  # GPUs on each of its servers, "4+4"


class Problem(NamedTuple):
    """A row that did not become a job.

    Either it is damaged, or (`left_out`) sound but of no use for training on GPUs, such as a job without GPUs.
    """

    line: int
    field: str
    message: str
    left_out: bool = False
    file: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file else f"line {self.line}"
        return f"{where}: {self.field}: {self.message}" if self.field else f"{where}: {self.message}"


@dataclass(frozen=True)
class Trace:
    """The jobs of a trace file or folder, and an account of every row that is not among them."""

    frame: pl.DataFrame  # TRACE
    format: str
    problems: tuple[Problem, ...]
    n_rows_in: int  # rows of the file: lines that are neither header nor blank, or elements of a JSON list
    path: str = ""
    notes: tuple[str, ...] = ()  # what a reader of results must know about this trace
    start: str = ""  # wall-clock time of submit_s = 0, where the format tells

    def __post_init__(self) -> None:
        if self.n_rows_in != self.frame.height + len(self.problems):
            counts = f"{self.n_rows_in} rows in, {self.frame.height} jobs out, {len(self.problems)} reported"
            raise EngineError(f"{self.path}: the {self.format} reader lost count: {counts}")

    @property
    def n_damaged(self) -> int:
        """Rows that could not be read."""
        return sum(not p.left_out for p in self.problems)

    @property
    def n_left_out(self) -> int:
        """Rows that could be read but are no GPU training jobs with a known length."""
        return len(self.problems) - self.n_damaged

    def jobs(self) -> Iterator[TraceJob]:
        """The jobs one by one, in the order of the file."""
        for row in self.frame.iter_rows():
            yield TraceJob(*row)


MAX_S = 1e12  # 30,000 years: larger times are damaged data, and would lose the fractions of a second
MAX_COUNT = 1e15
MAX_GPUS = 1e7
FIRST_YEAR_S = 0.0
LAST_YEAR_S = datetime(2200, 1, 1, tzinfo=UTC).timestamp()
EXAMPLE = datetime(2024, 5, 31, 14, 5, tzinfo=UTC)  # in messages
NOTHING = ("", "None", "null", "NULL", "NaN", "nan", "N/A", "NA")


class Rows:
    """A batch of rows of one file.

    Columns are text, stripped, null where empty. Each conversion reports the rows it cannot convert; a row is reported
    once, for the first thing found wrong with it, and is then gone.
    """

    def __init__(self, text: Mapping[str, Sequence[str | None]], lines: list[int], first: int, stem: str) -> None:
        frame = pl.DataFrame(dict(text), schema=dict.fromkeys(text, pl.String()))
        blank = pl.col(pl.String).is_in(NOTHING)
        stripped = frame.with_columns(pl.col(pl.String).str.strip_chars(" \t\r\0"))
        self.text = stripped.with_columns(pl.when(blank).then(None).otherwise(pl.col(pl.String)).name.keep())
        self.lines = pl.Series("line", lines, dtype=pl.Int64)
        self.gone = pl.Series([False], dtype=pl.Boolean).new_from_index(0, len(lines))
        self.first = first  # number of this batch's first row in its file, from zero
        self.stem = stem  # name of the file without folder and endings
        self.problems: list[Problem] = []
        self.notes: Counter[str] = Counter()  # what a note counts: how often in this batch

    def __len__(self) -> int:
        return len(self.lines)

    def has(self, column: str) -> bool:
        """Whether the file has this column."""
        return column in self.text.columns

    def column(self, column: str) -> pl.Series:
        """A column as text; all null if the file does not have it."""
        return self.text[column] if self.has(column) else pl.Series(column, [None] * len(self), dtype=pl.String)

    def name(self, column: str) -> pl.Series:
        """A column as text, "" where it is empty."""
        return self.column(column).fill_null("")

    def number(
        self, column: str, *, low: float = 0.0, high: float = MAX_S, required: bool = True, whole: bool = False
    ) -> pl.Series:
        """A column as numbers in [low, high]; null where it is empty and not required."""
        text = self.column(column)
        number = text.cast(pl.Float64, strict=False)
        self._missing(text, column, required)
        self.damage(text.is_not_null() & (number.is_null() | number.is_nan()), column, _quote(text, "is not a number"))
        self.damage(number < low, column, _quote(text, f"is below {low:g}"))
        self.damage(number > high, column, _quote(text, f"is above {high:g}"))
        if whole:
            self.damage(number != number.floor(), column, _quote(text, "is not a whole number"))
        return number

    def count(self, column: str, *, low: float = 0.0, high: float = MAX_COUNT, required: bool = True) -> pl.Series:
        """A column as whole numbers ("8" and "8.0" alike)."""
        return self.number(column, low=low, high=high, required=required, whole=True).cast(pl.Int64, strict=False)

    def gpus(self, column: str) -> pl.Series:
        """A column as a number of GPUs; jobs that have none are left out."""
        gpus = self.count(column, high=MAX_GPUS)
        self.leave_out(gpus == 0, column, "uses no GPU")
        return gpus

    def shape(self, column: str, gpus: pl.Series) -> pl.Series:
        """A column with the GPUs of a job on each of its servers, "4+4"; null where it is empty."""
        text = self.column(column)
        parts = text.str.split("+").list.eval(pl.element().cast(pl.Int64, strict=False))
        wrong = parts.list.eval((pl.element() < 1) | pl.element().is_null()).list.any() | (parts.list.sum() != gpus)
        self.damage(text.is_not_null() & wrong, column, _quote(text, "is not the GPUs on each server, such as 4+4"))
        return text

    def moment(self, column: str, pattern: str = "%Y-%m-%d %H:%M:%S", *, required: bool = True) -> pl.Series:
        """A column of wall-clock times as seconds since 1970; without a zone they are taken as they stand."""
        text = self.column(column)
        parsed = text.str.to_datetime(pattern, time_unit="us", strict=False)
        seconds = parsed.dt.epoch("us").cast(pl.Float64) / 1e6
        self._missing(text, column, required)
        self.damage(
            text.is_not_null() & seconds.is_null(), column, _quote(text, f"is not a time like {EXAMPLE:{pattern}}")
        )
        outside = (seconds < FIRST_YEAR_S) | (seconds >= LAST_YEAR_S)
        self.damage(outside, column, _quote(text, "is not between the years 1970 and 2200"))
        return seconds

    def job_ids(self, column: str | None) -> pl.Series:
        """A column of job ids; without such a column the number of the row in its file, counted from zero."""
        if column is None or not self.has(column):
            rows = range(self.first, self.first + len(self))
            return pl.Series("job_id", rows, dtype=pl.Int64).cast(pl.String)
        self._missing(self.column(column), column, True)
        return self.column(column)

    def leave_out(self, where: pl.Series, field: str, message: str | Callable[[int], str]) -> None:
        """Report these rows as sound but of no use."""
        self.damage(where, field, message, left_out=True)

    def damage(
        self, where: pl.Series, field: str, message: str | Callable[[int], str], left_out: bool = False
    ) -> None:  # fmt: skip
        """Report these rows as damaged."""
        new = where.fill_null(False) & ~self.gone
        if not new.any():
            return
        rows = new.arg_true().to_list()
        lines = self.lines.gather(rows).to_list()
        self.problems += [
            Problem(line, field, message if isinstance(message, str) else message(row), left_out)
            for row, line in zip(rows, lines, strict=True)
        ]
        self.gone = self.gone | new

    def note(self, what: str, where: pl.Series) -> None:
        """Count, for the trace's notes, the remaining rows where something holds."""
        if n := int((where.fill_null(False) & ~self.gone).sum()):
            self.notes[what] += n

    def finish(self, columns: Mapping[str, pl.Series | str | None]) -> pl.DataFrame:
        """The rows that are left, as TRACE; a constant stands for a column of it, None for unknown."""
        series: dict[str, pl.Series] = {}
        for name, dtype in TRACE.items():
            value = (
                self.lines if name == "line" else columns.get(name, "" if name in ("user", "vc", "status") else None)
            )
            if isinstance(value, pl.Series):
                series[name] = value.cast(dtype)
            else:
                series[name] = pl.Series([value], dtype=dtype).new_from_index(0, len(self))
        return pl.DataFrame(series, schema=TRACE).filter(~self.gone)

    def _missing(self, text: pl.Series, column: str, required: bool) -> None:
        if required:
            self.damage(text.is_null(), column, "is missing" if self.has(column) else "the file has no such column")


@dataclass(frozen=True)
class ByName:
    """Parses formats whose columns differ in their names only: ByName("id", "submit_time", "num_gpus", ...)(rows).

    A column without a name is one that the format does not have. Times are in units of `unit_s` seconds, or dates.
    """

    job_id: str | None
    submit: str
    gpus: str
    duration: str = ""
    iterations: str = ""
    some_iterations: str = ""  # the same where a row may lack them
    model: str = ""
    batch: str = ""
    user: str = ""
    vc: str = ""
    status: str = ""
    file_is_vc: bool = False
    unit_s: float = 1.0
    dates: bool = False

    def __call__(self, rows: Rows) -> pl.DataFrame:
        """The rows as TRACE."""
        columns: dict[str, pl.Series | str | None] = {"job_id": rows.job_ids(self.job_id)}
        columns["submit_s"] = rows.moment(self.submit) if self.dates else self._seconds(rows, self.submit)
        columns["gpus"] = rows.gpus(self.gpus)
        if self.duration:
            columns["duration_s"] = self._seconds(rows, self.duration)
        if self.iterations or self.some_iterations:
            columns["iterations"] = rows.count(self.iterations or self.some_iterations, required=bool(self.iterations))
        columns["model"] = rows.column(self.model) if self.model else None
        columns["batch"] = rows.count(self.batch, required=False) if self.batch else None
        columns["user"] = rows.name(self.user) if self.user else ""
        columns["vc"] = rows.stem if self.file_is_vc else rows.name(self.vc) if self.vc else ""
        columns["status"] = rows.name(self.status) if self.status else ""
        return rows.finish(columns)

    def _seconds(self, rows: Rows, column: str) -> pl.Series:
        values = rows.number(column, high=MAX_S / self.unit_s)
        return values * self.unit_s if self.unit_s >= 1 else values / (1 / self.unit_s)


def _quote(text: pl.Series, complaint: str) -> Callable[[int], str]:
    def message(row: int) -> str:
        value = str(text[row])
        return f"{value[:40]!r}{'...' if len(value) > 40 else ''} {complaint}"

    return message
