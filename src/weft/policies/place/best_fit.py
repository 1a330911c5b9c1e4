"""best-fit: close together, and where the least is left over."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from weft.model.cluster import Cluster
from weft.model.plan import Placement, State
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.place.base import Answer, Place

Ints = npt.NDArray[np.int64]
Share = tuple[int, int]  # server, GPUs on it


class BestFit(Place):
    """Consolidated best fit: the fewest servers, then the fewest racks, then the tightest fit.

    Over one rack the choice is exact in servers and racks; over several, racks are taken greedily, the fullest use of
    a rack first. Where a cluster has further levels (NVLink domains, rail groups, pods), it looks in the closest group
    that has room, before it counts servers.
    """

    name = "best-fit"

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Free GPUs, ranks ordered by rack and server."""
        if offer.n_free < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer are free", state)
        racks = view.cluster.rack_of_server
        shares = tightest(closest_free(view.cluster, offer.free_per_server, gpus), racks, gpus)
        chosen: list[int] = []
        for server, count in sorted(shares, key=lambda share: (racks[share[0]], share[0])):
            chosen += offer.free_among(view.cluster.servers[server].gpus)[:count]
        return Answer(tuple(chosen), f"tightest fit on {len(shares)} server{'s' * (len(shares) > 1)}", state)


def idle_first(view: ClusterView, offer: Offer, shares: Iterable[Share], by_rack: bool = True) -> Placement:
    """GPUs of these servers, beginning with those that no job has to leave; ranks go by rack and server, or by the
    shares."""
    servers, taken = view.cluster.servers, view.offer.residents
    chosen: list[int] = []
    for server, count in sorted(shares, key=lambda share: (servers[share[0]].rack, share[0])) if by_rack else shares:
        free = offer.free_among(servers[server].gpus)
        free.sort(key=lambda gpu: taken[gpu] > 0)
        chosen += free[:count]
    return tuple(chosen)


def closest_free(cluster: Cluster, free: Ints, gpus: int) -> Ints:
    """The numbers free on each server of the closest group that has room: that with the fewest servers to take, then
    the least to spare. On a cluster of racks only, all that is free."""
    further = len(cluster.level_names) > 1 or cluster.nvlinks
    for level in cluster.between if further and int(free.max()) < gpus else ():
        room = level.sums(free)
        keys: list[tuple[int, float, int]] = []
        for group in np.flatnonzero(room >= gpus).tolist():
            inside = np.sort(free[level.of_server == group])[::-1]
            keys.append((int(np.searchsorted(np.cumsum(inside), gpus)) + 1, float(room[group]), group))
        if keys:
            return np.where(level.of_server == min(keys)[2], free, 0)
    return free


def tightest(free: Ints, racks: Ints, gpus: int) -> list[Share]:
    """Servers for `gpus` workers (there are that many free), by the numbers free on each server."""
    server = _tightest_server(free, gpus)
    if server is not None:
        return [(server, gpus)]
    some = np.flatnonzero(free)  # in a busy cluster most servers have none
    return [(int(some[i]), count) for i, count in _over_several(free[some], racks[some], gpus)]


def _tightest_server(free: Ints, gpus: int) -> int | None:
    """The first of the servers with the fewest free GPUs among those that have enough."""
    server = int((free == gpus).argmax())  # mostly there is one that is just right
    if free[server] == gpus:
        return server
    for level in range(gpus + 1, int(free.max()) + 1):
        server = int((free == level).argmax())
        if free[server] == level:
            return server
    return None


def filled(order: Ints, free: Ints, gpus: int) -> list[Share]:
    """Servers in this order, all but the last taken whole; none if they have fewer GPUs than wanted."""
    shares: list[Share] = []
    for server in order.tolist():
        shares.append((server, min(gpus, int(free[server]))))
        gpus -= shares[-1][1]
        if gpus == 0:
            return shares
    return []


def _over_several(free: Ints, racks: Ints, gpus: int) -> list[Share]:
    biggest = np.sort(free)[::-1]
    servers = int(np.searchsorted(np.cumsum(biggest), gpus)) + 1  # the fewest that will do
    shares: list[Share] = []
    left = free.copy()
    while gpus:
        most = _most_in_rack(left, racks, servers)
        enough = np.flatnonzero(most >= gpus)
        if len(enough):
            total = np.bincount(racks, weights=left, minlength=len(most))
            rack = int(enough[np.argmin(total[enough])])
            return shares + _finish(left, np.flatnonzero(racks == rack), gpus, servers)
        rack_shares = _best_part(left, racks, np.argsort(-most, kind="stable"), gpus, servers)
        shares += rack_shares
        gpus -= sum(count for _, count in rack_shares)
        servers -= len(rack_shares)
        left[racks == racks[rack_shares[0][0]]] = 0
    return shares


def _most_in_rack(free: Ints, racks: Ints, servers: int) -> npt.NDArray[np.float64]:
    """GPUs free on the best `servers` servers of each rack."""
    order = np.lexsort((-free, racks))
    rack = racks[order]
    first = np.searchsorted(rack, rack)  # where the rack of each entry begins
    best = np.arange(len(rack)) - first < servers
    return np.bincount(rack[best], weights=free[order][best], minlength=int(racks.max()) + 1).astype(np.float64)


def _finish(free: Ints, members: Ints, gpus: int, servers: int) -> list[Share]:
    """The rest on at most `servers` of these servers: the emptiest ones whole, and the last as tight as possible."""
    order = members[np.argsort(-free[members], kind="stable")]
    shares: list[Share] = []
    for server in order[: servers - 1].tolist():
        if free[server] >= gpus:
            break
        shares.append((server, int(free[server])))
        gpus -= int(free[server])
    rest = order[len(shares) :]
    fit = rest[free[rest] >= gpus]
    return [*shares, (int(fit[np.argmin(free[fit])]), gpus)]


def _best_part(free: Ints, racks: Ints, order: Ints, gpus: int, servers: int) -> list[Share]:
    """As many whole servers of one rack as still let the job end up on the fewest servers."""
    for rack in order.tolist():
        inside = racks == rack
        mine = np.flatnonzero(inside)
        mine = mine[np.argsort(-free[mine], kind="stable")][:servers]
        others = np.concatenate(([0], np.cumsum(np.sort(free[~inside])[::-1])))
        sums = np.cumsum(free[mine])
        for n in range(len(mine), 0, -1):
            if sums[n - 1] + others[min(servers - n, len(others) - 1)] >= gpus and free[mine[n - 1]] > 0:
                return [(int(server), int(free[server])) for server in mine[:n]]
    raise AssertionError("some rack has one of the emptiest servers")
