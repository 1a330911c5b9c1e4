"""hived: fragments first, split freely (HiveD as the Titan paper compares with it)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import Ints, Share, idle_first


class HiveD(Place):
    """The largest fragment that the rest of the job fills, again and again; then part of the smallest one.

    A fragment is what is free on a machine in use. Idle machines are broken up last, those of racks in use before
    those of idle racks. Workers go in the order of their ranks, regardless of which workers communicate. At a tie the
    rack with fewer free GPUs wins, and on clusters with more levels then the group of the next level. HiveD's own
    allocation by cells is left out, since the example of the Titan paper splits four workers 3 + 1 while a whole
    machine is idle; so are virtual clusters and opportunistic jobs.
    """

    name = "hived"

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Fragments, then idle machines."""
        if offer.n_free < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer are free", state)
        cluster, free = view.cluster, offer.free_per_server
        further = [level.of_server for level in cluster.between[1:]]
        shares = fragments_first(free, cluster.gpus_per_server, cluster.rack_of_server, gpus, further)
        chosen = idle_first(view, offer, shares, by_rack=False)
        return Answer(chosen, f"fragments first: {len(shares)} machine{'s' * (len(shares) > 1)}", state)


def fragments_first(
    free: Ints, sizes: Ints, racks: Ints, gpus: int, further: Sequence[Ints] = ()
) -> list[Share]:  # fmt: skip
    """Shares of machines for `gpus` workers (there are that many free). `further` are the groups of machines at the
    levels above the racks."""
    idle = (free == sizes) & (free > 0)
    emptiness = [-np.bincount(groups, weights=sizes - free)[groups] for groups in (*reversed(further), racks)]

    def fullest(machines: Ints, *keys: Ints) -> Ints:
        """By this key; then in the fullest rack, then in the fullest group of each further level, then by number."""
        return np.lexsort((machines, *(key[machines] for key in emptiness), *keys))

    used = np.flatnonzero(~idle & (free > 0))
    used = used[fullest(used, -free[used])]  # roomiest first
    shares, gpus, left = _fill(used, free, gpus)
    if not gpus:
        return shares
    if len(left):  # all of them have more room than what is left: part of the smallest
        smallest = fullest(left, free[left])[0]
        return [*shares, (int(left[smallest]), gpus)]
    whole = np.flatnonzero(idle)
    whole = whole[fullest(whole)]
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
