"""From shares of servers to GPUs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from weft.model.plan import Placement
from weft.model.view import ClusterView, Offer

Share = tuple[int, int]  # server, GPUs on it


def idle_first(view: ClusterView, offer: Offer, shares: Iterable[Share]) -> Placement:
    """GPUs of these servers, ranks ordered by rack and server; those that nobody has to leave go first."""
    racks, free, taken = view.cluster.rack_of_server, offer.free, view.offer.residents
    chosen: list[int] = []
    for server, count in sorted(shares, key=lambda share: (racks[share[0]], share[0])):
        ids = np.asarray(view.cluster.servers[server].gpus)
        ids = ids[free[ids]]
        chosen += ids[np.argsort(taken[ids] > 0, kind="stable")][:count].tolist()
    return tuple(chosen)
