"""none: every job communicates when it is ready."""

from __future__ import annotations

from collections.abc import Sequence

from weft.interleave.base import Interleave, Pick
from weft.model.plan import Candidate, State
from weft.model.view import ClusterView

__all__ = ["NoInterleave"]


class NoInterleave(Interleave):
    """The planner's first choice, without gates."""

    name = "none"
    idle_without_gates = True

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        """The best candidate as it is."""
        return Pick(candidates[0], state)
