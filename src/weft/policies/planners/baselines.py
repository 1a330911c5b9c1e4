"""ideal and random: the baselines of CASSINI, section 5.1."""

from __future__ import annotations

import numpy as np

from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.view import ClusterView
from weft.policies.planners.base import Planner
from weft.policies.planners.target import Room, in_shape, pack


class Ideal(Planner):
    """One job on each copy of the cluster, close together, from the moment it is submitted.

    It asks the world for a cluster per job (`dedicated`); the simulated one makes as many copies as there are jobs.
    A world that cannot make copies of its cluster refuses the stack. GPU utilisation is over the GPUs of all copies, so
    it says nothing. Nothing of CASSINI's Ideal is left out.
    """

    name = "ideal"
    dedicated = True
    keeps_shapes = True

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """Each waiting job on the first copy that nobody is on."""
        cluster, usable = view.cluster, view.offer.usable
        each = cluster.n_gpus // cluster.copies
        busy = {gpus[0] // each for gpus in view.placements.values()}
        placed: dict[str, Placement] = {}
        declined = []
        empty = [copy for copy in range(cluster.copies) if copy not in busy]
        for job in view.waiting.values():
            gpus = None
            for copy in empty:
                there = [g for g in range(copy * each, (copy + 1) * each) if usable[g]]
                gpus = pack(Room(cluster, in_shape(cluster, there, job.job)), job.job.gpus)
                if gpus is not None:
                    placed[job.id] = gpus
                    empty.remove(copy)
                    break
            if gpus is None:
                declined.append(Declined(job.id, "waits for a cluster of its own"))
        plan = Plan({**view.placements, **placed})
        return [Candidate(plan, state, dict.fromkeys(placed, "a cluster of its own"), tuple(declined))]


class RandomPlanner(Planner):
    """First come, first served; GPUs drawn at random. Neither locality nor compatibility counts.

    A job that does not fit lets smaller ones pass. Running jobs stay where they are. Nothing of CASSINI's Random is
    left out.
    """

    name = "random"
    keeps_shapes = True

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
        there = np.flatnonzero(view.offer.free)
        free: list[int] = there[view.rng(f"random#{draw}").permutation(len(there))].tolist()
        placed: dict[str, Placement] = {}
        declined = []
        for job in view.waiting.values():
            n, able = job.job.gpus, in_shape(view.cluster, free, job.job)
            if n <= len(able):
                placed[job.id] = tuple(sorted(able[:n]))
                free = [gpu for gpu in free if gpu not in placed[job.id]] if job.job.per_server else free[n:]
            else:
                shape = f", {job.job.per_server} on each server" if job.job.per_server else ""
                declined.append(Declined(job.id, f"wants {n} GPUs{shape}; fewer are free"))
        plan = Plan({**view.placements, **placed})
        return Candidate(plan, state, dict.fromkeys(placed, "drawn at random"), tuple(declined))
