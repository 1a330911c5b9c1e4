"""A real disk that is full: nothing starts while the ledger cannot be written, and no end of a job is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.live.jobs import python
from tests.live.serving import WITNESS, fork_server, said, server, statuses, wait_for
from weft.live.attempt import Attempt
from weft.live.server.control import call


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "weft", disk], capture_output=True)
    if mount.returncode != 0:
        pytest.skip("needs to mount a file system")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill(disk: Path) -> None:
    """Until nothing more can be written."""
    with suppress(OSError), open(disk / "filler", "ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)


def test_on_a_full_disk_nothing_starts_and_no_exit_is_lost(small_disk: Path, tmp_path: Path) -> None:
    """One job ends while the disk is full, another waits for its GPUs. Once there is room the first has finished,
    having run once, and then the other starts; the server has not ended meanwhile."""
    folder, log = small_disk / "run", tmp_path / "log"
    server(folder).close()
    child = fork_server(folder, "fifo")
    try:
        wait_for(lambda: (folder / "control.sock").exists())
        call(folder, {"do": "submit", "job": said("first", python(WITNESS, log, 100), gpus=4, iterations=100)})
        wait_for(log.exists)
        call(folder, {"do": "submit", "job": said("second", python(WITNESS, log, 1), gpus=4, iterations=1)})
        fill(small_disk)
        wait_for(lambda: "end first" in log.read_text())
        time.sleep(1.5)
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the server lives"
        assert "second" not in log.read_text(), "nothing is started that could not be written down"
        assert Attempt(folder / "jobs" / "first" / "1").begun
        (small_disk / "filler").unlink()
        wait_for(lambda: statuses(folder) == {"first": "finished", "second": "finished"})
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert [line.split()[:2] for line in log.read_text().splitlines()] == [
        ["start", "first"], ["end", "first"], ["start", "second"], ["end", "second"]
    ]  # fmt: skip
