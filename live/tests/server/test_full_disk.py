import os
import shutil
import signal
from pathlib import Path

import pytest

from live.tests.jobs import python
from live.tests.serving import WITNESS, fill, fork_server, said, server, small_disk, statuses, wait_for
from weft.errors import InputError
from weft_live.attempt import Attempt
from weft_live.server.control import call
from weft_live.server.ledger import Ledger

# Ends once the disk is full, however long a busy machine takes to fill it.
UNTIL_FULL = """
import os, sys, time
with open(sys.argv[1], "a") as file: file.write("start first 1\\n")
while not os.path.exists(sys.argv[1] + ".full"): time.sleep(0.01)
with open(sys.argv[1], "a") as file: file.write("end first 1\\n")
"""


def test_on_a_full_disk_nothing_starts_and_no_exit_is_lost(tmp_path: Path) -> None:
    """One job ends while the disk is full, another waits for its GPUs. Once there is room the first has finished,
    having run once, and then the other starts; the server has not ended meanwhile."""
    with small_disk(tmp_path / "disk") as disk:
        lines = serve_on_a_full_disk(disk, tmp_path / "log")
    assert [line.split()[:2] for line in lines] == [
        ["start", "first"], ["end", "first"], ["start", "second"], ["end", "second"]
    ]  # fmt: skip


def serve_on_a_full_disk(disk: Path, log: Path) -> list[str]:
    """What the two jobs write."""
    folder = disk / "run"
    server(folder).close()
    child = fork_server(folder, "fifo")
    try:
        wait_for(lambda: (folder / "control.sock").exists())
        call(folder, {"do": "submit", "job": said("first", python(UNTIL_FULL, log), gpus=4, iterations=1)})
        wait_for(log.exists)
        call(folder, {"do": "submit", "job": said("second", python(WITNESS, log, 1), gpus=4, iterations=1)})
        wait_for(lambda: kept(folder) == {("first", "submitted"), ("first", "started"), ("second", "submitted")})
        fill(disk)
        log.with_name(f"{log.name}.full").touch()
        wait_for(lambda: "end first" in log.read_text())
        for _ in range(2):  # it looks at its jobs before it hears another request
            with pytest.raises(InputError, match="the ledger cannot be written"):
                call(folder, {"do": "submit", "job": said("third", ["true"], gpus=1, iterations=1)})
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the server lives"
        assert "second" not in log.read_text(), "nothing is started that could not be written down"
        assert Attempt(folder / "jobs" / "first" / "1").begun
        shutil.rmtree(disk / "filler")
        wait_for(lambda: statuses(folder) == {"first": "finished", "second": "finished"})
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return log.read_text().splitlines()


def kept(folder: Path) -> set[tuple[str, str]]:
    """What the ledger knows of the jobs. When it knows all, the server has nothing to write until one of them ends."""
    ledger = Ledger(folder, read_only=True)
    try:
        return {(row.job, row.kind) for job in ("first", "second") for row in ledger.events(job)}
    finally:
        ledger.close()
