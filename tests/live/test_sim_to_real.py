"""The same trace through the simulator and through real processes: the decisions match one for one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.live.jobs import describe, local_world
from weft.core.cycle import Core
from weft.core.journal import MemoryJournal
from weft.core.loop import run
from weft.core.world import World
from weft.live.clock import Clock
from weft.live.local import LocalWorld
from weft.model.job import Job
from weft.model.plan import Start, Stop
from weft.sim.spec import NetworkSpec, RunSpec
from weft.sim.world import SimWorld
from weft.stacks import resolve
from weft.testing import toy_cluster, toy_job

CLUSTER = toy_cluster(1, 2, 2)
JOBS = 14
LATENCY = 0.3  # of a unit: what a start costs, in the simulator too

Decided = list[tuple[str, str, tuple[int, ...]]]


def trace(seed: int, unit_s: float) -> list[Job]:
    """Jobs of one to three units on one to four GPUs, some of them together at the beginning."""
    rng = np.random.default_rng(seed)
    submit = np.sort(np.where(np.arange(JOBS) < 5, 0.0, np.round(rng.uniform(0.5, 9.0, JOBS), 2)))
    lengths = np.round(rng.uniform(1.0, 3.0, JOBS), 2)
    sizes = rng.choice([1, 2, 4], JOBS, p=[0.4, 0.4, 0.2])
    return [
        toy_job(f"j{i:02d}", int(sizes[i]), 1, float(lengths[i]) * unit_s, submit_s=float(submit[i]) * unit_s)
        for i in range(JOBS)
    ]


def simulated(jobs: list[Job], unit_s: float) -> World:
    """The simulated world, in which starts take as long as they do here."""
    return SimWorld(CLUSTER, jobs, NetworkSpec(), RunSpec(start_latency_s=LATENCY * unit_s))


@pytest.fixture
def units_s(tmp_path: Path) -> tuple[float, ...]:
    """Units in which a start takes as long as the simulator assumes; longer ones if the machine turns busier."""
    jobs = [toy_job(f"probe{i}", 1, 1, 0.0) for i in range(4)]
    world = LocalWorld(CLUSTER, tmp_path / "probe", Clock.begin())
    for job in jobs:
        world.submit(job, describe(job.id, ["true"]))
    began = world.now()
    run(Core(resolve("fifo"), world), world)
    unit_s = max(0.1, (world.now() - began) / LATENCY / 2)  # four starts at a time on two cores
    world.close()
    return (unit_s, 2 * unit_s, 5 * unit_s)


def decided(world: World, stack: str) -> Decided:
    """Every start, with its GPUs, and every stop, in order."""
    journal = MemoryJournal()
    run(Core(resolve(stack), world, journal=journal), world)
    made: Decided = []
    for _, _, decision in journal.entries:
        match decision:
            case Start():
                made.append(("start", decision.job, decision.gpus))
            case Stop():
                made.append(("stop", decision.job, ()))
    return made


# Seeds of traces whose decisions do not hang on luck: they stay the same when every length is changed at random by a
# third of a unit.
@pytest.mark.parametrize(("stack", "seed"), [("fifo-backfill", 432), ("srsf", 661)])
def test_decisions_match_one_for_one(stack: str, seed: int, units_s: tuple[float, ...], tmp_path: Path) -> None:
    real: Decided = []
    wanted: Decided = []
    for unit_s in units_s:
        jobs = trace(seed, unit_s)
        wanted = decided(simulated(jobs, unit_s), stack)
        assert len(wanted) == JOBS
        assert wanted != sorted(wanted), "somebody is passed, or the trace would prove little"
        world = LocalWorld(CLUSTER, tmp_path / str(unit_s), Clock.begin())
        for job in jobs:
            world.submit(job, describe(job.id, ["sleep", str(job.compute_s)], gpus=job.gpus))
        real = decided(world, stack)
        world.close()
        if real == wanted:
            break
    assert real == wanted


def test_preemptions_match_too(units_s: tuple[float, ...], tmp_path: Path) -> None:
    """A long job gives way to each shorter one that comes, and goes on from its checkpoint in between."""
    real: Decided = []
    wanted: Decided = []
    for unit_s in units_s:
        jobs = [
            toy_job("long", 4, 60, 0.1 * unit_s),
            toy_job("small", 2, 10, 0.1 * unit_s, submit_s=2.0 * unit_s),
            toy_job("wide", 4, 10, 0.1 * unit_s, submit_s=6.0 * unit_s),
        ]
        wanted = decided(simulated(jobs, unit_s), "srsf-preemptive")
        assert [d[:2] for d in wanted] == [
            ("start", "long"), ("stop", "long"), ("start", "small"), ("start", "long"), ("stop", "long"),
            ("start", "wide"), ("start", "long"),
        ]  # fmt: skip
        world = local_world(tmp_path / str(unit_s), jobs, CLUSTER)
        real = decided(world, "srsf-preemptive")
        world.close()
        if real == wanted:
            break
    assert real == wanted
