"""A run read from the files of a folder; a path that cannot be written is reported before anything runs.

`run.json` holds what is in no table (seed, notes, scenario text), so that the folder is the whole run.
"""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl

from weft.errors import InputError
from weft.results import run as schemas
from weft.results.run import RunResult

PICTURES = (".svg", ".png", ".pdf")  # endings of files with a picture


def refuse_unwritable(path: Path | None, what: str = "report") -> None:
    """Raise if a file cannot be written there (None: no file is wanted); folders that are missing are made."""
    if path is None:
        return
    if what == "report" and path.suffix.lower() not in ("", ".html", ".htm"):
        raise InputError(f"{path}: a report is an HTML page; name it {path.stem}.html")
    if what == "picture" and path.suffix.lower() not in PICTURES:
        raise InputError(f"--plot: {path} must end in {', '.join(PICTURES)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, what, error.strerror) from None
    if path.is_dir():
        raise _unwritable(path, what, "Is a directory")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _unwritable(path, what, "Permission denied")


def refuse_unwritable_folder(folder: Path) -> None:
    """Raise if nothing can be written into that folder, which is made if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: a file is in the way of the folder for the run; name another folder") from None
    except OSError as error:
        raise _no_folder(folder, error.strerror) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _no_folder(folder, "Permission denied")


def write_text(path: Path, text: str, what: str) -> None:
    """Write a file; `what` names it in the message if that fails."""
    refuse_unwritable(path, what)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, what, error.strerror) from None


def _unwritable(path: Path, what: str, why: str | None) -> InputError:
    return InputError(f"{path}: cannot write the {what} ({why}); name a writable file")


def _no_folder(folder: Path, why: str | None) -> InputError:
    return InputError(f"{folder}: cannot write the run ({why}); name a writable folder")


TABLES: dict[str, Any] = {
    "jobs": schemas.JOBS,
    "iterations": schemas.ITERATIONS,
    "links": schemas.LINKS,
    "decisions": schemas.DECISIONS,
    "spans": schemas.SPANS,
    "segments": schemas.SEGMENTS,
    "link_series": schemas.LINK_SERIES,
}
FACTS = tuple(f.name for f in fields(RunResult) if f.name not in TABLES)
FORMAT = 1  # version of run.json


def load_run(out_dir: str | Path) -> RunResult:
    """The run that `write_outputs` wrote into a folder."""
    folder = Path(out_dir)
    facts = _read_facts(folder / "run.json")
    tables: dict[str, Any] = {name: _read_table(folder / f"{name}.parquet", schema) for name, schema in TABLES.items()}
    facts["notes"] = tuple(facts.get("notes", ()))
    facts["server_of_gpu"] = tuple(facts.get("server_of_gpu", ()))
    try:
        return RunResult(**tables, **facts)
    except TypeError as error:
        raise InputError(f"{folder / 'run.json'}: {error}; write the run again with this version of weft") from None


def _read_facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{path}: not there; give a folder written by weft simulate --out") from None
    except ValueError:
        raise InputError(f"{path}: not valid JSON; run weft simulate --out again") from None
    if not isinstance(facts, dict) or facts.pop("format", None) != FORMAT:
        raise InputError(f"{path}: field format is not {FORMAT}; write the run again with this version of weft")
    return facts


def _read_table(path: Path, schema: Any) -> pl.DataFrame:
    try:
        frame = pl.read_parquet(path)
    except OSError:
        raise InputError(f"{path}: not there; give a folder written by weft simulate --out") from None
    except pl.exceptions.PolarsError:
        raise InputError(f"{path}: not a Parquet file; run weft simulate --out again") from None
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise InputError(f"{path}: column {missing[0]} is missing; write the run again with this version of weft")
    return frame.select(list(schema)).cast(schema)
