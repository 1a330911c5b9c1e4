"""Stack: one answer to each of the five questions, checked for contradictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from weft.core.capabilities import Capabilities
from weft.errors import StackError
from weft.model.view import Fact
from weft.policies.interleave.base import Interleave, NoInterleave
from weft.policies.pace.admission import Fair
from weft.policies.pace.base import Pace
from weft.policies.planners.base import Planner
from weft.policies.route.base import Ecmp, Route

# Given what a world can do and knows: the stack fitted to it, and a line about each thing that is left out.
Suited: TypeAlias = "Callable[[Stack, Capabilities, frozenset[Fact]], tuple[Stack, tuple[str, ...]]]"


@dataclass(frozen=True)
class Stack:
    """A planner (order and place joined by `Layered`, or a joint planner), an interleave, a pace and a route."""

    name: str
    planner: Planner
    interleave: Interleave = field(default_factory=NoInterleave)
    pace: Pace = field(default_factory=Fair)
    route: Route = field(default_factory=Ecmp)
    suited: Suited | None = None  # fits it to a world at the start of a run; None: it runs as it is or is refused

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

    @property
    def needs(self) -> frozenset[Fact]:
        """What must be known about jobs; a planner that is fitted to its world makes do with what is known there."""
        planner = self.planner.needs if self.suited is None else frozenset[Fact]()
        return planner | self.interleave.needs | self.pace.needs | self.route.needs
