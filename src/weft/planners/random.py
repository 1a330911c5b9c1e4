"""random: each job gets the workers it asked for, anywhere (the Random baseline of CASSINI, section 5.1)."""

from __future__ import annotations

import numpy as np

from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.view import ClusterView
from weft.planners.base import Planner

__all__ = ["RandomPlanner"]


class RandomPlanner(Planner):
    """First come, first served; GPUs drawn by lot. Neither locality nor compatibility counts.

    A job that does not fit lets smaller ones pass. Running jobs stay where they are.
    """

    name = "random"

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """Up to n draws; they start the same jobs."""
        found: list[Candidate] = []
        seen: set[tuple[tuple[str, Placement], ...]] = set()
        for draw in range(n):
            candidate = self._draw(view, state, draw)
            key = tuple(sorted(candidate.plan.placements.items()))
            if key not in seen:
                seen.add(key)
                found.append(candidate)
        return found

    def _draw(self, view: ClusterView, state: State, draw: int) -> Candidate:
        free = np.flatnonzero(view.offer.free)
        free = free[view.rng(f"random#{draw}").permutation(len(free))].tolist()
        placed: dict[str, Placement] = {}
        declined = []
        for job in view.waiting.values():
            n = job.job.gpus
            if n <= len(free):
                placed[job.id], free = tuple(sorted(free[:n])), free[n:]
            else:
                declined.append(Declined(job.id, f"wants {n} GPUs; fewer are free"))
        plan = Plan({**view.placements, **placed})
        return Candidate(plan, state, dict.fromkeys(placed, "drawn by lot"), tuple(declined))
