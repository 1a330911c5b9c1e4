"""Outcome: what serving claims led to, and how place is asked while they are served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from weft.core.occupancy import Draft
from weft.model.plan import Declined, Placement, State
from weft.model.view import JobView
from weft.place.base import Answer

__all__ = ["Ask", "Outcome"]

Ask = Callable[[JobView, int, Draft, State], Answer]  # how place is asked; alternatives ask with a twist


@dataclass
class Outcome:
    """What serving the claims led to."""

    state: State  # place's, after all its answers
    placed: dict[str, Placement] = field(default_factory=dict)  # jobs that start, and running jobs that move
    leaving: set[str] = field(default_factory=set)  # running jobs that give way
    reasons: dict[str, str] = field(default_factory=dict)
    declined: list[Declined] = field(default_factory=list)
