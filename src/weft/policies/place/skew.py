"""skew: Tiresias' placement. Models with one dominant tensor are consolidated, the others fill what is left over."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from weft.errors import InputError
from weft.model.plan import State
from weft.model.policy import setting
from weft.model.view import ClusterView, Fact, JobView, Offer
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import filled, idle_first


@dataclass(eq=False)
class Skew(Place):
    """A job whose largest tensor is more than a share of its model goes on the fewest servers, or waits for them; any
    other goes anywhere, servers with the fewest free GPUs first (Tiresias, section 4.2; its PACK_limit is `skew:0.3`).

    The skew of a model comes from the zoo, where the paper profiles messages; a model that the zoo does not know has
    none. Racks and further levels are not looked at. The Tiresias of the Dally authors' simulator does look at them:
    `delay:no-wait`.
    """

    needs = frozenset({Fact.MODEL})

    name = "skew"
    limit: float = setting(0.3, within="[0, 1]")

    def alike(self, job: JobView) -> str:
        """Those that are consolidated, and the others."""
        return "high" if skew_of(job.job.model) > self.limit else "low"

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Whole servers for skewed models, fragments for the others."""
        if offer.n_free < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer are on offer", state)
        free = offer.free_per_server
        skewed = skew_of(job.job.model) > self.limit
        idle = view.offer.free_per_server
        if not skewed:
            order = np.lexsort((free, idle == 0))  # servers where no job must leave first, then the fullest
            shares = filled(order[free[order] > 0], free, gpus)
            return Answer(idle_first(view, offer, shares), _words("low skew: anywhere", len(shares)), state)
        size = view.cluster.largest_server
        fewest = -(-gpus // size)
        last = gpus - (fewest - 1) * size
        words = f"high skew: waits for {gpus} GPUs on {'one server' if fewest == 1 else f'{fewest} servers'}"
        if free.max() < last or (fewest > 1 and np.count_nonzero(free == size) < fewest - 1):
            return Answer(None, words, state)  # checked first, because it is asked again and again while it waits
        whole = np.flatnonzero(free == size)
        whole = whole[np.argsort(-idle[whole], kind="stable")][: fewest - 1]
        able = free >= last
        able[whole] = False
        fits = np.flatnonzero(able)
        if len(whole) < fewest - 1 or not len(fits):
            return Answer(None, words, state)
        tight = fits[np.lexsort((free[fits], np.maximum(last - idle[fits], 0)))[0]]
        shares = [*((int(s), int(free[s])) for s in whole), (int(tight), last)]
        return Answer(idle_first(view, offer, shares), _words("high skew: consolidated", len(shares)), state)


@cache
def skew_of(model: str) -> float:
    """Largest tensor of a model over all its parameters, from the zoo; 0 where it does not know the model."""
    from weft.workload.zoo import find

    try:
        found = find(model.partition("[")[0])[0]
    except InputError:
        return 0.0
    return max((size for layer in found.layers for size in layer.tensors), default=0) / max(found.params, 1)


def _words(rule: str, servers: int) -> str:
    return f"{rule}, on {servers} server{'s' * (servers > 1)}"
