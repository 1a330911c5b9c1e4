import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from live.tests.jobs import describe, local_world
from weft.core.cycle import Core
from weft.core.journal import MemoryJournal
from weft.core.loop import run
from weft.core.world import World
from weft.model.events import Finished, Submitted
from weft.model.job import Job
from weft.model.plan import Start, Stop
from weft.sim.spec import NetworkSpec, RunSpec
from weft.sim.world import SimWorld
from weft.stacks import resolve
from weft.testing import toy_cluster, toy_job
from weft.testing.watch import Recorder
from weft_live.clock import Clock
from weft_live.local import LocalWorld

CLUSTER = toy_cluster(1, 2, 2)
JOBS = 12
LATENCY = 0.6  # of a unit: what a start costs, in the simulator too

# Ends so many seconds after its start was decided, however long it took to come up: a machine that is busy for a
# moment then delays one job, not all that come after it.
PUNCTUAL = """
import os, sys, time
decided = os.stat(os.path.dirname(os.environ["WEFT_PROGRESS_SOCKET"]) + "/spec.json").st_mtime
time.sleep(max(0.0, decided + float(sys.argv[1]) - time.time()))
"""

Decided = list[tuple[str, str, tuple[int, ...]]]


def trace(seed: int, unit_s: float) -> list[Job]:
    """Jobs of one to three units on one to four GPUs, most of them together at the beginning."""
    rng = np.random.default_rng(seed)
    submit = np.sort(np.where(np.arange(JOBS) < 9, 0.0, np.round(rng.uniform(0.5, 5.0, JOBS), 2)))
    lengths = np.round(rng.uniform(1.0, 3.0, JOBS), 2)
    sizes = rng.choice([1, 2, 4], JOBS, p=[0.5, 0.4, 0.1])
    return [
        toy_job(f"j{i:02d}", int(sizes[i]), 1, float(lengths[i]) * unit_s, submit_s=float(submit[i]) * unit_s)
        for i in range(JOBS)
    ]


def simulated(jobs: list[Job], unit_s: float) -> World:
    """The simulated world, in which starts take as long as they do here."""
    return SimWorld(CLUSTER, jobs, NetworkSpec(), RunSpec(start_latency_s=LATENCY * unit_s))


def real(folder: Path, jobs: list[Job], latency_s: float) -> LocalWorld:
    """The local world, with processes that last as long as the jobs."""
    world = LocalWorld(CLUSTER, folder, Clock.begin())
    for job in jobs:
        command = [sys.executable, "-I", "-S", "-c", PUNCTUAL, str(latency_s + job.compute_s)]
        world.submit(job, describe(job.id, command, gpus=job.gpus))
    return world


@pytest.fixture(scope="module")
def units_s(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, ...]:
    """Units in which a start takes less time than the simulator assumes; longer ones if the machine turns busier."""
    world = real(tmp_path_factory.mktemp("probe") / "run", [toy_job(f"probe{i}", 1, 1, 0.0) for i in range(4)], 0.0)
    began = world.now()
    run(Core(resolve("fifo"), world), world)
    unit_s = max(0.2, (world.now() - began) / LATENCY)
    world.close()
    return (unit_s, 2 * unit_s, 4 * unit_s, 8 * unit_s)


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


# Seeds of traces whose decisions do not hang on luck, as the first test shows.
TRACES = [("fifo-backfill", 2016), ("srsf", 816)]
GAP = 0.2


@pytest.mark.parametrize(("stack", "seed"), TRACES)
def test_the_traces_prove_something(stack: str, seed: int) -> None:
    """Somebody is passed; and no two jobs come or end so close together that they might change places."""
    world = Recorder(simulated(trace(seed, 1.0), 1.0))
    started = [job for _, job, _ in decided(world, stack)]
    assert started != sorted(started)
    times = sorted({round(event.time_s, 6) for event in world.log if isinstance(event, Submitted | Finished)})
    assert min(b - a for a, b in pairwise(times)) >= GAP


@pytest.mark.alone
@pytest.mark.parametrize(("stack", "seed"), TRACES)
def test_decisions_match_one_for_one(stack: str, seed: int, units_s: tuple[float, ...], tmp_path: Path) -> None:
    found: Decided = []
    wanted: Decided = []
    for unit_s in units_s:
        jobs = trace(seed, unit_s)
        wanted = decided(simulated(jobs, unit_s), stack)
        assert len(wanted) == JOBS
        world = real(tmp_path / str(unit_s), jobs, LATENCY * unit_s)
        found = decided(world, stack)
        world.close()
        if found == wanted:
            break
    assert found == wanted


@pytest.mark.alone
def test_preemptions_match_too(units_s: tuple[float, ...], tmp_path: Path) -> None:
    """A long job gives way to each shorter one that comes, and goes on from its checkpoint in between."""
    found: Decided = []
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
        found = decided(world, "srsf-preemptive")
        world.close()
        if found == wanted:
            break
    assert found == wanted
