"""Servers of the local world, and jobs for them."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from live.tests.jobs import ENVIRONMENT, witness
from weft.cli.main import run
from weft.stacks import resolve
from weft.testing import toy_cluster
from weft_live.local.engine import LocalEngine
from weft_live.server.ledger import Ledger
from weft_live.server.server import Server

WITNESS = witness(0.01)


def server(folder: Path, stack: str = "fifo-backfill", gpus: int = 4, **more: Any) -> Server:
    """A server of one machine."""
    return Server(folder, toy_cluster(1, 1, gpus), resolve(stack), **{"engine": LocalEngine(), **more})


def said(name: str, argv: Sequence[str], **more: Any) -> dict[str, Any]:
    """A job as `weft submit` sends it."""
    return {"name": name, "argv": list(argv), "env": ENVIRONMENT, "cwd": "/", "grace_s": 2.0, **more}


def serve_until(serving: Server, ready: Callable[[], bool], within_s: float = 120.0) -> None:
    """Serve until something is so. The limit is for what never comes; a busy machine needs its time."""
    until = time.monotonic() + within_s
    while not ready():
        assert time.monotonic() < until, "it takes too long"
        serving.run(serving.world.now() + 0.02)


def all_ended(serving: Server) -> Callable[[], bool]:
    """True when every job that was submitted has ended."""
    return lambda: all(row.status for row in serving.ledger.jobs())


def statuses(folder: Path) -> dict[str, str]:
    """What became of each job, as the file tells."""
    ledger = Ledger(folder, read_only=True)
    try:
        return {row.id: row.status for row in ledger.jobs()}
    finally:
        ledger.close()


def ended_for_good(folder: Path, lines: Sequence[Sequence[str]]) -> set[str]:
    """Jobs whose witness (`lines`: word, job, attempt) said that it ends. Asserts that each attempt said so once, and
    that nobody was started again afterwards unless it had been told to stop: a stop may come while the process that
    has said its word is still going away. It may also come between the report of the last iteration and that word;
    then the job has finished without it."""
    ends = [(job, int(attempt)) for word, job, attempt in lines if word == "end"]
    assert len(set(ends)) == len(ends)
    ledger = Ledger(folder, read_only=True)
    try:
        done = {
            row.id: [step.action for _, step in ledger.decisions(row.id) if step.action in ("start", "stop")]
            for row in ledger.jobs()
        }
        for job, attempt in ends:
            starts = [i for i, action in enumerate(done[job]) if action == "start"]
            after = done[job][starts[attempt - 1] + 1 :][:1]
            assert after in ([], ["stop"]), f"{job} was started again though it had ended, and nobody stopped it"
        stopped = {row.id for row in ledger.jobs() if row.status == "finished" and done[row.id][-1:] == ["stop"]}
    finally:
        ledger.close()
    return {job for job, _ in ends} | stopped


def fork_server(folder: Path, stack: str) -> int:
    """A server in a process of its own, which starts in no time."""
    child = os.fork()
    if child == 0:
        try:
            with server(folder, stack) as serving:
                serving.run()
        finally:
            os._exit(1)
    return child


def own_s() -> float:
    """The time, less what this thread has spent ready to run while others ran."""
    waited = 0.0
    with suppress(OSError):
        waited = int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return time.monotonic() - waited


def wait_for(ready: Callable[[], bool], within_s: float = 120.0) -> None:
    """Until something is so."""
    until = time.monotonic() + within_s
    while not ready():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.02)


@contextmanager
def small_disk(disk: Path) -> Iterator[Path]:
    """A file system of 3 MiB and 200 files in a folder of that name."""
    disk.mkdir()
    options = "size=3m,nr_inodes=200,mode=711"
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "weft", disk], capture_output=True)
    if mount.returncode != 0:
        pytest.skip("needs to mount a file system")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def fill(disk: Path) -> None:
    """Until nothing more can be written or made; it all lies in `filler`."""
    (disk / "filler").mkdir()
    with suppress(OSError), open(disk / "filler" / "whole", "ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)
    with suppress(OSError):
        for number in range(1000):
            (disk / "filler" / str(number)).touch()


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Every job and its status."""
    capsys.readouterr()
    assert run(["queue", "--all", "--json"]) == 0
    return {job["job"]: job["status"] for job in json.loads(capsys.readouterr().out)["jobs"]}
