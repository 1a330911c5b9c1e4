"""hived: fragments first, split freely (HiveD as the Titan paper compares with it)."""

from __future__ import annotations

import numpy as np

from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import Ints, Share, idle_first


class HiveD(Place):
    """The largest fragment that the rest of the job fills, again and again; then part of the smallest one.

    A fragment is what is free on a machine in use. Idle machines are broken up last, those of racks in use before
    those of idle racks. Workers go in the order of their ranks, regardless of which workers communicate. At a tie the
    rack with fewer free GPUs wins. HiveD's own allocation by cells is left out, since the example of the Titan paper
    splits four workers 3 + 1 while a whole machine is idle; so are virtual clusters and opportunistic jobs.
    """

    name = "hived"

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Fragments, then idle machines."""
        if offer.n_free < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer are free", state)
        cluster, free = view.cluster, offer.free_per_server
        shares = fragments_first(free, cluster.gpus_per_server, cluster.rack_of_server, gpus)
        chosen = idle_first(view, offer, shares, by_rack=False)
        return Answer(chosen, f"fragments first: {len(shares)} machine{'s' * (len(shares) > 1)}", state)


def fragments_first(free: Ints, sizes: Ints, racks: Ints, gpus: int) -> list[Share]:
    """Shares of machines for `gpus` workers (there are that many free)."""
    idle = (free == sizes) & (free > 0)
    used_per_rack = np.bincount(racks, weights=sizes - free)
    used = np.flatnonzero(~idle & (free > 0))
    used = used[np.lexsort((-used_per_rack[racks[used]], -free[used]))]  # roomiest first, then in the fullest racks
    shares, gpus, left = _fill(used, free, gpus)
    if not gpus:
        return shares
    if len(left):  # all of them have more room than what is left: part of the smallest
        smallest = np.lexsort((left, -used_per_rack[racks[left]], free[left]))[0]
        return [*shares, (int(left[smallest]), gpus)]
    whole = np.flatnonzero(idle)
    whole = whole[np.argsort(-used_per_rack[racks[whole]], kind="stable")]
    more, gpus, left = _fill(whole, free, gpus)
    return [*shares, *more, *([(int(left[0]), gpus)] if gpus else [])]


def _fill(machines: Ints, free: Ints, gpus: int) -> tuple[list[Share], int, Ints]:
    """Machines in this order that the workers fill; how many workers are left, and the machines not taken."""
    shares: list[Share] = []
    skipped: list[int] = []
    for machine in machines.tolist():
        room = int(free[machine])
        if 0 < room <= gpus:
            shares.append((machine, room))
            gpus -= room
        else:
            skipped.append(machine)
    return shares, gpus, np.array(skipped, dtype=np.int64)
