"""The simulated world: many training jobs on one network, every byte conserved."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.sim.spec import NetworkSpec, RunSpec, estimates

if TYPE_CHECKING:
    from weft.core.cycle import Core
    from weft.core.stack import Stack
    from weft.results.run import RunResult
    from weft.sim.world import SimWorld

__all__ = ["NetworkSpec", "RunSpec", "as_run", "begin", "end", "few_collections", "simulate"]


def simulate(
    cluster: Cluster,
    jobs: Sequence[Job],
    stack: Stack,
    network: NetworkSpec | None = None,
    run: RunSpec | None = None,
    *,
    record: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> RunResult:
    """Run a stack on jobs and a cluster; `on_progress(finished, jobs)` is called now and then.

    `record` keeps link loads over time and the first tasks, for reports and timelines.
    """
    from weft.core.blame import watching
    from weft.core.loop import run as drive

    run = run or RunSpec()
    world, core = begin(cluster, jobs, stack, network, run, record=record)
    seen = 0

    def progress(now: float, core: Core) -> None:
        nonlocal seen
        seen += 1
        if on_progress is not None and seen % 64 == 0:
            on_progress(world.n_finished, len(jobs))

    began = time.perf_counter()
    with few_collections(), watching(core):
        drive(core, world, run.until_s, progress if on_progress is not None else None)
        return end(world, core, stack.name, time.perf_counter() - began)


def begin(
    cluster: Cluster,
    jobs: Sequence[Job],
    stack: Stack,
    network: NetworkSpec | None = None,
    run: RunSpec | None = None,
    *,
    record: bool = False,
) -> tuple[SimWorld, Core]:
    """A run before its first event; `weft.core.loop` lets it go on."""
    from weft.core.cycle import Core
    from weft.sim.world import SimWorld

    network, run = network or NetworkSpec(), run or RunSpec()
    if stack.planner.dedicated and jobs:
        cluster = cluster.copied(len(jobs))
    world = SimWorld(
        cluster, as_run(jobs, stack, cluster, network), network, run,
        shared_gpus=stack.planner.shares_gpus, record=record,
    )  # fmt: skip
    core = Core(stack, world, run.seed)
    core.stack.interleave.prepare()
    return world, core


def end(world: SimWorld, core: Core, name: str, wall_s: float) -> RunResult:
    """What a run that `begin` began leaves behind."""
    from weft.core.journal import MemoryJournal
    from weft.sim.outcome import make_result

    world.close()
    assert isinstance(core.journal, MemoryJournal)
    found = make_result(world, core.journal, name, wall_s)
    said = core.stack.planner.notes(core.planner_state)
    return replace(found, notes=(*core.left_out, *said, *found.notes))


def as_run(jobs: Sequence[Job], stack: Stack, cluster: Cluster, network: NetworkSpec) -> list[Job]:
    """Jobs as they run under a stack, whose planner may change their batches."""
    if not any(job.batches for job in jobs):
        return list(jobs)
    alone = estimates(cluster, network)
    return [stack.planner.adapted(job, cluster, alone.of) if job.batches else job for job in jobs]


def few_collections() -> AbstractContextManager[None]:
    """Make Python look for cyclic garbage less often: a run makes hardly any, and keeps a million objects alive.

    Runs in several threads may overlap. The last one to end restores what the first one found.
    """
    return _collector


class _Collector(AbstractContextManager[None]):
    """The garbage collector of this process, and how many runs want it slow."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs = 0
        self._before = (0, 0, 0)  # thresholds as the first of them found them
        self._froze = False

    def __enter__(self) -> None:
        with self._lock:
            self._runs += 1
            if self._runs > 1:
                return
            self._before = before = gc.get_threshold()
            if before[0]:  # 0: switched off
                gc.set_threshold(max(before[0], 100_000), max(before[1], 100), max(before[2], 100))
            self._froze = gc.get_freeze_count() == 0  # what a caller has frozen stays so
            if self._froze:
                gc.freeze()  # the jobs of a trace are there before the run and after it

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._runs -= 1
            if self._runs > 0:
                return
            if self._froze:
                gc.unfreeze()
            gc.set_threshold(*self._before)
            self._before = (0, 0, 0)  # nothing is kept that a caller could freeze


_collector = _Collector()
