"""Scenarios and job files: the one place where what a user writes is checked."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.scenario.scenario import Scenario

__all__ = ["Scenario"]


def __getattr__(name: str) -> Any:
    """`Scenario`, imported when it is asked for: it takes longer than to check what a user writes elsewhere."""
    if name != "Scenario":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from weft.scenario.scenario import Scenario

    return Scenario
