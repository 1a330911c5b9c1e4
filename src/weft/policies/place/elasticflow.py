"""elasticflow: best fit for numbers rounded up to a power of two (ElasticFlow as the Titan paper compares with it)."""

from __future__ import annotations

import numpy as np

from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import Share, closest_free, filled, idle_first

_KEPT = "kept idle"


class ElasticFlow(Place):
    """The machine whose free GPUs are closest to the job's number rounded up to a power of two; else whole machines.

    The GPUs beyond the job's own are kept idle beside it until it ends. A job that does not find one machine (or, if it
    is larger than a machine, as many idle machines as it fills) waits. Left out: deadlines, elastic sizes and
    migration, with which its own paper always finds room for a power of two. Racks are not looked at; where a cluster
    has more levels, the whole machines are those of the closest group that has room. Ranks are in order; in the Titan
    paper's Exp#3 it sends least, which it does here with ranks dealt out (`dealt:elasticflow`).
    """

    name = "elasticflow"
    names_gpus = True

    def initial_state(self) -> State:
        """Nothing kept."""
        return {_KEPT: {}}

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """One machine, or idle ones."""
        seen = self.withheld(view, job, offer, state)
        block = max(gpus, min(1 << (gpus - 1).bit_length(), int(offer.usable.sum())))
        if 0 < job.job.per_server < gpus:
            block = gpus  # as many on each of several servers: there is nothing to round
        free = seen.free_per_server
        sizes = view.cluster.gpus_per_server
        if block <= int(sizes.max()):
            fits = np.flatnonzero(free >= block)
            shares: list[Share] = [(int(fits[np.argmin(free[fits])]), block)] if len(fits) else []
            words = f"waits for {block} GPUs on one machine"
        else:
            idle = np.flatnonzero(closest_free(view.cluster, np.where(free == sizes, free, 0), block))
            shares = filled(idle[np.argsort(-free[idle], kind="stable")], free, block)
            words = f"waits for idle machines with {block} GPUs"
        if not shares:
            return Answer(None, words, state)
        chosen = idle_first(view, seen, shares)
        rest = list(chosen[gpus:])
        kept = {**state[_KEPT], job.id: rest} if rest else {k: v for k, v in state[_KEPT].items() if k != job.id}
        reason = f"best fit for {block} GPUs on {len(shares)} machine{'s' * (len(shares) > 1)}"
        return Answer(chosen[:gpus], reason, {_KEPT: kept})

    def withheld(self, view: ClusterView, job: JobView, offer: Offer, state: State) -> Offer:
        """Without GPUs that are kept for jobs that hold GPUs, or were given some in this cycle."""
        gone = {name for name in state[_KEPT] if name not in view.running and name not in view.waiting}
        taken = {g for name, gpus in state[_KEPT].items() if name != job.id and name not in gone for g in gpus}
        return offer.without(np.array(sorted(taken), dtype=np.int64), view.cluster.server_of_gpu) if taken else offer

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """What was kept for jobs that have ended is free again."""
        if not state[_KEPT]:
            return state
        names = {*started, *view.running}
        return {_KEPT: {name: gpus for name, gpus in state[_KEPT].items() if name in names}}
