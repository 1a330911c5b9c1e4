"""A run as files in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.results.files import FACTS, FORMAT, TABLES, refuse_unwritable_folder
from weft.results.metrics import summary
from weft.results.report import write_report
from weft.results.run import RunResult
from weft.results.timeline import write_timeline


def write_outputs(run: RunResult, out_dir: str | Path) -> dict[str, Path]:
    """Write everything about a run into a folder (made if missing); returns the path of each file by its name."""
    folder = Path(out_dir)
    refuse_unwritable_folder(folder)
    try:
        written = {f"{name}.parquet": folder / f"{name}.parquet" for name in TABLES}
        for name in TABLES:
            getattr(run, name).write_parquet(written[f"{name}.parquet"], compression="zstd")
        facts = {"format": FORMAT, **{name: getattr(run, name) for name in FACTS}}
        written["run.json"] = _write_json(folder / "run.json", facts)
        written["summary.json"] = _write_json(folder / "summary.json", summary(run))
    except OSError as error:
        raise InputError(f"{folder}: cannot write the run ({error.strerror}); name a writable folder") from None
    written["report.html"] = write_report(folder / "report.html", run)
    written["timeline.json"] = write_timeline(folder / "timeline.json", run)
    return written


def _write_json(path: Path, value: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return path
