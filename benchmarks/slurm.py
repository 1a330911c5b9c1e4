"""weft serve on a real Slurm of 64 nodes on this machine: 200 jobs; decision times, and waits for nodes that are free.

The benchmark needs root and Debian's slurm-wlm and munge; elsewhere its figures are undefined. All times are those of
Slurm's own log: a job waits from its submission to its allocation. It waits *in vain* while it is in the queue and the
GPUs that it will get are free.
"""

from __future__ import annotations

import random
import re
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from testkit.sandbox import Sandbox, missing
from weft.model.events import Event
from weft.stacks import resolve
from weft_live.server.server import Server
from weft_live.slurm.engine import SlurmEngine
from weft_live.slurm.topology import read_cluster

STACK = "fifo-backfill[place=even:best-fit]"
SIZES = (1, 2, 4, 8, 8)
_LINE = re.compile(
    r"^\[(\S+)\] (?:.*\b(_slurm_rpc_submit_batch_job|Started|Allocate)\b.*?|_job_complete: )JobId=(\d+)\b( done)?",
    re.MULTILINE,
)


class Life(NamedTuple):
    """A job in Slurm's log (wall times), and the GPUs that weft decided on."""

    submit_s: float
    start_s: float
    end_s: float
    gpus: tuple[int, ...]


def run(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of a decision cycle (events in, decisions on disk) and of waits, and how many jobs had to queue."""
    names = (
        "decision_p50_s", "decision_p99_s", "decision_cpu_p99_s", "wait_p50_s", "wait_max_s", "wait_in_vain_max_s",
        "jobs", "queued",
    )  # fmt: skip
    if why := missing():
        say(f"slurm: {why}")
        return dict.fromkeys(names)
    nodes, jobs = (8, 24) if quick else (64, 200)
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder, sandbox(folder, nodes) as box:
        say(f"slurm: {nodes} nodes are up")
        cluster = read_cluster(box.slurm, frozenset())
        decisions_s: list[float] = []
        cpu_s: list[float] = []
        mark = 0.0
        with Server(
            Path(folder) / "run", cluster, resolve(STACK), engine=SlurmEngine(box.slurm, poll_s=0.2), say=say
        ) as server:
            listen = server.durable.next_events

            def heard(until_s: float | None) -> list[Event]:
                nonlocal mark
                events = listen(until_s)
                mark = time.thread_time()
                return events

            def decided(events: Sequence[Any], decisions: Sequence[Any], seconds: float) -> None:
                decisions_s.append(seconds)
                cpu_s.append(time.thread_time() - mark)

            server.durable.next_events = heard  # type: ignore[method-assign]
            server.durable.on_decided = decided
            _play(server, box, jobs, (1.0, 3.0) if quick else (5.0, 15.0))
            lives = _lives(server, (box.folder / "log" / "slurmctld.log").read_text(encoding="utf-8"))
    waits = np.array([life.start_s - life.submit_s for life in lives])
    vain = _in_vain_s(lives)
    queued = sum(wait > lost + 1.0 for wait, lost in zip(waits, vain, strict=True))
    decisions = (*np.quantile(decisions_s, [0.5, 0.99]), np.quantile(cpu_s, 0.99))
    figures = (*decisions, np.median(waits), waits.max(), max(vain), len(lives), queued)
    return {name: float(value) for name, value in zip(names, figures, strict=True)}


def sandbox(folder: str, nodes: int, more: str = "") -> Sandbox:
    """A Slurm without the TaskProlog, whose work 64 machines would share, and which one has to do here."""
    return Sandbox(Path(folder) / "slurm", nodes, prolog=False, more=more)


def _play(server: Server, box: Sandbox, jobs: int, lengths_s: tuple[float, float]) -> None:
    """Submit jobs of these lengths as fast as sbatch can, and wait until all have ended."""
    lot = random.Random(1)

    def submit() -> None:
        for _ in range(jobs):
            box.sbatch(f"--gpus={lot.choice(SIZES)}", wrap=f"sleep {lot.uniform(*lengths_s):.1f}")

    thread = threading.Thread(target=submit)
    thread.start()
    until = time.monotonic() + 300
    while time.monotonic() < until:
        server.run(server.world.now() + 0.5)
        if not thread.is_alive() and len(server.ledger.jobs()) == jobs and not server.core.table.jobs:
            break
    thread.join()


def _lives(server: Server, log: str) -> list[Life]:
    """What the controller wrote about each job, and where weft put it."""
    seen: dict[str, dict[str, float]] = {}
    for when, what, job, done in _LINE.findall(log):
        kind = "end" if done else {"_slurm_rpc_submit_batch_job": "submit", "": ""}.get(what, "start")
        if kind:
            seen.setdefault(job, {}).setdefault(kind, datetime.fromisoformat(when).timestamp())
    placed = {job: row.gpus for job, row in server.ledger.decisions() if row.action == "start"}
    lives = []
    for job, times in seen.items():
        if job in placed and times.keys() == {"submit", "start", "end"}:
            gpus = tuple(int(gpu) for gpu in placed[job].split())
            lives.append(Life(times["submit"], times["start"], times["end"], gpus))
    return lives


def _in_vain_s(lives: Sequence[Life]) -> list[float]:
    """For each job: how long, before it started, it waited although the GPUs that it got were free."""
    free_since: dict[int, float] = {}
    vain = {}
    for number, life in sorted(enumerate(lives), key=lambda pair: pair[1].start_s):
        ready_s = max([life.submit_s, *(free_since[gpu] for gpu in life.gpus if gpu in free_since)])
        vain[number] = life.start_s - ready_s
        free_since |= dict.fromkeys(life.gpus, life.end_s)
    return [vain[number] for number in range(len(lives))]
