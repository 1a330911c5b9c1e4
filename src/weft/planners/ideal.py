"""ideal: each job has a cluster to itself (the Ideal baseline of CASSINI, section 5.1)."""

from __future__ import annotations

from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.view import ClusterView
from weft.planners.base import Planner
from weft.planners.packing import Room, pack

__all__ = ["Ideal"]


class Ideal(Planner):
    """One job on each copy of the cluster, close together, from the moment it is submitted.

    It asks the world for a cluster per job (`dedicated`); the simulated one makes as many copies as there are jobs.
    Where there is one cluster only, jobs have it one after another.
    """

    name = "ideal"
    dedicated = True

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
                room = Room(cluster, [g for g in range(copy * each, (copy + 1) * each) if usable[g]])
                gpus = pack(room, job.job.gpus)
                if gpus is not None:
                    placed[job.id] = gpus
                    empty.remove(copy)
                    break
            if gpus is None:
                declined.append(Declined(job.id, "waits for a cluster of its own"))
        plan = Plan({**view.placements, **placed})
        return [Candidate(plan, state, dict.fromkeys(placed, "a cluster of its own"), tuple(declined))]
