"""How many GPUs each elastic job gets: every job's minimum first, in order, then step by step where that gains most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from weft.model.view import ClusterView, JobStatus, JobView, Spread

Left = Callable[[ClusterView, JobView], float]
WORTH = 0.05  # fraction of its remaining time that a running job must gain by a restart, beyond the restart's cost


def shared_out(view: ClusterView, jobs: Sequence[JobView], left: Left) -> dict[str, int]:
    """GPUs of each job. Jobs are given in order; those left out of the result get none.

    What a job still needs at a size is its remaining iterations times the seconds of an iteration alone on the closest
    place. A step to the next size goes to the job whose need shrinks most per GPU, relative to that need.
    """
    room = int(view.offer.usable.sum())
    memory = view.cluster.gpu_memory_bytes
    need: dict[str, dict[int, float]] = {}
    sizes: dict[str, int] = {}
    for job in jobs:
        fits = [n for n in job.job.sizes if job.job.profiles[n].memory_bytes <= memory]
        if job.status is JobStatus.STARTING:
            fits = [len(job.gpus)]
        if fits and fits[0] <= room:
            iterations = left(view, job)
            need[job.id] = {n: iterations * _iteration_s(view, job, n) for n in fits}
            sizes[job.id] = fits[0]
            room -= fits[0]
    _grow(need, sizes, room)
    return _worth_it(view, jobs, need, sizes)


def _grow(need: dict[str, dict[int, float]], sizes: dict[str, int], room: int) -> int:
    """Give away what is left, step by step; returns how many GPUs nobody can use."""
    heap: list[tuple[float, int, str, int]] = []
    number = {name: i for i, name in enumerate(sizes)}

    def offer(name: str) -> None:
        times, now = need[name], sizes[name]
        best = max(
            (((times[now] - times[n]) / times[now] / (n - now), -n) for n in times if n > now and times[now] > 0.0),
            default=(0.0, 0),
        )
        if best[0] > 0.0:
            heappush(heap, (-best[0], number[name], name, -best[1]))

    for name in sizes:
        offer(name)
    while heap and room:
        _, _, name, size = heappop(heap)
        if size - sizes[name] <= room:
            room -= size - sizes[name]
            sizes[name] = size
            offer(name)
    return room


def _worth_it(
    view: ClusterView, jobs: Sequence[JobView], need: dict[str, dict[int, float]], sizes: dict[str, int]
) -> dict[str, int]:
    """A running job is not restarted for a larger size that saves it less than that costs, nor for a smaller one that
    leaves GPUs idle."""
    room = int(view.offer.usable.sum()) - sum(sizes.values())
    for job in jobs:
        now = len(job.gpus)
        if job.status is not JobStatus.RUNNING or job.id not in sizes or now not in need[job.id]:
            continue
        times, size = need[job.id], sizes[job.id]
        if size > now and times[now] - times[size] < view.restart_s + WORTH * times[now]:
            sizes[job.id] = now
            room += size - now
        elif size < now and now - size <= room:
            sizes[job.id] = now
            room -= now - size
    return sizes


def _iteration_s(view: ClusterView, job: JobView, workers: int) -> float:
    """Seconds of an iteration on the closest place. Where that leaves part of a rack to other jobs, they are assumed to
    send as much over its uplinks as the job does."""
    cluster = view.cluster.shaped(job.job.per_server)
    spread = Spread.closest(cluster, workers)
    found = view.estimate(job.job, workers, spread)
    shared = spread.racks > 1 and workers % cluster.largest_rack > 0
    return found.iteration_s + (found.comm_s if shared else 0.0)
