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
from weft.testbed.build import Testbed

_REPLAY = Path(__file__).with_name("replay.py")
_STREAM = Path(__file__).with_name("stream.py")
_FIRST_PORT = 20_000
_FOREIGN_PORT = 19_000  # and the number of the sender
_PORTS = 100  # ports of each job


@dataclass(frozen=True)
class Replay:
    """A model's iteration replayed on these servers, one process each; `workers` may be more than the processes."""

    name: str
    profile: Profile
    servers: tuple[int, ...]
    iterations: int
    collective: str = "ring"
    gate: Mapping[str, float] | None = None  # epoch by the monotonic clock, period, tolerance
    jitter: float = 0.0  # standard deviation of an iteration's computing, relative
    delay_s: float = 0.0
    seed: int = 0

    def commands(self, testbed: Testbed, number: int, folder: Path) -> list[tuple[str, list[str], dict[str, str]]]:
        """(host, command, environment) of each process."""
        hosts = [testbed.blueprint.host(server) for server in self.servers]
        spec = {
            "name": self.name, "addresses": [host.address for host in hosts], "port": _FIRST_PORT + _PORTS * number,
            "collective": self.collective, "servers": 1, "tasks": self._tasks(testbed.blueprint.scale),
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

    def _tasks(self, scale: float) -> list[list[Any]]:
        """The graph as the trainer reads it: bytes on the wire of one process, scaled."""
        tasks: list[list[Any]] = []
        for task in self.profile.tasks:
            if task.workers is not None and len(task.workers) != self.profile.workers:
                raise InputError(f"testbed: {self.profile.name} has tasks of some workers only, which is not replayed")
            if isinstance(task, Compute):
                tasks.append(["compute", task.seconds, list(task.after)])
                continue
            assert isinstance(task, Transfer)
            share = 2 * (self.profile.workers - 1) / self.profile.workers if self.collective == "ring" else 1.0
            tasks.append(["transfer", int(task.bytes * share / scale), list(task.after)])
        return tasks


@dataclass(frozen=True)
class Script:
    """A program that nobody touches: one process a server, with the environment that torch.distributed reads.

    It says when iterations begin and end in the log that its environment names (WEFT_LOG), which it opens when it is
    ready; it may wait for the file START_FILE, which is made when all scripts are.
    """

    name: str
    command: tuple[str, ...]
    servers: tuple[int, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    def commands(self, testbed: Testbed, number: int, folder: Path) -> list[tuple[str, list[str], dict[str, str]]]:
        """(host, command, environment) of each process."""
        hosts = [testbed.blueprint.host(server) for server in self.servers]
        made = []
        for rank, host in enumerate(hosts):
            env = {
                "WEFT_JOB": self.name, "RANK": str(rank), "WORLD_SIZE": str(len(hosts)), "LOCAL_RANK": "0",
                "MASTER_ADDR": hosts[0].address, "MASTER_PORT": str(_FIRST_PORT + _PORTS * number),
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
    running: list[tuple[str, subprocess.Popen[Any]]] = []
    for number, job in enumerate(jobs):
        for host, command, env in job.commands(testbed, number, folder):
            with (folder / f"{job.name}.output").open("ab") as output:
                running.append((job.name, testbed.start(host, command, env, output)))
    until = time.monotonic() + patience_s
    logs = [
        folder / f"{job.name}.{rank}" for job in jobs if isinstance(job, Script) for rank in range(len(job.servers))
    ]
    while logs and not all(log.exists() for log in logs) and time.monotonic() < until:
        if any(child.poll() for _, child in running):
            break
        time.sleep(0.02)
    (folder / "start").touch()
    for name, child in running:
        try:
            code = child.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise InputError(f"testbed: job {name} did not end within {patience_s:g} s; see {folder}") from None
        if code:
            said = (folder / f"{name}.output").read_text(errors="replace").strip().splitlines()[-1:]
            raise InputError(f"testbed: job {name} failed with code {code}: {' '.join(said)}")
    return {job.name: Timing(job.name, np.loadtxt(folder / f"{job.name}.0", ndmin=2)) for job in jobs}


def foreign(
    testbed: Testbed,
    src: int,
    dst: int,
    connections: int = 1,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> list[subprocess.Popen[Any]]:
    """Traffic of others from one server to another, until it is ended: the processes of receiver and sender."""
    there, port = testbed.blueprint.host(dst), _FOREIGN_PORT + src
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
