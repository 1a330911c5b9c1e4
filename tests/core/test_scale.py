from dataclasses import replace

import pytest

from testkit.toys import calls as counted
from weft.core.cycle import Core
from weft.core.loop import run
from weft.model import Event, Finished, Submitted
from weft.model.reason import Reason, because
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job

JOB = toy_job("x")


def calls(stack: str, gpus: int, waiting: int, *events: Event) -> int:
    """Function calls of one cycle in a full cluster of that many one-GPU jobs and that many more in line."""
    world = ToyWorld(toy_cluster(1, gpus // 8, 8), [])
    core = Core(resolve(stack), world)
    jobs = [replace(JOB, id=f"j{i}", submit_s=float(i)) for i in range(gpus + waiting)]
    core.step(0.0, [Submitted(0.0, job) for job in jobs[:gpus]])
    core.step(0.0, [Submitted(0.0, job) for job in jobs[gpus:]])
    assert len(core.table.running) == gpus
    return counted(lambda: core.step(1.0, events))


@pytest.mark.parametrize("stack", ["fifo", "fifo-backfill", "srsf", "sjf"])
@pytest.mark.parametrize(
    "events",
    [(), (Submitted(1.0, toy_job("new", 2)),), (Finished(1.0, "j3"),)],
    ids=["nothing", "an arrival", "a finish"],
)
def test_cost_does_not_grow_with_the_jobs_that_are_there(stack: str, events: tuple[Event, ...]) -> None:
    small = calls(stack, 64, 100, *events)
    assert calls(stack, 64, 3000, *events) <= small + 10
    assert calls(stack, 1024, 100, *events) <= small + 10


def stops(gpu_s: float, window_s: float = 1e9, gpus: int = 1) -> list[str]:
    """Who gave way: four long jobs run, and a job of `greedy` that claims to be short comes every second. Each job has
    that many GPUs."""
    long = [replace(toy_job(f"long{i}", gpus, 1000), user=f"u{i}") for i in range(4)]
    short = [replace(toy_job(f"s{i}", gpus, 50, submit_s=1.0 + i), user="greedy") for i in range(4)]
    world = ToyWorld(toy_cluster(1, 1, 4 * gpus), [*long, *short])
    stack = resolve("srsf-preemptive")
    if gpu_s:
        stack.planner.cap_preemptions(gpu_s, window_s)
    core = Core(stack, world)
    seen: list[str] = []

    def look(now: float, core: Core) -> None:
        seen.extend(
            j.id for j in core.table.jobs.values() if j.id.startswith("long") and j.preemptions and j.id not in seen
        )

    run(core, world, 20.0, look)
    return seen


def test_without_a_cap_everybody_gives_way() -> None:
    assert len(stops(0)) == 4


def test_a_user_has_no_more_than_the_cap() -> None:
    """A GPU that is taken costs a minute at once."""
    assert len(stops(125.0)) == 2
    assert len(stops(65.0)) == 1


def test_the_cap_counts_gpus_and_how_long_they_are_kept() -> None:
    assert len(stops(125.0, gpus=2)) == 1
    assert len(stops(120.5)) == 1  # the first has had its GPU for a second when the second comes


def test_what_is_long_ago_does_not_count() -> None:
    assert len(stops(65.0, window_s=1.5)) >= 2


def test_a_job_that_waits_for_its_users_earlier_ones_is_told() -> None:
    jobs = [replace(toy_job(f"j{i}", 1, 10 ** (4 - i), submit_s=float(i)), user="greedy") for i in range(3)]
    stack, world = resolve("srsf-preemptive"), ToyWorld(toy_cluster(1, 1, 1), jobs)
    stack.planner.cap_preemptions(65.0, 3600.0)
    core = Core(stack, world)
    run(core, world, 20.0)
    assert core.table.placements == {"j1": (0,)}
    why = core.table.held["j2"]
    assert isinstance(why, Reason)
    assert (why.code, why["second"]) == ("weft.both", because("weft.dear", user="greedy"))
