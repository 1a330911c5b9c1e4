"""Parquet with the columns of weft's plain CSV: what `weft trace convert` writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from weft.errors import TraceError
from weft.workload.traces.base import Head, Options, Parsed, collect, stem_of
from weft.workload.traces.plain import PLAIN_COLUMNS, parse
from weft.workload.traces.rows import Rows

__all__ = ["FORMATS"]

MAGIC = b"PAR1"


@dataclass(frozen=True)
class Parquet:
    """Reads a Parquet file; its rows have no lines, so problems name the row number, from 1."""

    name: str = "parquet"
    title: str = "Parquet with the plain columns"
    wall_clock: bool = False

    def matches(self, head: Head) -> bool:
        """Whether the file begins as Parquet does."""
        return head.raw.startswith(MAGIC)

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
        collect(path, Rows(text, list(range(1, kept.height + 1)), 0, stem_of(path)), parse, [], parsed, options)
        return parsed


FORMATS = (Parquet(),)
