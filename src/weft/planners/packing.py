"""Packing: sizes become placements, close together; and other placements of equal merit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from weft.model.cluster import Cluster
from weft.model.plan import Placement
from weft.model.view import ClusterView, Spread

__all__ = ["Room", "different_ways", "pack"]

_PATIENCE = 12  # tries in a row that bring nothing new before the search is given up


class Room:
    """Free GPUs by server; `key` says which of equally good servers comes first."""

    def __init__(self, cluster: Cluster, gpus: Iterable[int], key: Sequence[float] | None = None) -> None:
        self.cluster = cluster
        self.free: dict[int, list[int]] = {}
        for gpu in sorted(gpus):
            self.free.setdefault(int(cluster.server_of_gpu[gpu]), []).append(gpu)
        self.key: Sequence[float] = key if key is not None else range(len(cluster.servers))

    @property
    def n_free(self) -> int:
        """GPUs left."""
        return sum(map(len, self.free.values()))

    def take(self, server: int, n: int) -> list[int]:
        """n GPUs of a server."""
        taken, rest = self.free[server][:n], self.free[server][n:]
        if rest:
            self.free[server] = rest
        else:
            del self.free[server]
        return taken


def pack(room: Room, n: int) -> Placement | None:
    """n GPUs on one server, or else in one rack, or else in few racks; always where the least is left over."""
    if room.n_free < n:
        return None
    fits = [s for s, gpus in room.free.items() if len(gpus) >= n]
    if fits:
        return tuple(room.take(min(fits, key=lambda s: (len(room.free[s]), room.key[s])), n))
    racks: dict[int, list[int]] = {}
    for server in room.free:
        racks.setdefault(int(room.cluster.rack_of_server[server]), []).append(server)
    total = {rack: sum(len(room.free[s]) for s in servers) for rack, servers in racks.items()}
    first = {rack: min(room.key[s] for s in servers) for rack, servers in racks.items()}
    chosen: list[int] = []
    left = n
    while left:
        enough = [rack for rack in racks if total[rack] >= left]
        if enough:
            rack = min(enough, key=lambda r: (total[r], first[r]))
        else:
            rack = max(racks, key=lambda r: (total[r], -first[r]))
        for server in sorted(racks.pop(rack), key=lambda s: (-len(room.free[s]), room.key[s])):
            taken = room.take(server, min(left, len(room.free[server])))
            chosen += taken
            left -= len(taken)
            if not left:
                break
    return tuple(sorted(chosen))


def different_ways(
    view: ClusterView,
    sizes: Mapping[str, int],
    pool: Iterable[int],
    kept: Mapping[str, Placement],
    n: int,
    stream: str,
) -> list[dict[str, Placement]]:
    """Up to n ways to give jobs these numbers of GPUs of a pool, each job spread over as many servers and racks.

    In the first way jobs keep the GPUs in `kept` (if these are in the pool and as many); in the others they may move:
    who goes first and which of equal servers come first is drawn by lot.
    """
    cluster = view.cluster
    pool = list(pool)
    inside = set(pool)
    stay = {job: gpus for job, gpus in kept.items() if sizes.get(job) == len(gpus) and inside.issuperset(gpus)}
    first = _one_way(cluster, sizes, inside, stay, None)
    ways = [first]
    known = {_servers(cluster, first)}
    spread = {job: Spread.of(cluster, gpus) for job, gpus in first.items()}
    rng = view.rng(stream)
    in_vain = 0
    while len(ways) < n and in_vain < _PATIENCE and first:
        order = {job: sizes[job] for job in rng.permutation(list(sizes)).tolist()}
        hold = {job: gpus for job, gpus in stay.items() if rng.random() < 0.5}
        way = _one_way(cluster, order, inside, hold, rng.random(len(cluster.servers)).tolist())
        as_good = way.keys() == first.keys() and all(
            Spread.of(cluster, gpus) == spread[job] for job, gpus in way.items()
        )
        servers = _servers(cluster, way)
        if as_good and servers not in known:
            known.add(servers)
            ways.append(way)
            in_vain = 0
        else:
            in_vain += 1
    return ways


def _one_way(
    cluster: Cluster,
    sizes: Mapping[str, int],
    pool: set[int],
    stay: Mapping[str, Placement],
    key: Sequence[float] | None,
) -> dict[str, Placement]:
    room = Room(cluster, pool.difference(*(set(gpus) for gpus in stay.values())), key)
    way = dict(stay)
    for job, size in sizes.items():
        if job not in way and size > 0 and (gpus := pack(room, size)) is not None:
            way[job] = gpus
    return way


def _servers(cluster: Cluster, way: Mapping[str, Placement]) -> frozenset[tuple[str, tuple[int, ...]]]:
    where = np.asarray(cluster.server_of_gpu)
    return frozenset((job, tuple(sorted(where[list(gpus)].tolist()))) for job, gpus in way.items())
