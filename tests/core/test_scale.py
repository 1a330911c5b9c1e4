import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from weft.core.cycle import Core
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
    counted = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        core.step(1.0, events)
    finally:
        sys.setprofile(None)
    return counted


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
