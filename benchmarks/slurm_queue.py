"""weft serve on a real Slurm whose queue is long: the processor time of a decision, from waking up to orders given.

This is the time that the deciding thread spends on a look at Slurm, the plan and the ledger, whenever something is
decided or has happened. The thread that talks to Slurm and Slurm itself run beside it.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.slurm import sandbox
from testkit.sandbox import Sandbox, missing
from weft.stacks import resolve
from weft_live.server.server import Server
from weft_live.slurm.engine import SlurmEngine
from weft_live.slurm.topology import read_cluster

STACK = "srsf[place=even:best-fit]"
SIZES = (1, 2, 4, 8, 8)
_SPARE = 150  # jobs more than asked for, since some start before others take their place
_DECISIONS = 120  # so that a 99th percentile means something
_NAMES = (
    "queued", "decisions", "decision_cpu_p50_s", "decision_cpu_p99_s", "decision_cpu_max_s", "decision_wall_p99_s",
    "starts",
)  # fmt: skip


def run(queued: int, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Fill the queue, and serve it until 120 decisions have been taken, half an hour at most (`quick`: ten seconds).
    Jobs that start are replaced by new ones, so that the queue stays as long."""
    if why := missing():
        say(f"slurm: {why}")
        return dict.fromkeys(_NAMES)
    nodes, seconds = (8, 10.0) if quick else (32, 1800.0)
    with (
        tempfile.TemporaryDirectory(prefix="weft-bench-") as folder,
        sandbox(folder, nodes, "MaxJobCount=100000\n") as box,
        Users(box) as users,
    ):
        users.fill(queued + _SPARE)
        for job in users.jobs:
            job.result()
        say(f"slurm: {nodes} nodes are up, {len(users.jobs)} jobs wait")
        engine = SlurmEngine(box.slurm, poll_s=0.2)
        cluster = read_cluster(box.slurm, frozenset())
        with Server(Path(folder) / "run", cluster, resolve(STACK), engine=engine, say=say) as server:
            until = time.monotonic() + 300
            while len(server.core.table.jobs) < queued and time.monotonic() < until:
                server.run(server.world.now() + 0.2)
            say(f"slurm: {len(server.core.table.jobs)} jobs are known")
            figures = _measured(server, users, queued, seconds)
    p50, p99, most = (f"{1000 * figures[f'decision_cpu_{name}_s']:.0f} ms" for name in ("p50", "p99", "max"))
    say(
        f"slurm: with {figures['queued']:.0f} jobs queued or more, {figures['decisions']:.0f} decisions took {p99} of "
        f"processor time at the 99th percentile (median {p50}, longest {most})"
    )
    return figures


class Users:
    """They submit jobs of 1 to 8 GPUs and 5 to 15 s, four at a time, beside everything else."""

    def __init__(self, box: Sandbox) -> None:
        self._box, self._lot, self._pool = box, random.Random(1), ThreadPoolExecutor(4)
        self.jobs: list[Future[str]] = []

    def __enter__(self) -> Users:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def fill(self, jobs: int) -> None:
        """Submit until there have been so many."""
        for _ in range(jobs - len(self.jobs)):
            gpus, seconds, steps = self._lot.choice(SIZES), self._lot.uniform(5.0, 15.0), self._lot.randrange(10, 1000)
            says = f"--comment=weft: iterations={steps} iteration_s=1"
            self.jobs.append(self._pool.submit(self._box.sbatch, f"--gpus={gpus}", says, wrap=f"sleep {seconds:.1f}"))


def _measured(server: Server, users: Users, queued: int, seconds: float) -> dict[str, Any]:
    cpu_s: list[float] = []
    wall_s: list[float] = []
    lengths: list[int] = []

    def decided(events: Sequence[Any], decisions: Sequence[Any], wall: float) -> None:
        cpu_s.append(time.thread_time() - server.world.woke_cpu_s)
        wall_s.append(wall)
        lengths.append(len(server.core.table.waiting))

    server.durable.on_decided = decided
    starts = _starts(server)
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(cpu_s) < _DECISIONS:
        users.fill(queued + _SPARE + _starts(server))
        server.run(server.world.now() + 1.0)
    figures = (
        min(lengths), len(cpu_s), *np.quantile(cpu_s, [0.5, 0.99, 1.0]), np.quantile(wall_s, 0.99),
        _starts(server) - starts,
    )  # fmt: skip
    return {name: float(value) for name, value in zip(_NAMES, figures, strict=True)}


def _starts(server: Server) -> int:
    return sum(row.action == "start" for _, row in server.ledger.decisions())
