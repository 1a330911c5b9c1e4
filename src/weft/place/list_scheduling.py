"""ls: list scheduling, the GPUs with the least work left."""

from __future__ import annotations

import numpy as np

from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Offer
from weft.place.base import Answer, Place
from weft.place.ledger import NEEDS, big_enough, noted, workloads


class ListScheduling(Place):
    """LS of the Ada-SRSF paper (section IV-A): of the GPUs with enough memory left, those with the least work left.

    Where they are does not matter to it; at a tie the lower number wins.
    """

    name = "ls"
    needs = NEEDS
    shares_gpus = True

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """The least loaded ones, least first."""
        fit = big_enough(job, gpus, offer)
        if len(fit) < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer have the memory", state)
        chosen = fit[np.argsort(workloads(view, state)[fit], kind="stable")[:gpus]]
        placement = tuple(chosen.tolist())
        return Answer(placement, "GPUs with the least work left", noted(view, job, placement, state))

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """From now on the view shows what was answered."""
        return {}
