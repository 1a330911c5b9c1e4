"""Toy worlds played to their end, and what was decided there."""

from typing import Any

from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.world import World
from weft.model import Decision, Hold, Start
from weft.stacks import resolve

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
