"""Jobs on a testbed: what to start where, and what their logs say when they have ended."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft_live.testbed.build import Testbed

_REPLAY = Path(__file__).with_name("replay.py")
_STREAM = Path(__file__).with_name("stream.py")
_FIRST_PORT = 20_000
FOREIGN_PORT = 19_000  # and the number of the flow
_PORTS = 100  # ports of each job
Running = list[tuple[str, subprocess.Popen[Any]]]  # the name of a job, and a process of it


@dataclass(frozen=True)
class Replay:
    """A model's iteration replayed on these servers, one process each; `workers` may be more than the processes.

    `collective` is what the profile says, unless it is named here.
    """

    name: str
    profile: Profile
    servers: tuple[int, ...]
    iterations: int
    collective: str | None = None
    gate: Mapping[str, float] | None = None  # epoch by the monotonic clock, period, tolerance
    jitter: float = 0.0  # standard deviation of an iteration's computing, relative
    delay_s: float = 0.0
    seed: int = 0

    def commands(self, testbed: Testbed, number: int, folder: Path) -> list[tuple[str, list[str], dict[str, str]]]:
        """(host, command, environment) of each process."""
        hosts = [testbed.blueprint.host(server) for server in self.servers]
        how, servers = self.communicates()
        spec = {
            "name": self.name, "addresses": [host.address for host in hosts], "port": _FIRST_PORT + _PORTS * number,
            "collective": how, "servers": servers, "tasks": self.tasks(testbed.blueprint.scale),
            "iterations": self.iterations, "jitter": self.jitter, "delay_s": self.delay_s, "seed": self.seed,
            "demand": self._demand(testbed.blueprint.scale), "gate": dict(self.gate) if self.gate else None,
            "log": str(folder / self.name),
        }  # fmt: skip
        file = folder / f"{self.name}.json"
        file.write_text(json.dumps(spec), encoding="utf-8")
        command = [sys.executable, "-I", "-S", str(_REPLAY), str(file)]
        return [(host.name, [*command, str(rank)], {"WEFT_JOB": self.name}) for rank, host in enumerate(hosts)]

    def _demand(self, scale: float) -> int:
        """Bytes per second that the profile's transfers ask for at most; 0: as much as there is."""
        asked = [t.demand_bytes_per_s for t in self.profile.tasks if isinstance(t, Transfer) and t.demand_bytes_per_s]
        return int(max(asked) / scale) if asked else 0

    def communicates(self) -> tuple[str, int]:
        """The collective of all transfers, and the number of parameter servers."""
        transfers = [task for task in self.profile.tasks if isinstance(task, Transfer)]
        hows = {self.collective or task.collective or "ring" for task in transfers} or {"ring"}
        if len(hows) > 1 or not hows <= {"ring", "parameter-server"}:
            said = " and ".join(sorted(hows))
            raise InputError(
                f"testbed: {self.profile.name} communicates by {said}; either a ring or a parameter-server is replayed"
            )
        servers = max((task.servers for task in transfers), default=1)
        if servers > len(self.servers):
            raise InputError(
                f"testbed: {self.profile.name} has {servers} parameter servers on {len(self.servers)} hosts"
            )
        return hows.pop(), servers

    def tasks(self, scale: float) -> list[list[Any]]:
        """The graph as the trainer reads it: bytes on the wire of one process, scaled."""
        tasks: list[list[Any]] = []
        ring = self.communicates()[0] == "ring"
        for task in self.profile.tasks:
            if task.workers is not None and len(task.workers) != self.profile.workers:
                raise InputError(f"testbed: {self.profile.name} has tasks of some workers only, which is not replayed")
            if isinstance(task, Compute):
                tasks.append(["compute", task.seconds, list(task.after)])
                continue
            assert isinstance(task, Transfer)
            share = 2 * (self.profile.workers - 1) / self.profile.workers if ring else 1.0
            tasks.append(["transfer", int(task.bytes * share / scale), list(task.after)])
        return tasks


@dataclass(frozen=True)
class Script:
    """A program that nobody touches: one process a server, with the environment that torch.distributed reads.

    Its rank 0 says when iterations begin and end in the log that its environment names (WEFT_LOG), which it opens when
    it is ready, within `patience_s`; it may wait for the file START_FILE, which is made when all scripts are.
    """

    name: str
    command: tuple[str, ...]
    servers: tuple[int, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    patience_s: float = 60.0

    def commands(self, testbed: Testbed, number: int, folder: Path) -> list[tuple[str, list[str], dict[str, str]]]:
        """(host, command, environment) of each process."""
        hosts = [testbed.blueprint.host(server) for server in self.servers]
        made = []
        for rank, host in enumerate(hosts):
            env = {
                "WEFT_JOB": self.name, "RANK": str(rank), "WORLD_SIZE": str(len(hosts)), "LOCAL_RANK": "0",
                "MASTER_ADDR": hosts[0].address, "MASTER_PORT": str(_FIRST_PORT + _PORTS * number),
                "WEFT_ADDRESSES": ",".join(each.address for each in hosts),
                "WEFT_LOG": str(folder / f"{self.name}.{rank}"), "START_FILE": str(folder / "start"), **self.env,
            }  # fmt: skip
            made.append((host.name, list(self.command), env))
        return made


@dataclass(frozen=True)
class Timing:
    """What the log of a job says: seconds by iteration (rows) of start, start and end of communication, and end."""

    name: str
    rows: np.ndarray[Any, np.dtype[np.float64]]

    @property
    def iterations_s(self) -> list[float]:
        """Length of each iteration but the first, from one start to the next."""
        starts = [*self.rows[:, 0], self.rows[-1, 3]]
        return [float(x) for x in np.diff(starts)][1:]

    @property
    def median_s(self) -> float:
        """Median length of the iterations."""
        return median(self.iterations_s)


def play(
    testbed: Testbed, jobs: Sequence[Replay | Script], folder: Path, patience_s: float = 120.0
) -> dict[str, Timing]:
    """Run the jobs side by side to their end."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():  # left by jobs that ran here before
        if old.is_file():
            old.unlink()
    running: Running = []
    for number, job in enumerate(jobs):
        for host, command, env in job.commands(testbed, number, folder):
            with (folder / f"{job.name}.output").open("ab") as output:
                running.append((job.name, testbed.start(host, command, env, output)))
    try:
        until = time.monotonic() + patience_s
        for job in jobs:
            if isinstance(job, Script):
                _ready(job, running, folder)
        (folder / "start").touch()
        while left := [name for name, child in running if child.poll() is None]:
            _refuse_failed(running, folder)
            if time.monotonic() > until:
                raise InputError(f"testbed: job {left[0]} did not end within {patience_s:g} s")
            time.sleep(0.01)
        _refuse_failed(running, folder)
    finally:
        for _, child in running:
            child.kill()
    return {job.name: Timing(job.name, _rows(folder, job.name, 2 if isinstance(job, Script) else 1)) for job in jobs}


_EXPECTED = "a script opens the file that WEFT_LOG names and writes four times there for every iteration"


def _ready(job: Script, running: Running, folder: Path) -> None:
    """Wait until the script has opened its log."""
    log, until = folder / f"{job.name}.0", time.monotonic() + job.patience_s
    first = next(child for name, child in running if name == job.name)
    while not log.exists():
        ended = first.poll() is not None
        _refuse_failed(running, folder)
        if ended and not log.exists():
            raise InputError(f"testbed: job {job.name} ended without a log: {_EXPECTED}")
        if time.monotonic() > until:
            raise InputError(f"testbed: job {job.name} has no log after {job.patience_s:g} s (--patience): {_EXPECTED}")
        time.sleep(0.02)


def _refuse_failed(running: Running, folder: Path) -> None:
    """Raise if a process has failed, with the last line that its job has said."""
    for name, child in running:
        if child.poll():
            said = (folder / f"{name}.output").read_text(errors="replace").strip().splitlines()[-1:]
            raise InputError(f"testbed: job {name} failed with code {child.returncode}: {' '.join(said)}")


def _rows(folder: Path, name: str, least: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The log of rank 0, with so many iterations at least: the first one is not counted."""
    try:
        rows = [[float(word) for word in line.split()] for line in (folder / f"{name}.0").read_text().splitlines()]
        found = np.array(rows)
    except (OSError, ValueError):  # no file, no numbers, or lines of different lengths
        raise InputError(f"testbed: the log of job {name} cannot be read: {_EXPECTED}") from None
    if found.ndim != 2 or found.shape[0] < least or found.shape[1] < 4:
        raise InputError(f"testbed: the log of job {name} has fewer than {least} lines of four times: {_EXPECTED}")
    return found


def foreign(
    testbed: Testbed, src: int, dst: int, connections: int = 1, log: Path | None = None,
    env: Mapping[str, str] | None = None, number: int = 0,
) -> list[subprocess.Popen[Any]]:  # fmt: skip
    """Traffic of others from one server to another, until it is ended: the processes of receiver and sender. Flows to
    one server at the same time have different numbers."""
    there, port = testbed.blueprint.host(dst), FOREIGN_PORT + number
    script = [sys.executable, "-I", "-S", str(_STREAM)]
    send = [*script, "send", there.address, str(port), str(connections), str(log or "/dev/null")]
    return [
        testbed.start(there.name, [*script, "serve", str(port)]),
        testbed.start(testbed.blueprint.host(src).name, send, env),
    ]


def overlap(one: Timing, other: Timing, of: slice = slice(None)) -> float:
    """Part of the communication of one job during which the other communicates too, over some of its iterations."""
    mine, theirs = one.rows[of, 1:3], other.rows[:, 1:3]
    both = np.minimum(mine[:, None, 1], theirs[None, :, 1]) - np.maximum(mine[:, None, 0], theirs[None, :, 0])
    return float(np.maximum(both, 0.0).sum() / (mine[:, 1] - mine[:, 0]).sum())
