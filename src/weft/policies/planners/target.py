"""Target: the assignment that a planner works towards. Packing: sizes become placements, close together.

A planner that moves or resizes jobs sees them waiting again before they are where they should be. So it decides in
rounds, remembers the outcome, and proposes the same again between rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.view import ClusterView, JobStatus, JobView, Spread

_PATIENCE = 24  # tries in a row that bring nothing new before the search is given up


class Room:
    """Free GPUs by server; `key` says which of equally good servers comes first."""

    def __init__(self, cluster: Cluster, gpus: Iterable[int], key: Sequence[float] | None = None) -> None:
        self.cluster = cluster
        self.free: dict[int, list[int]] = {}
        ordered = sorted(gpus)
        for gpu, server in zip(ordered, cluster.server_of_gpu[ordered].tolist() if ordered else (), strict=True):
            self.free.setdefault(server, []).append(gpu)
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
    """n GPUs on one server, or else in one rack, or else in the fewest racks of the closest level that has room for
    them; always where the least is left over."""
    if room.n_free < n:
        return None
    fits = [s for s, gpus in room.free.items() if len(gpus) >= n]
    if fits:
        return tuple(room.take(min(fits, key=lambda s: (len(room.free[s]), room.key[s])), n))
    racks: dict[int, list[int]] = {}
    for server in _inside(room, n):
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


def _inside(room: Room, n: int) -> Iterable[int]:
    """The servers of the closest group above the racks that has room for n GPUs; all, where no rack is in a group."""
    for level in room.cluster.between if len(room.cluster.between) > 1 else ():
        free: dict[int, int] = {}
        for server, gpus in room.free.items():
            group = int(level.of_server[server])
            free[group] = free.get(group, 0) + len(gpus)
        enough = [group for group, total in free.items() if total >= n]
        if enough:
            chosen = min(enough, key=lambda group: free[group])
            return [server for server in room.free if level.of_server[server] == chosen]
    return room.free


def by_type(view: ClusterView, gpus: Sequence[int], job: Job) -> list[tuple[Job, list[int]]]:
    """The job as it would run on each type of GPU of which these are enough, and those GPUs."""
    cluster = view.cluster
    if cluster.alike:
        return [(job, list(gpus))]
    found: list[tuple[Job, list[int]]] = []
    for gpu in (job.gpu,) if job.gpu else cluster.gpu_types:
        asked = job.as_on(gpu)
        suited = cluster.suited(gpu, asked.memory_bytes)
        there = [g for g in gpus if suited[g]]
        if len(there) >= job.gpus:
            found.append((asked, there))
    return found


def in_shape(cluster: Cluster, gpus: Iterable[int], job: Job) -> list[int]:
    """GPUs of which a job may take whole servers: as many as it must have on each, of every server that has so many of
    these. All of them for a job without a shape."""
    each = job.per_server
    if not each:
        return list(gpus)
    servers: dict[int, list[int]] = {}
    for gpu in gpus:
        servers.setdefault(int(cluster.server_of_gpu[gpu]), []).append(gpu)
    roomy = [there for there in servers.values() if len(there) >= each and job.gpus % each == 0]
    return [gpu for there in roomy for gpu in there[:each]]


def nearest(cluster: Cluster, free: Set[int], kept: Placement, own: Placement, n: int) -> Placement:
    """n free GPUs for a job that keeps some: first its own, then on its servers, then in its racks (and the groups that
    these are in), then close by."""
    found: set[int] = set()
    for tier in _tiers(cluster, free, kept or own, own):
        room = Room(cluster, tier - found)
        found |= set(pack(room, min(n - len(found), room.n_free)) or ())
        if len(found) == n:
            break
    return tuple(sorted(found))


def _tiers(cluster: Cluster, free: Set[int], near: Placement, own: Placement) -> Iterator[Set[int]]:
    yield free & set(own)
    if near and free:
        gpus = np.fromiter(free, np.int64)
        servers = cluster.server_of_gpu[gpus]
        home = cluster.server_of_gpu[list(near)]
        yield set(gpus[np.isin(servers, home)].tolist())
        for level in cluster.between:
            yield set(gpus[np.isin(level.of_server[servers], level.of_server[home])].tolist())
    yield free


def different_ways(
    view: ClusterView, first: dict[str, Placement], n: int, stream: str, kind: Callable[[Spread], int]
) -> list[dict[str, Placement]]:
    """The plan and up to n - 1 others over all jobs, which differ in the workers that jobs keep, give up and swap.

    Every job has as many GPUs as in the first, and is no further apart by the planner's own measure, `kind`. Either
    some jobs stay, drawn at random, and the others are packed anew in any order; or some workers change places. Jobs
    that are on their way to their GPUs stay in every plan.
    """
    cluster, rng = view.cluster, view.rng(stream)
    coming = held(view)
    jobs = [job for job in first if job not in coming]
    fixed = {job: first[job] for job in first if job in coming}
    taken = {gpu for gpus in coming.values() for gpu in gpus}
    pool = {gpu for gpu in range(cluster.n_gpus) if view.offer.usable[gpu] and gpu not in taken}
    merit = {job: kind(Spread.of(cluster, first[job])) for job in jobs}
    ways, known = [first], {_servers(cluster, {job: first[job] for job in jobs})}
    in_vain = 0
    while len(ways) < n and in_vain < _PATIENCE and jobs:
        if rng.random() < 0.5:
            part = rng.random()
            stay = {job: first[job] for job in jobs if rng.random() < part}
            sizes = {job: len(first[job]) for job in rng.permutation(jobs).tolist()}
            way = _one_way(cluster, sizes, pool, stay, rng.random(len(cluster.servers)).tolist())
        else:
            way = _exchanged({job: first[job] for job in jobs}, sorted(pool), rng)
        as_good = len(way) == len(jobs) and all(kind(Spread.of(cluster, way[job])) <= merit[job] for job in jobs)
        servers = _servers(cluster, way)
        if as_good and servers not in known:
            known.add(servers)
            ways.append({**fixed, **{job: way[job] for job in jobs}})
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


def _exchanged(first: Mapping[str, Placement], pool: Sequence[int], rng: np.random.Generator) -> dict[str, Placement]:
    """One to four workers change places with another job's, or go where nobody is."""
    at = {gpu: gpu for gpu in pool}
    mine = [gpu for gpus in first.values() for gpu in gpus if gpu in at]
    for _ in range(int(rng.integers(1, 5)) if mine else 0):
        a, b = mine[int(rng.integers(len(mine)))], pool[int(rng.integers(len(pool)))]
        at[a], at[b] = at[b], at[a]
    return {job: tuple(sorted(at.get(gpu, gpu) for gpu in gpus)) for job, gpus in first.items()}


def restart_share(view: ClusterView, plan: Mapping[str, Placement], lasts_s: Callable[[JobView], float]) -> float:
    """What the restarts of a plan cost, as a part of the GPU time that it hands out.

    A job that restarts loses `restart_s` of the time that it can expect to stay where it goes.
    """
    lost = sum(
        len(job.gpus) * view.restart_s / max(lasts_s(job), 1e-9)
        for job in view.running.values()
        if job.status is JobStatus.RUNNING and plan.get(job.id, job.gpus) != job.gpus
    )
    return lost / max(1, sum(map(len, plan.values())))


def stay_s(view: ClusterView, state: State, most_s: float) -> float:
    """How long a job stays on its GPUs until it ends or is moved, on average so far; `most_s` at most.

    Job seconds over stays that ended (as if stays were exponential), with one stay of `most_s` beside those seen.
    """
    seconds, ended = _stays(view, state)
    return min(most_s, (most_s + seconds) / (1 + ended))


def _stays(view: ClusterView, state: State) -> tuple[float, int]:
    """Job seconds on GPUs so far, and stays that have ended: those that the last round knew of, and jobs now gone."""
    counted_s, seconds, ended = state.get("stays", (view.now, 0.0, 0))
    jobs = all_jobs(view)
    gone = sum(job not in jobs for job in state["target"])
    return seconds + (view.now - counted_s) * len(state["target"]), ended + gone


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


def remember(view: ClusterView, before: State, target: Mapping[str, Placement], **more: Any) -> State:
    """The state after a round; `before` is the one after the last round."""
    jobs = all_jobs(view)
    seconds, ended = _stays(view, before)
    moved = sum(job in jobs and target.get(job) != tuple(gpus) for job, gpus in before["target"].items())
    return {
        "version": 1,
        "target": {job: list(gpus) for job, gpus in target.items()},
        "jobs": sorted(jobs),
        "stays": [view.now, seconds, ended + moved],
        **more,
    }


def as_decided(
    view: ClusterView, target: Mapping[str, Placement], state: State, reason: str, wake_s: float | None
) -> Candidate:
    """Repeat the target: nothing new is decided."""
    declined = tuple(Declined(job, f"{reason}: no GPUs for it") for job in view.waiting if job not in target)
    jobs = all_jobs(view)
    return Candidate(Plan(dict(target)), state, dict.fromkeys(jobs, reason), declined, wake_s)


def sizes_that_fit(view: ClusterView, job: Job) -> tuple[int, ...]:
    """Worker counts that a job can run with on this cluster, memory included."""
    memory = view.cluster.gpu_memory_bytes
    there = int(view.offer.usable.sum())
    return tuple(n for n in job.sizes if n <= there and job.profiles[n].memory_bytes <= memory)
