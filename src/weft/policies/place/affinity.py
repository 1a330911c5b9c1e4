"""affinity: Gandiva's placement. Servers are kept for jobs of one size; what does not fit on a server goes anywhere."""

from __future__ import annotations

import numpy as np

from weft.model.plan import Placement, State
from weft.model.view import ClusterView, JobStatus, JobView, Offer, Spread
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import Ints, filled, idle_first


class Affinity(Place):
    """A job goes to a server whose affinity is its size, else to one without, else to any that can hold it; among
    several, to the one with the most free GPUs. Otherwise free GPUs are drawn at random, wherever they are: the network
    is unknown (Gandiva, section 3.2). A suspended job comes back to its GPUs if they are on one server or there is
    nothing better; a running job that asks moves to fewer servers, or stays (section 3.3).

    A server has the affinity of the first job that came to it, until it is empty. The memory is that, and where jobs
    were last.
    """

    name = "affinity"

    def initial_state(self) -> State:
        """By server, the size of its jobs; by job, its GPUs."""
        return {"affinity": {}, "homes": {}}

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Its own GPUs, one server by affinity, or GPUs at random."""
        if offer.n_free < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer are on offer", state)
        waits = job.status is JobStatus.WAITING
        home = tuple(state["homes"].get(job.id, ())) if waits else job.gpus
        back = len(home) == gpus and bool(offer.free[list(home)].all())
        if not waits and not back:
            return Answer(None, "its slice is over", state)  # its GPUs now belong to the jobs of this slice
        if back and waits and Spread.of(view.cluster, home).servers == 1:
            return Answer(home, "back on its server", state)
        if offer.free_per_server.max() < gpus and back:
            return self._closer(view, job, home, offer, state)
        return self.anywhere(view, job, gpus, offer, state)

    def anywhere(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Free GPUs (there are enough), wherever the job was before: one server by affinity, else at random."""
        free = offer.free_per_server
        fits = np.flatnonzero(free >= gpus)
        if len(fits):
            server, words = self._choose(view, fits, free, gpus, state)
            if state["affinity"].get(str(server)) != gpus and free[server] == view.cluster.gpus_per_server[server]:
                state = {**state, "affinity": {**state["affinity"], str(server): gpus}}
            return self._answer(job, idle_first(view, offer, [(server, gpus)]), words, state)
        drawn = view.rng(f"affinity:{job.id}").permutation(np.flatnonzero(offer.free))
        idle_first_ = np.argsort(view.offer.residents[drawn] > 0, kind="stable")  # so that no job leaves needlessly
        chosen = tuple(sorted(drawn[idle_first_][:gpus].tolist()))
        return self._answer(job, chosen, "no server has room: GPUs at random", state)

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """Forget jobs that are gone."""
        homes = state["homes"]
        if len(homes) <= len(view.waiting) + len(view.running):
            return state
        return {
            **state,
            "homes": {name: g for name, g in homes.items() if name in view.waiting or name in view.running},
        }

    def _answer(self, job: JobView, gpus: Placement, words: str, state: State) -> Answer:
        return Answer(gpus, words, {**state, "homes": {**state["homes"], job.id: list(gpus)}})

    def _choose(self, view: ClusterView, fits: Ints, free: Ints, gpus: int, state: State) -> tuple[int, str]:
        affinity: dict[str, int] = state["affinity"]
        empty = free[fits] == view.cluster.gpus_per_server[fits]
        sizes = np.array([0 if e else affinity.get(str(s), 0) for s, e in zip(fits.tolist(), empty, strict=True)])
        rank = np.where(sizes == gpus, 0, np.where(sizes == 0, 1, 2))
        idle = np.maximum(gpus - view.offer.free_per_server[fits], 0)
        best = np.lexsort((fits, -free[fits], idle, rank))[0]
        words = ("a server for jobs of its size", "a server without affinity", "a server that has room")
        return int(fits[best]), words[int(rank[best])]

    def _closer(self, view: ClusterView, job: JobView, home: Placement, offer: Offer, state: State) -> Answer:
        """The servers with the most free GPUs, if they are fewer than those it has."""
        free = offer.free_per_server
        order = np.argsort(-free, kind="stable")
        count = int(np.searchsorted(np.cumsum(free[order]), len(home))) + 1
        if count >= Spread.of(view.cluster, home).servers:
            return Answer(home, "on its own GPUs", state)
        shares = filled(order[:count], free, len(home))
        return self._answer(job, idle_first(view, offer, shares), f"moves to {count} servers", state)
