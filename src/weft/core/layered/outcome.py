"""Outcome: what serving claims led to, and how place is asked while they are served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from weft.core.occupancy import Draft
from weft.errors import DecisionError
from weft.model.plan import Declined, Placement, State
from weft.model.view import ClusterView, JobView
from weft.order.base import Claim
from weft.place.base import Answer

Ask = Callable[[JobView, int, Draft, State], Answer]  # how place is asked; alternatives ask in a varied way


@dataclass
class Outcome:
    """What serving the claims led to."""

    state: State  # place's, after all its answers
    placed: dict[str, Placement] = field(default_factory=dict)  # jobs that start, and running jobs that move
    leaving: set[str] = field(default_factory=set)  # running jobs that give way
    caused: Counter[str] = field(default_factory=Counter)  # jobs that give way, by the user they give way to
    reasons: dict[str, str] = field(default_factory=dict)
    declined: list[Declined] = field(default_factory=list)

    def waiting(self, view: ClusterView, claim: Claim) -> JobView:
        """The waiting job that a claim is about; an order that claims another, or one twice, is wrong."""
        job = view.waiting.get(claim.job)
        if job is None:
            raise DecisionError(f"claim of job {claim.job}: there is no such job waiting")
        if claim.job in self.placed:
            raise DecisionError(f"claim of job {claim.job}: it is claimed twice")
        return job
