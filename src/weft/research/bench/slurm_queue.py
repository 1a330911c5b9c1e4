"""weft serve on a real Slurm whose queue is long: the processor time of a decision, from waking up to orders given.

It is what the thread that decides spends on a look at Slurm, the plan and the ledger, when anything is decided or has
happened. The thread that talks to Slurm and Slurm itself run beside it.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from weft.live.server.server import Server
from weft.live.slurm.engine import SlurmEngine
from weft.live.slurm.sandbox import Sandbox, missing
from weft.live.slurm.topology import read_cluster
from weft.stacks import resolve

STACK = "srsf[place=even:best-fit]"
SIZES = (1, 2, 4, 8, 8)
_DECISIONS = 120  # so that a 99th percentile means something
_NAMES = (
    "queued", "decisions", "decision_cpu_p50_s", "decision_cpu_p99_s", "decision_cpu_max_s", "decision_wall_p99_s",
    "starts",
)  # fmt: skip


def run(queued: int, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Fill the queue, then serve it until 120 decisions have been taken, ten minutes at most (`quick`: ten seconds)."""
    if why := missing():
        say(f"slurm: {why}")
        return dict.fromkeys(_NAMES)
    nodes, seconds = (8, 10.0) if quick else (32, 600.0)
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder, _sandbox(folder, nodes) as box:
        _fill(box, queued)
        say(f"slurm: {nodes} nodes are up, {queued} jobs wait")
        engine = SlurmEngine(box.slurm, poll_s=0.2)
        with Server(
            Path(folder) / "run", read_cluster(box.slurm, frozenset()), resolve(STACK), engine=engine
        ) as server:
            until = time.monotonic() + 300
            while len(server.core.table.jobs) < queued and time.monotonic() < until:
                server.run(server.world.now() + 0.2)
            say(f"slurm: {len(server.core.table.jobs)} jobs are known")
            figures = _measured(server, seconds)
    p50, p99, most = (f"{1000 * figures[f'decision_cpu_{name}_s']:.0f} ms" for name in ("p50", "p99", "max"))
    say(
        f"slurm: with {figures['queued']:.0f} jobs queued, {figures['decisions']:.0f} decisions took {p99} of processor time "
        f"at the 99th percentile (median {p50}, longest {most})"
    )
    return figures


def _sandbox(folder: str, nodes: int) -> Sandbox:
    return Sandbox(Path(folder) / "slurm", nodes, prolog=False, more="MaxJobCount=100000\n")


def _fill(box: Sandbox, jobs: int) -> None:
    lot = random.Random(1)
    asked = [(lot.choice(SIZES), lot.uniform(5.0, 15.0), lot.randrange(10, 1000)) for _ in range(jobs)]

    def submit(one: tuple[int, float, int]) -> None:
        gpus, seconds, steps = one
        box.sbatch(f"--gpus={gpus}", f"--comment=weft: iterations={steps} iteration_s=1", wrap=f"sleep {seconds:.1f}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(submit, asked))


def _measured(server: Server, seconds: float) -> dict[str, Any]:
    cpu_s: list[float] = []
    wall_s: list[float] = []

    def decided(events: Sequence[Any], decisions: Sequence[Any], wall: float) -> None:
        cpu_s.append(time.thread_time() - server.world.woke_cpu_s)
        wall_s.append(wall)

    server.durable.on_decided = decided
    starts, queued = _starts(server), len(server.core.table.waiting)
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(cpu_s) < _DECISIONS:
        server.run(server.world.now() + 1.0)
    figures = (
        queued, len(cpu_s), *np.quantile(cpu_s, [0.5, 0.99, 1.0]), np.quantile(wall_s, 0.99),
        _starts(server) - starts,
    )  # fmt: skip
    return {name: float(value) for name, value in zip(_NAMES, figures, strict=True)}


def _starts(server: Server) -> int:
    return sum(row.action == "start" for _, row in server.ledger.decisions())
