"""What every trace reader gives back: one frame schema, one job record, one kind of problem report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from weft.errors import EngineError

__all__ = ["TRACE", "Problem", "Trace", "TraceJob"]

# One row per job. submit_s counts from the trace's own zero (wall-clock formats: from the first submission).
# duration_s, iterations, model, batch and wait_s (from submission to the first start, as recorded) are null where the
# format does not know them; user, vc and status are "".
TRACE: dict[str, pl.DataType] = {
    "job_id": pl.String(), "submit_s": pl.Float64(), "gpus": pl.Int64(), "duration_s": pl.Float64(),
    "iterations": pl.Int64(), "model": pl.String(), "user": pl.String(), "vc": pl.String(), "status": pl.String(),
    "batch": pl.Int64(), "line": pl.Int64(), "wait_s": pl.Float64(),
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
