import fcntl
import os
from pathlib import Path
from typing import Any

from live.tests.jobs import ENVIRONMENT
from weft_live.attempt import Attempt, Ended


def spec(folder: Path) -> dict[str, Any]:
    """A job that adds a line to a file."""
    return {
        "key": "a", "home": str(folder), "argv": ["sh", "-c", f"echo ran >> {folder}/ran"], "cwd": "/",
        "env": ENVIRONMENT, "ranks": [{}], "iterations": 0, "grace_s": 1.0, "gate": None,
    }  # fmt: skip


def spawned(folder: Path) -> Attempt:
    """An attempt, when the runner that was started for it has ended."""
    attempt = Attempt(folder / "1")
    attempt.spawn(spec(folder))
    os.waitid(os.P_PID, attempt.pid, os.WEXITED | os.WNOWAIT)
    return attempt


def test_a_runner_that_stands_still_before_it_begins_is_not_given_up(tmp_path: Path) -> None:
    """An earlier server started it, and it has locked its folder; the runner of the next server leaves at once. That
    one was taken for lost once, and the job ran twice. When the first is gone too, nobody begins any more."""
    (tmp_path / "1").mkdir()
    lock = os.open(tmp_path / "1" / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    attempt = spawned(tmp_path)
    for _ in range(2):
        attempt.look()
        assert attempt.ended is None
    os.close(lock)
    attempt.look()
    assert attempt.ended == Ended(lost="live.runner-late")
    spawned(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_start_asked_for_twice_happens_once(tmp_path: Path) -> None:
    for _ in range(2):
        attempt = spawned(tmp_path)
        attempt.look()
        assert attempt.ended == Ended()
        assert (tmp_path / "ran").read_text() == "ran\n"
