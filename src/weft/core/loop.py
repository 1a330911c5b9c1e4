"""The loop that drives any world with a core."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.core.cycle import Core
from weft.core.world import World
from weft.errors import DecisionError
from weft.model.events import Event, Failed, Started

_MAX_ROUNDS = 1000  # cycles at one instant, for orders that stop what they have just started
_MAX_IDLE_WAKES = 100_000  # wake-ups in a row that changed nothing while nothing ran


def run(
    core: Core, world: World, until: float | None = None, on_progress: Callable[[float, Core], None] | None = None
) -> None:
    """Let the world go on until nothing more can happen, or until that time; `on_progress` is called every cycle."""
    idle_wakes = 0
    while (moved := advance(core, world, until)) is not None:
        idle_wakes = 0 if moved or core.table.running else idle_wakes + 1
        if idle_wakes > _MAX_IDLE_WAKES:
            raise DecisionError(
                f"stack {core.stack.name} woke {idle_wakes} times in a row and did nothing, at {world.now()} s"
            )
        if on_progress is not None:
            on_progress(world.now(), core)


def advance(core: Core, world: World, until: float | None = None) -> bool | None:
    """Let the world go on to its next events, or to when the policies want to be asked again, and settle them.

    True if anything happened or was decided; None if nothing more can happen, or not before `until`.
    """
    if not core.paced:  # a run that continues has set it before
        world.set_route(core.stack.route)
        world.set_pace(core.stack.pace)
        core.paced = True
    bound = min((t for t in (core.wake_s, until) if t is not None), default=None)
    events = world.next_events(bound)
    if not events and (bound is None or bound == until):
        return None
    return settle(core, world, events) or bool(events)


def settle(core: Core, world: World, events: Sequence[Event]) -> bool:
    """Cycles at one instant, until what the world confirmed at once frees nothing; True if anything was decided."""
    acted = False
    for _ in range(_MAX_ROUNDS):
        decisions = core.step(world.now(), events)
        acted = acted or bool(decisions)
        events = world.apply(decisions) if decisions else []
        if all(isinstance(event, Started) for event in events):
            core.confirm(events)
            return acted
    if any(isinstance(event, Failed) for event in events):
        raise DecisionError(f"gave up at {world.now():g} s after {_MAX_ROUNDS} failed starts; lower failure_rate")
    raise DecisionError(
        f"gave up at {world.now():g} s: stack {core.stack.name} stopped jobs that it had just started, "
        f"{_MAX_ROUNDS} times"
    )
