"""Store: results of finished runs on disk, so that an interrupted comparison goes on where it was.

Each result is one file in the folder `results` of weft's cache, written beside its place and then renamed: a file that
is there is whole. A file that cannot be read is ignored. When the files take more room than allowed, the
least recently used ones are removed first.
"""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import polars as pl

from weft.errors import InputError
from weft.kernels import cache_root
from weft.results.run import RunResult

MOST_MB = 2000  # unless WEFT_RESULTS_MB says otherwise
_STALE_S = 86_400.0  # a file that was still being written this long ago will never be finished


def results_folder() -> Path:
    """Where results are kept."""
    return cache_root() / "results"


def results_limit() -> int:
    """Bytes that results may take; 0: none are kept."""
    text = os.environ.get("WEFT_RESULTS_MB", "")
    try:
        megabytes = float(text or MOST_MB)
        return int(megabytes * 1e6)
    except (ValueError, OverflowError):
        raise InputError(f"WEFT_RESULTS_MB is {text!r}; give a number of megabytes, or 0 to keep no results") from None


@dataclass(frozen=True)
class Store:
    """Results by key. It never raises for what is wrong on disk: a result that cannot be kept is made again."""

    folder: Path
    most_bytes: int

    def load(self, key: str) -> Any:
        """What was saved under a key; None if there is nothing, or nothing that can be read."""
        path = self._path(key)
        try:
            with zipfile.ZipFile(path) as file:  # its checksums tell a damaged file
                meta = json.loads(file.read("meta.json"))
                frames = {name: pl.read_ipc(io.BytesIO(file.read(name))) for name in meta["frames"]}
            found = _run(meta["values"], frames) if meta["kind"] == "run" else meta["values"]
            os.utime(path)  # used just now
        except Exception:  # whatever is wrong with the file, the run can be done again
            return None
        return found

    def save(self, key: str, outcome: RunResult | dict[str, Any] | str) -> None:
        """Keep an outcome: a run, or something JSON-able."""
        part = self.folder / f".{key}.{os.getpid()}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_bytes(_packed(outcome))
            os.replace(part, self._path(key))
            self._trim()
        except OSError:  # a full or read-only disk: the result is not kept
            with suppress(OSError):
                part.unlink()

    def size(self) -> tuple[int, int]:
        """How many results there are, and their bytes."""
        sizes = [size for _, size, _ in self._entries()]
        return len(sizes), sum(sizes)

    def clear(self) -> None:
        """Remove all results."""
        for _, _, path in self._entries():
            path.unlink(missing_ok=True)
        self._sweep(0.0)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.run"

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        for path in self.folder.glob("*.run"):
            with suppress(OSError):  # another process has removed it
                status = path.stat()
                yield status.st_mtime, status.st_size, path

    def _trim(self) -> None:
        entries = sorted(self._entries())
        total = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if total <= self.most_bytes:
                break
            path.unlink(missing_ok=True)
            total -= size
        self._sweep(_STALE_S)

    def _sweep(self, age_s: float) -> None:
        for path in self.folder.glob(".*.part"):
            with suppress(OSError):
                if path.stat().st_mtime <= time.time() - age_s:
                    path.unlink()


def _packed(outcome: RunResult | dict[str, Any] | str) -> bytes:
    frames: dict[str, pl.DataFrame] = {}
    values: Any = outcome
    if isinstance(outcome, RunResult):
        values = {field.name: getattr(outcome, field.name) for field in fields(outcome)}
        frames = {name: value for name, value in values.items() if isinstance(value, pl.DataFrame)}
        values = {name: value for name, value in values.items() if name not in frames}
    kind = "run" if isinstance(outcome, RunResult) else "value"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("meta.json", json.dumps({"kind": kind, "frames": list(frames), "values": values}))
        for name, frame in frames.items():
            part = io.BytesIO()
            frame.write_ipc(part, compression="lz4")
            file.writestr(name, part.getvalue())
    return buffer.getvalue()


def _run(values: dict[str, Any], frames: dict[str, pl.DataFrame]) -> RunResult:
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return RunResult(**given, **frames)  # type: ignore[arg-type]
