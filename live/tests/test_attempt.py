import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize("text", ["", "garbage", "{}", "[]", '{"code": "x", "terminated": 1, "error": 5}'])
def test_an_exit_that_makes_no_sense_is_none(text: str, tmp_path: Path) -> None:
    """A disk has lost it, or the job has written it: nobody knows how the attempt ended, and the server lives."""
    attempt = spawned(tmp_path)
    (tmp_path / "1" / "exit").write_text(text)
    (tmp_path / "1" / "child").write_text(text)
    attempt.look()
    assert attempt.ended == Ended(lost="live.runner-killed")


@pytest.mark.parametrize("odd", [{"argv": ["\udce9"]}, {"cwd": "/\0"}, {"env": {"A=B": "c"}}, {"env": {"A": "\0"}}])
def test_a_command_that_no_process_can_have_is_told(odd: dict[str, Any], tmp_path: Path) -> None:
    attempt = Attempt(tmp_path / "1")
    attempt.spawn(spec(tmp_path) | odd)
    os.waitid(os.P_PID, attempt.pid, os.WEXITED | os.WNOWAIT)
    attempt.look()
    assert attempt.ended is not None
    assert attempt.ended.error.startswith("cannot run ")


def test_others_cannot_read_the_environment_of_a_job(tmp_path: Path) -> None:
    """Not even while it is being written."""
    before = os.umask(0)
    try:
        spawned(tmp_path)
    finally:
        os.umask(before)
    assert (tmp_path / "1" / "spec.json").stat().st_mode & 0o077 == 0
