"""Target: the assignment that a planner works towards. Packing: sizes become placements, close together.

A planner that moves or resizes jobs sees them waiting again before they are where they should be. So it decides in
rounds and remembers the outcome; between rounds it repeats it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.view import ClusterView, JobStatus, JobView, Spread

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


def all_jobs(view: ClusterView) -> dict[str, JobView]:
    """Jobs that hold GPUs, then those that wait."""
    return {**dict(view.running.items()), **{job.id: job for job in view.waiting.values()}}


def target_of(view: ClusterView, state: State) -> dict[str, Placement]:
    """The remembered assignment, without jobs that are gone and GPUs that no longer work."""
    usable, jobs = view.offer.usable, all_jobs(view)
    found = {}
    for job, gpus in state["target"].items():
        if job in jobs and all(bool(usable[gpu]) for gpu in gpus):
            found[job] = tuple(gpus)
    return found


def held(view: ClusterView) -> dict[str, Placement]:
    """Jobs that are on their way to their GPUs: nobody else can have these."""
    return {job.id: job.gpus for job in view.running.values() if job.status is JobStatus.STARTING}


def remember(view: ClusterView, target: Mapping[str, Placement], **more: Any) -> State:
    """The state after a round."""
    return {
        "version": 1,
        "target": {job: list(gpus) for job, gpus in target.items()},
        "jobs": sorted(all_jobs(view)),
        **more,
    }


def as_decided(
    view: ClusterView, target: Mapping[str, Placement], state: State, reason: str, wake_s: float | None
) -> Candidate:
    """Repeat the target: nothing new is decided."""
    declined = tuple(Declined(job, f"{reason}: no GPUs for it") for job in view.waiting if job not in target)
    jobs = all_jobs(view)
    return Candidate(Plan(dict(target)), state, dict.fromkeys(jobs, reason), declined, wake_s)


def moved(candidate: Candidate, placements: Mapping[str, Placement]) -> Candidate:
    """The candidate with jobs elsewhere: its target is there too."""
    state = {**candidate.state, "target": {job: list(gpus) for job, gpus in placements.items()}}
    return replace(candidate, plan=Plan(placements, candidate.plan.gates), state=state)


def sizes_that_fit(view: ClusterView, job: Job) -> tuple[int, ...]:
    """Worker counts that a job can run with on this cluster, memory included."""
    memory = view.cluster.gpu_memory_bytes
    there = int(view.offer.usable.sum())
    return tuple(n for n in job.sizes if n <= there and job.profiles[n].memory_bytes <= memory)


def closest(view: ClusterView, workers: int) -> Spread:
    """The spread of a number of workers that are as close together as this cluster allows."""
    cluster = view.cluster
    per_server = int(cluster.gpus_per_server.max())
    servers = -(-workers // per_server)
    per_rack = max(1, len(cluster.servers) // max(1, cluster.n_racks))
    return Spread(servers, -(-servers // per_rack))
