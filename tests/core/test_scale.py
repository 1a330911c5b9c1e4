from dataclasses import replace

import pytest

from testkit.toys import calls as counted
from weft.core.cycle import Core
from weft.core.loop import run
from weft.model import Event, Finished, Submitted
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


def stops(most: int, window_s: float = 1e9) -> list[str]:
    """Who gave way: twenty long jobs run, and a job of `greedy` that claims to be short comes every second."""
    long = [replace(toy_job(f"long{i}", 1, 1000), user=f"u{i}") for i in range(4)]
    short = [replace(toy_job(f"s{i}", 1, 50, submit_s=1.0 + i), user="greedy") for i in range(4)]
    world = ToyWorld(toy_cluster(1, 1, 4), [*long, *short])
    stack = resolve("srsf-preemptive")
    if most:
        stack.planner.cap_preemptions(most, window_s)
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
    assert len(stops(2)) == 2
    assert len(stops(1)) == 1


def test_what_is_long_ago_does_not_count() -> None:
    assert len(stops(1, window_s=1.5)) >= 2
