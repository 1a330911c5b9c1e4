"""ideal and random: the baselines of CASSINI, section 5.1."""

from __future__ import annotations

import numpy as np

from weft.model.job import Job
from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.view import ClusterView, Fact, Spread
from weft.policies.planners.base import Planner
from weft.policies.planners.target import Room, by_type, in_shape, pack


class Ideal(Planner):
    """One job on each copy of the cluster, close together, from the moment it is submitted.

    It asks the world for a cluster per job (`dedicated`); the simulated one makes as many copies as there are jobs.
    A world that cannot make copies of its cluster refuses the stack. GPU utilisation is over the GPUs of all copies, so
    it says nothing. Where there are several types of GPU, a job that takes any has the one on which its iterations are
    shortest. Nothing of CASSINI's Ideal is left out.
    """

    name = "ideal"
    dedicated = True
    keeps_shapes = True
    unequal = True

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
                gpus = _fastest(view, job.job, there)
                if gpus is not None:
                    placed[job.id] = gpus
                    empty.remove(copy)
                    break
            if gpus is None:
                declined.append(Declined(job.id, "waits for a cluster of its own"))
        plan = Plan({**view.placements, **placed})
        return [Candidate(plan, state, dict.fromkeys(placed, "a cluster of its own"), tuple(declined))]


def _fastest(view: ClusterView, job: Job, there: list[int]) -> Placement | None:
    """These GPUs close together; of several types, those on which the job's iterations are shortest."""
    found: list[tuple[float, Placement]] = []
    for asked, gpus in by_type(view, there, job):
        packed = pack(Room(view.cluster, in_shape(view.cluster, gpus, job)), job.gpus)
        if packed is not None:
            known = Fact.PROFILE in view.facts and not view.cluster.alike
            spread = Spread.of(view.cluster, packed)
            found.append((view.estimate(asked, job.gpus, spread).iteration_s if known else 0.0, packed))
    return min(found, key=lambda one: one[0])[1] if found else None


class RandomPlanner(Planner):
    """First come, first served; GPUs drawn at random. Neither locality nor compatibility counts.

    A job that does not fit lets smaller ones pass. Running jobs stay where they are. Of several types of GPU that have
    room, a job that takes any has that of the first GPU drawn. Nothing of CASSINI's Random is left out.
    """

    name = "random"
    keeps_shapes = True
    unequal = True

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
            n, able = job.job.gpus, self._able(view, free, job.job)
            if n <= len(able):
                placed[job.id] = tuple(sorted(able[:n]))
                whole = job.job.per_server or not view.cluster.alike
                free = [gpu for gpu in free if gpu not in placed[job.id]] if whole else free[n:]
            else:
                shape = f", {job.job.per_server} on each server" if job.job.per_server else ""
                declined.append(Declined(job.id, f"wants {n} GPUs{shape}; fewer are free"))
        plan = Plan({**view.placements, **placed})
        return Candidate(plan, state, dict.fromkeys(placed, "drawn at random"), tuple(declined))

    def _able(self, view: ClusterView, free: list[int], job: Job) -> list[int]:
        """The free GPUs of one type that the job could have, as they were drawn."""
        shaped = [in_shape(view.cluster, gpus, job) for _, gpus in by_type(view, free, job)]
        enough = [gpus for gpus in shaped if len(gpus) >= job.gpus]
        return min(enough or shaped or [[]], key=lambda gpus: free.index(gpus[0]) if gpus else len(free))
