"""Toy worlds played to their end, and what was decided there."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.stack import Stack
from weft.core.world import World
from weft.model import Decision, Hold, Placement, Start
from weft.policies.planners.base import Planner
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job

Move = tuple[float, type, str]  # when what was done with which job


def played(world: World, stack: str, until: float | None = None, **layers: Any) -> Core:
    """The core after the world was driven to its end, or until that time."""
    core = Core(resolve(stack, **layers), world)
    run(core, world, until)
    return core


def decided(core: Core) -> list[tuple[float, Decision]]:
    """All decisions and when they were made."""
    return [(t, decision) for _, t, decision in core.journal.entries]  # type: ignore[attr-defined]


def moves(core: Core) -> list[Move]:
    """Starts and stops."""
    return [(t, type(d), d.job) for t, d in decided(core) if not isinstance(d, Hold)]


def starts(core: Core) -> list[tuple[float, str, tuple[int, ...]]]:
    """When which job started on which GPUs."""
    return [(t, d.job, d.gpus) for t, d in decided(core) if isinstance(d, Start)]


def running(planner: Planner, **placed: Placement) -> Core:
    """A core in which these jobs run, of 100 iterations each, on four servers of four GPUs."""
    world = ToyWorld(toy_cluster(), [toy_job(name, len(gpus), 100) for name, gpus in placed.items()])
    core = Core(Stack("x", planner), world)
    core.confirm(world.next_events(None))
    for name, gpus in placed.items():
        core.table.starting(name, gpus, None)
    core.confirm(world.apply([Start(name, gpus, "") for name, gpus in placed.items()]))
    return core


def calls(act: Callable[[], object]) -> int:
    """Function calls that something takes."""
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
    return counted
