"""Servers of a sandbox, and jobs for them."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import weft
from live.tests.jobs import witness
from testkit.sandbox import Sandbox
from weft.core.stack import Stack
from weft.stacks import resolve
from weft_live.agent.worlds import PacedSlurmEngine
from weft_live.server.ledger import Ledger
from weft_live.server.server import Server
from weft_live.slurm.topology import read_cluster

SOURCE = str(Path(weft.__file__).parent.parent)

WITNESS = witness(0.05)


class Serving:
    """One after the other, servers of one folder."""

    def __init__(self, box: Sandbox, tmp_path: Path) -> None:
        self.box, self.tmp_path = box, tmp_path
        self.folder = tmp_path / "run"
        self.cluster = read_cluster(box.slurm, frozenset())
        self.said: list[str] = []
        self.profiles: list[Path] = []  # where profile files may lie
        self._open: list[Server] = []

    def start(
        self, stack: str | Stack = "fifo-backfill[place=even:best-fit]", *, priority: str = "off", agents: str = "",
        strangers: str = "leave", **more: Any,
    ) -> Server:  # fmt: skip
        """A server, as `weft serve --world slurm` makes it; `agents` of nodes call there."""
        policies = resolve(stack) if isinstance(stack, str) else stack
        engine = PacedSlurmEngine(
            self.box.slurm,
            poll_s=0.2,
            profile_folders=self.profiles,
            priority=priority,
            listen=agents,
            strangers=strangers,
        )
        self._open.append(Server(self.folder, self.cluster, policies, engine=engine, say=self.said.append, **more))
        return self._open[-1]

    def close(self) -> None:
        """All of them."""
        while self._open:
            self._open.pop().close()

    def sbatch(self, gpus: int, argv: tuple[str, ...] | str = "sleep 1", *options: str, says: str = "") -> str:
        """Submit a job with so many GPUs; returns its number."""
        script = self.tmp_path / f"job{time.monotonic_ns()}.sh"
        command = argv if isinstance(argv, str) else " ".join(f"'{part}'" for part in argv)
        script.write_text(f"#!/bin/sh\nexport PYTHONPATH={SOURCE}\nexec {command}\n")
        comment = [f"--comment=weft: {says}"] if says else []
        return self.box.sbatch(f"--gpus={gpus}", *comment, *options, str(script))

    def statuses(self) -> dict[str, str]:
        """What became of each job, as the ledger tells."""
        ledger = Ledger(self.folder, read_only=True)
        try:
            return {row.id: row.status for row in ledger.jobs()}
        finally:
            ledger.close()


def python(tmp_path: Path, code: str, *args: object) -> tuple[str, ...]:
    """The command that runs this code."""
    file = tmp_path / f"{abs(hash(code))}.py"
    file.write_text(code)
    return (sys.executable, "-S", str(file), *map(str, args))


def until_there(file: Path) -> str:
    """A job that runs until somebody makes this file."""
    return f"sh -c 'until [ -e {file} ]; do sleep 0.1; done'"


def serve_until(server: Server, ready: Callable[[], bool], within_s: float = 240.0) -> None:
    """Serve until something is so. The limit is for what never comes; a busy machine needs its time."""
    until = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > until:
            rows = [(row.id, row.status) for row in server.ledger.jobs()]
            live = [(job.id, job.status.value) for job in server.core.table.jobs.values()]
            raise AssertionError(f"it takes too long: {rows} {live} {server.world.outcomes}")
        server.run(server.world.now() + 0.05)


def ended(server: Server, *jobs: str) -> Callable[[], bool]:
    """True when these jobs have ended."""
    return lambda: set(jobs) <= {row.id for row in server.ledger.jobs() if row.status}


def running(server: Server, *jobs: str) -> Callable[[], bool]:
    """True when these jobs run, as the core knows."""
    return lambda: all(
        job in server.core.table.running and server.core.table.jobs[job].started_s is not None for job in jobs
    )


def state(box: Sandbox, job: str) -> str:
    """State, reason and nodes of a job, as Slurm says."""
    return box.run("squeue", "--states=all", "--noheader", f"--jobs={job}", "--format=%T %r %N").strip()


def actions(server: Server) -> list[tuple[str, str]]:
    """Starts and stops in order."""
    return [(job, row.action) for job, row in server.ledger.decisions() if row.action in ("start", "stop")]


def environment(path: Path) -> dict[str, str]:
    """What `env` wrote to a file."""
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {name: value for name, _, value in pairs}


def fork_server(serving: Serving, stack: str, arrange: Callable[[Server], None] = lambda _: None) -> int:
    """A server in a process of its own, which starts in no time; `arrange` may change it before it runs."""
    child = os.fork()
    if child == 0:
        try:
            with serving.start(stack) as server:
                arrange(server)
                server.run()
        finally:
            os._exit(1)
    return child


def wait_until_saved(box: Sandbox, job: str) -> None:
    """Until the controller has written its state twice after a change of this job, which must not have ended: what it
    writes next it may have collected before. (Another nice would release a held job: Slurm gives it a priority then.)
    """
    file = box.folder / "state" / "job_state"

    def written(since: float) -> bool:
        with suppress(FileNotFoundError):  # never written yet, or just being replaced
            return file.stat().st_mtime > since
        return False

    for n in range(2):
        began = time.time()
        box.run("scontrol", "update", f"JobId={job}", f"JobName=saved{n}")
        box.wait(lambda: written(began))  # noqa: B023
