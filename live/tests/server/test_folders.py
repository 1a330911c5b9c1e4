"""Folders of attempts that have ended do not stay for ever."""

from __future__ import annotations

import os
import time
from pathlib import Path

from weft_live.server.folders import remove_old


def test_old_attempts_are_removed_and_those_that_run_or_still_change_stay(tmp_path: Path) -> None:
    now = time.time()
    for name in ("gone/1", "gone/2", "runs/1", "runs/2", "fresh/1", "writes/1", "lies/1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "progress").write_text("x")
        for path in (tmp_path / name / "progress", tmp_path / name):
            os.utime(path, (1000.0, 1000.0))
    os.utime(tmp_path / "fresh/1", (9000.0, 9000.0))
    os.utime(tmp_path / "writes/1/progress", (9000.0, 9000.0))
    os.utime(tmp_path / "lies/1/progress", (4e9, 4e9))  # its user says that it will change
    (tmp_path / "link").symlink_to("/etc")
    assert remove_old(tmp_path, {"runs": 2}, 5000.0) == 3
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*") if path.is_dir())
    assert [name for name in left if not name.startswith("link")] == ["fresh/1", "lies/1", "runs/2", "writes/1"]
    assert remove_old(tmp_path, {"runs": 2, "fresh": 1, "writes": 1}, now + 3600.0) == 1
    assert not (tmp_path / "lies").exists(), "an hour after it was last touched, whatever it says"
    assert not (tmp_path / "gone").exists()
    assert Path("/etc").exists()
    assert remove_old(tmp_path / "nowhere", {}, 5000.0) == 0
