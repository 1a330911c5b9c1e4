"""A bound: what no scheduler can do better, for the jobs of an experiment on one cluster.

Three relaxations, of which the largest counts. In each, GPUs are a fluid of which a job may take any part, and a job
takes no less than it takes alone on its best place.

1. A job needs `least_s`, its time alone, from its submission on; so it has its completion time, and so has the mean.
2. Jobs are served one at a time by a machine as fast as all GPUs together, which each keeps busy for `gpu_s` / GPUs.
   There shortest remaining time first is the best for the mean (Schrage 1968), and any schedule of the cluster is one
   of that machine. The same gives the makespan: what is submitted from a moment on takes its work over all GPUs.
3. A job that runs alone for `least_s` ends half of that after the middle of its work, whatever the schedule. The
   middles, summed, are least where the machine serves the least work first, preemptively (Goemans 1997).

What is left out only makes real schedules longer: places, contention, restarts, failures, and which type of GPU is
taken: of several, a job needs the least that it would need on any, and all GPUs serve it. Where stacks share GPUs, a
job's work is its computing alone, because others may compute while it communicates.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.profile import Compute, Profile
from weft.model.view import Spread
from weft.network.estimates import Estimates
from weft.scenario import Scenario
from weft.scenario.build import Experiment, build
from weft.sim.spec import estimates

MOST_JOBS = 200_000  # of more jobs no bound is computed: it would take longer than the runs


@dataclass(frozen=True)
class Need:
    """What a job takes at least: seconds from its start on, and GPU seconds."""

    submit_s: float
    least_s: float
    gpu_s: float


def bound(needs: Sequence[Need], gpus: int) -> dict[str, float]:
    """The least mean completion time and makespan of these jobs, by the names of the metrics."""
    n = len(needs)
    submitted = math.fsum(need.submit_s for need in needs)
    alone = math.fsum(need.least_s for need in needs)
    ends = _served(needs, gpus, by_rest=True)[0] - submitted
    middles = _served(needs, gpus, by_rest=False)[1] + alone / 2 - submitted
    begin = min(need.submit_s for need in needs)
    last, work = 0.0, 0.0
    for need in sorted(needs, key=lambda need: -need.submit_s):
        work += need.gpu_s
        last = max(last, need.submit_s + need.least_s, need.submit_s + work / gpus)
    return {"jct_mean_s": max(alone, ends, middles) / n, "makespan_s": last - begin}


def _served(needs: Sequence[Need], gpus: int, by_rest: bool) -> tuple[float, float]:
    """The machine of all GPUs serves the job with the least work left, or in all: sums of the jobs' ends and of the
    middles of their work."""
    waiting = sorted(needs, key=lambda need: need.submit_s)
    queue: list[tuple[float, int]] = []  # priority, number
    rest = [need.gpu_s / gpus for need in waiting]
    ends, middles, now, coming = 0.0, 0.0, 0.0, 0
    while queue or coming < len(waiting):
        if not queue:
            now = max(now, waiting[coming].submit_s)
        while coming < len(waiting) and waiting[coming].submit_s <= now:
            heapq.heappush(queue, (rest[coming], coming))
            coming += 1
        _, i = queue[0]
        until = waiting[coming].submit_s if coming < len(waiting) else math.inf
        lasts = min(rest[i], until - now)
        work = waiting[i].gpu_s / gpus
        middles += (now + lasts / 2) * (lasts / work if work > 0 else 1.0)
        rest[i] -= lasts
        now += lasts
        if rest[i] <= 1e-12 * work:
            heapq.heappop(queue)
            ends += now
        elif by_rest:
            heapq.heapreplace(queue, (rest[i], i))
    return ends, middles


def need(job: Job, cluster: Cluster, alone: Estimates, shared: bool) -> Need:
    """What a job takes at least, over all sizes, types of GPU and places that it may have."""
    least, work = math.inf, math.inf
    for gpu, size, profile in _ways(job, cluster):
        if alone.exposed is None and profile.grouped:  # only an infinite network is as fast as the best order of ranks
            seconds = profile.compute_s
        else:
            there = _spreads(job, size, cluster.of_type(gpu))
            seconds = min(alone.of(profile, job.model, spread, gpu).iteration_s for spread in there)
        gpu_s = _busy_s(profile) if shared else size * seconds
        least, work = min(least, seconds * job.iterations), min(work, gpu_s * job.iterations)
    return Need(job.submit_s, least, work)


def _ways(job: Job, cluster: Cluster) -> Iterator[tuple[str, int, Profile]]:
    """The types of GPU that a job may run on (empty where all are alike) at its sizes, and its iteration there."""
    for gpu in ("",) if cluster.alike else (job.gpu,) if job.gpu else cluster.gpu_types:
        profiles = job.as_on(gpu).profiles if gpu else job.profiles
        for size in job.sizes:
            if not gpu or np.count_nonzero(cluster.suited(gpu, profiles[size].memory_bytes)) >= size:
                yield gpu, size, profiles[size]


def _spreads(job: Job, size: int, cluster: Cluster) -> list[Spread]:
    """Places that may be the fastest: on as few servers as can be, twice as many, and so on, in one rack."""
    if job.per_server:
        return [Spread(size // job.per_server, 1)]
    fewest = math.ceil(size / cluster.largest_server)
    counts = {min(size, fewest << i) for i in range(size.bit_length())}
    return [Spread(servers, 1) for servers in sorted(counts)]


def _busy_s(profile: Profile) -> float:
    """GPU seconds that an iteration computes."""
    tasks = [task for task in profile.tasks if isinstance(task, Compute)]
    return math.fsum(t.seconds * (profile.workers if t.workers is None else len(t.workers)) for t in tasks)


def bound_of(experiment: Experiment, shared: bool) -> dict[str, float] | None:
    """The bound for the jobs of an experiment; None where there is none: random lengths, jobs that change their batch,
    too many jobs."""
    jobs, run = experiment.workload.jobs, experiment.run
    drawn = run.jitter or run.task_jitter
    if not 0 < len(jobs) <= MOST_JOBS or drawn or run.until_s is not None or any(job.batches for job in jobs):
        return None
    alone = estimates(experiment.cluster, experiment.network)
    needs = [need(job, experiment.cluster, alone, shared) for job in jobs]
    return bound(needs, experiment.cluster.n_gpus)


def bound_over_seeds(scenario: Scenario, seeds: Sequence[int], shared: bool) -> dict[str, float] | None:
    """The mean of the bounds at these seeds; None if one has none. Recorded jobs are the same at all seeds."""
    found = [bound_of(build(scenario, seed), shared) for seed in (seeds[:1] if scenario.is_recorded else seeds)]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    return {name: math.fsum(one[name] for one in known) / len(known) for name in known[0]}
