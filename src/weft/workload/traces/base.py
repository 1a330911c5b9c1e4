"""How a trace format is recognised and read: delimited text line by line, JSON lists element by element."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import polars as pl

from weft.errors import TraceError
from weft.workload.traces.rows import TRACE, Problem, Rows
from weft.workload.traces.text import Line, elements, head_bytes, line_batches

BATCH = 20_000


@dataclass(frozen=True)
class Options:
    """How to read: what a damaged row does, and how attempts of one job add up where a format lists them."""

    on_error: Literal["skip", "fail"] = "skip"
    attempts: Literal["all", "last"] = "all"


@dataclass
class Parsed:
    """What a reader collects from one file."""

    frames: list[pl.DataFrame] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    n_rows_in: int = 0
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def frame(self) -> pl.DataFrame:
        """All rows read, in the order of the file."""
        return pl.concat(self.frames) if self.frames else pl.DataFrame(schema=TRACE)


@dataclass(frozen=True)
class Head:
    """The beginning of a file, from which its format is recognised."""

    raw: bytes
    lines: tuple[str, ...]  # the first lines that are not blank

    @staticmethod
    def of(path: Path) -> Head:
        """The head of a file."""
        raw = head_bytes(path)
        text = raw.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
        lines = tuple(line.strip("\r") for line in text.split("\n") if line.strip())
        return Head(raw, lines[:50])

    def header(self, delimiter: str) -> list[str]:
        """Column names, if the first line is a header."""
        return [name.strip().strip('"') for name in self.lines[0].split(delimiter)] if self.lines else []


def stem_of(path: Path) -> str:
    """The name of a file without its folder and endings."""
    return path.name.split(".")[0]


@dataclass(frozen=True)
class Delimited:
    """A text format of one row per line. A quoted field cannot span lines, so that damage stays in its line."""

    name: str
    title: str
    parse: Callable[[Rows], pl.DataFrame]
    needs: frozenset[str] = frozenset()  # columns that must be there, and that identify the format
    either: tuple[frozenset[str], ...] = ()  # at least one column of each of these sets
    lacks: frozenset[str] = frozenset()  # columns that only another format has
    delimiter: str = ","
    layouts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # no header: column names by their number
    tell: Callable[[Head], bool] | None = None  # a further sign, where columns do not suffice
    wall_clock: bool = False

    def matches(self, head: Head) -> bool:
        """Whether the header (or, without one, the number of fields) is this format's."""
        if not head.lines:
            return False
        columns = head.header(self.delimiter)
        if self.layouts:
            fits = len(columns) in self.layouts
        else:
            fits = not self._missing(columns) and not self.lacks & set(columns)
        return fits and (self.tell is None or self.tell(head))

    def read(self, path: Path, options: Options) -> Parsed:
        """Read a file batch by batch."""
        parsed = Parsed()
        columns: tuple[str, ...] | None = None
        for number, lines in line_batches(path):
            if columns is None:
                columns, number, lines = self._columns(path, number, lines)
            if columns is not None:
                for start in range(0, len(lines), BATCH):
                    self._batch(path, columns, number + start, lines[start : start + BATCH], parsed, options)
        if columns is None:
            raise TraceError(f"{path}: the file is empty; a trace of format {self.name} was expected")
        return parsed

    def _missing(self, names: Sequence[str]) -> str:
        """What the header lacks, in words."""
        lost = sorted(self.needs - set(names)) + [" or ".join(sorted(e)) for e in self.either if not e & set(names)]
        return ", ".join(lost)

    def _columns(self, path: Path, number: int, lines: list[Line]) -> tuple[tuple[str, ...] | None, int, list[Line]]:
        """Column names from the header or the first row, and the lines after the header."""
        for i, line in enumerate(lines):
            if line is not None and not line.strip():
                continue
            names = tuple(n.strip() for n in _split(line or "", self.delimiter) or ())
            if self.layouts:
                if len(names) not in self.layouts:
                    want = " or ".join(str(n) for n in self.layouts)
                    raise TraceError(f"{path}:{number + i}: {len(names)} fields; format {self.name} has {want}")
                return self.layouts[len(names)], number + i, lines[i:]
            if lost := self._missing(names):
                raise TraceError(f"{path}:{number + i}: no column {lost} in the header, which format {self.name} needs")
            if twice := sorted({n for n in names if names.count(n) > 1}):
                raise TraceError(f"{path}:{number + i}: the header has column {twice[0]!r} twice; rename one")
            return names, number + i + 1, lines[i + 1 :]
        return None, number, []

    def _batch(
        self, path: Path, columns: tuple[str, ...], number: int, lines: list[Line], parsed: Parsed, options: Options
    ) -> None:
        cells: list[Sequence[str]] = []
        numbers: list[int] = []
        broken: list[Problem] = []
        for i, line in enumerate(lines, number):
            if line is None:
                broken.append(Problem(i, "", "is not UTF-8 text"))
                continue
            if not line.strip():
                continue
            row = _split(line, self.delimiter)
            if row is None:
                broken.append(Problem(i, "", "has a quote that is not closed in the same line"))
            elif len(row) != len(columns):
                broken.append(Problem(i, "", f"has {len(row)} fields instead of {len(columns)}"))
            else:
                cells.append(row)
                numbers.append(i)
        text: dict[str, Sequence[str | None]] = dict.fromkeys(columns, ())
        text.update(zip(columns, zip(*cells, strict=True), strict=False))
        rows = Rows(text, numbers, parsed.n_rows_in, stem_of(path))
        collect(path, rows, self.parse, broken, parsed, options)


def _split(line: str, delimiter: str) -> Sequence[str] | None:
    """The fields of a line; only comma-separated files quote. None if a quote stays open."""
    if delimiter != "," or '"' not in line:
        return line.split(delimiter)
    try:
        rows = list(csv.reader([line], strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


RecordOf = Callable[[Mapping[str, object], Options], dict[str, str | None]]


@dataclass(frozen=True)
class JsonList:
    """A JSON list of objects, one per job, read element by element."""

    name: str
    title: str
    columns: tuple[str, ...]
    record: RecordOf  # an object as text, by column
    parse: Callable[[Rows], pl.DataFrame]
    keys: tuple[str, ...]  # that identify the format
    wall_clock: bool = False

    def matches(self, head: Head) -> bool:
        """Whether the file begins as a list and shows this format's keys."""
        begins = bool(head.lines) and head.lines[0].lstrip().startswith("[")
        return begins and all(f'"{key}"'.encode() in head.raw for key in self.keys)

    def read(self, path: Path, options: Options) -> Parsed:
        """Read a file batch by batch; an element becomes text at once, since as an object it is far larger."""
        parsed, batch = Parsed(), _JsonBatch([], [], [])
        for line, element in elements(path):
            batch.add(line, element, self.record, options)
            if len(batch.lines) + len(batch.broken) == BATCH:
                self._flush(path, batch, parsed, options)
                batch = _JsonBatch([], [], [])
        self._flush(path, batch, parsed, options)
        return parsed

    def _flush(self, path: Path, batch: _JsonBatch, parsed: Parsed, options: Options) -> None:
        text = {column: [record.get(column) for record in batch.records] for column in self.columns}
        rows = Rows(text, batch.lines, parsed.n_rows_in, stem_of(path))
        collect(path, rows, self.parse, batch.broken, parsed, options)


@dataclass
class _JsonBatch:
    """Elements of a list in their order: objects with their lines, and elements that are not objects."""

    records: list[dict[str, str | None]]
    lines: list[int]
    broken: list[Problem]

    def add(self, line: int, element: object, record_of: RecordOf, options: Options) -> None:
        """Take in one element."""
        if isinstance(element, str):
            self.broken.append(Problem(line, "", element))
        elif not isinstance(element, dict):
            self.broken.append(Problem(line, "", f"is {type(element).__name__}, not an object with a job's fields"))
        else:
            record = record_of(element, options)
            if any(value is not None and _unsound(value) for value in record.values()):
                self.broken.append(Problem(line, "", "is not UTF-8 text"))
            else:
                self.records.append(record)
                self.lines.append(line)


def _unsound(value: str) -> bool:
    """Whether text shows the mark of bytes that could not be decoded, or half of a surrogate pair."""
    return not value.isascii() and ("\ufffd" in value or any("\ud800" <= c <= "\udfff" for c in value))


def collect(
    path: Path,
    rows: Rows,
    parse: Callable[[Rows], pl.DataFrame],
    broken: list[Problem],
    parsed: Parsed,
    options: Options,
) -> None:
    """Parse a batch and add it to what the file gave so far; rows in = jobs out + problems."""
    frame = parse(rows)
    problems = sorted(broken + rows.problems)
    if options.on_error == "fail" and (bad := next((p for p in problems if not p.left_out), None)):
        raise TraceError(f"{bad._replace(file=str(path))}; mend the row, or let damaged rows be skipped")
    parsed.frames.append(frame)
    parsed.problems += problems
    parsed.n_rows_in += len(rows) + len(broken)
    parsed.notes.update(rows.notes)
