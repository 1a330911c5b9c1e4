"""first-fit and random: places that only ask which GPUs have room; with `NAME:shared` a GPU may have several jobs.

The Ada-SRSF paper (section V) calls `first-fit:shared` FF and `random:shared` RAND.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weft.model.plan import Placement, State
from weft.model.policy import setting
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import Ints


def big_enough(job: JobView, gpus: int, offer: Offer) -> Ints:
    """GPUs with enough memory left for a worker of the job, by number."""
    return np.flatnonzero(offer.usable & (offer.memory >= job.job.profiles[gpus].memory_bytes))


@dataclass(eq=False)
class Fitting(Place):
    """Some of the free GPUs or, with `shared`, of those with enough memory left."""

    why: ClassVar[str]
    shares_gpus: bool = setting(False, words={"shared": True})

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Those that `choose` takes, if there are enough."""
        fit = big_enough(job, gpus, offer) if self.shares_gpus else np.flatnonzero(offer.free)
        if len(fit) < gpus:
            what = "have memory for it" if self.shares_gpus else "are free"
            return Answer(None, f"wants {gpus} GPUs, fewer {what}", state)
        return Answer(self.choose(view, job, gpus, fit), self.why, state)

    @abstractmethod
    def choose(self, view: ClusterView, job: JobView, gpus: int, fit: Ints) -> Placement:
        """The wanted number of these GPUs."""


class FirstFit(Fitting):
    """The lowest-numbered free GPUs; with `first-fit:shared` the lowest-numbered GPUs with enough memory left, on which
    several jobs may be (FF of the Ada-SRSF paper). Nothing is left out."""

    name, why = "first-fit", "first GPUs that will do"

    def choose(self, view: ClusterView, job: JobView, gpus: int, fit: Ints) -> Placement:
        """The first."""
        return tuple(fit[:gpus].tolist())


class RandomPlace(Fitting):
    """Free GPUs drawn at random; with `random:shared` GPUs with enough memory left (RAND of the Ada-SRSF paper).

    Each job has its own lot, so what one is given does not depend on who was asked before it. Nothing is left out.
    """

    name, why = "random", "drawn at random"

    def choose(self, view: ClusterView, job: JobView, gpus: int, fit: Ints) -> Placement:
        """Whatever the lot says; ranks follow the numbers of the GPUs."""
        lot = "rand" if self.shares_gpus else self.name  # as in 0.1, where it was a policy of its own
        drawn = view.rng(f"{lot}:{job.id}").choice(fit, gpus, replace=False)
        return tuple(sorted(drawn.tolist()))
