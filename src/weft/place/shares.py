"""From shares of servers to GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from weft.model.plan import Placement
from weft.model.view import ClusterView, Offer

Share = tuple[int, int]  # server, GPUs on it


def idle_first(view: ClusterView, offer: Offer, shares: Iterable[Share]) -> Placement:
    """GPUs of these servers, ranks ordered by rack and server; those that nobody has to leave go first."""
    servers, taken = view.cluster.servers, view.offer.residents
    chosen: list[int] = []
    for server, count in sorted(shares, key=lambda share: (servers[share[0]].rack, share[0])):
        free = offer.free_among(servers[server].gpus)
        free.sort(key=lambda gpu: taken[gpu] > 0)
        chosen += free[:count]
    return tuple(chosen)
