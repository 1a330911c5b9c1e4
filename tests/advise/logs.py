"""Logs and outcomes that the tests of advice begin with."""

from pathlib import Path
from typing import Any

from weft.advise.jobs import JobLog, read_jobs


def log_file(path: Path, n: int = 240, length_s: int = 400, waits: bool = False) -> Path:
    """Every fifth job is long and wide; the short ones come right behind it, and wait under FIFO."""
    rows = ["job_id,submit_s,gpus,duration_s,user" + (",wait_s" if waits else "")]
    for i in range(n):
        wide = i % 5 == 0
        row = f"j{i},{i * 300},{8 if wide else 1},{3 * length_s if wide else length_s},u{i % 3}"
        rows.append(row + (",60" if waits else ""))
    path.write_text("\n".join(rows) + "\n")
    return path


def small(tmp_path: Path, **options: Any) -> JobLog:
    """Such a log, read."""
    return read_jobs(log_file(tmp_path / "log.csv", **options), {})


def outcome(jct: float, stops: float = 0.0) -> dict[str, float]:
    """What came of a stack in one window."""
    more = dict.fromkeys(("jct_p99_s", "slowdown_p99", "worst_user", "wait_mean_s"), jct)
    return {"jct_mean_s": jct, "preemptions": stops, "unfinished": 0.0, **more}
