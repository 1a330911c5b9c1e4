"""A live run as a trace in weft's plain CSV, which `weft simulate` replays: what would another stack have done?"""

from __future__ import annotations

import csv
import io
from pathlib import Path

from weft.errors import InputError
from weft.live.server.ledger import Ledger

__all__ = ["write_trace"]

_COLUMNS = ("job_id", "submit_s", "gpus", "duration_s", "iterations", "model", "user", "status")

_MOMENT_S = 0.001


def write_trace(ledger: Ledger, path: Path) -> int:
    """Write the jobs that have ended and ran; returns how many. The file is whole or the old one, never half.

    `duration_s` is the time on GPUs, all attempts together; of a job that came and went between two looks, a moment.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    rows = [row for row in ledger.jobs() if row.status == "finished" or (row.status and row.run_s > 0)]
    for row in rows:
        said = row.description
        iterations = said.iterations if row.status == "finished" else row.iterations
        times = (f"{row.submit_s:.6f}", said.gpus, f"{max(row.run_s, _MOMENT_S):.6f}")
        writer.writerow((row.id, *times, iterations or "", said.model, said.user, row.status))
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(text.getvalue(), encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot write the trace ({error.strerror}); give a path that can be written"
        ) from None
    return len(rows)
