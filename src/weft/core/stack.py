"""Stack: one answer to each of the four questions, checked for contradictions."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.errors import StackError
from weft.interleave.base import Interleave, NoInterleave
from weft.pace.admission import Fair
from weft.pace.base import Pace
from weft.planners.base import Planner


@dataclass(frozen=True)
class Stack:
    """A planner (order and place joined by `Layered`, or a joint planner), an interleave and a pace."""

    name: str
    planner: Planner
    interleave: Interleave = field(default_factory=NoInterleave)
    pace: Pace = field(default_factory=Fair)

    def __post_init__(self) -> None:
        if self.interleave.shifts and self.pace.holds_back:
            raise StackError(
                f"stack {self.name}: {self.pace.name} holds transfers back, which undoes the time-shifts of "
                f"{self.interleave.name}; use one of them"
            )
        if self.interleave.shifts and self.planner.shares_gpus:
            raise StackError(
                f"stack {self.name}: {self.interleave.name} assumes that a GPU has one job, and {self.planner.name} "
                "shares GPUs; use a place that does not, or leave the shifts out"
            )
