"""pollux: GPUs by goodput (Qiao et al., OSDI 2021).

Goodput is throughput x statistical efficiency. An iteration takes (T_grad^g + T_sync^g)^(1/g). T_grad is linear in the
samples of one replica. T_sync is 0 for one replica and otherwise linear in their number, with one line for replicas on
one node and another for replicas on several. g says how far the two overlap (1: not at all). The efficiency of a batch
of m samples is (phi + m0) / (phi + m), with phi the gradient noise scale and m0 the batch that the user asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.policy import setting
from weft.model.profile import Profile
from weft.model.view import ClusterView, Estimate, Fact, JobView, Spread
from weft.policies.planners.base import Planner
from weft.policies.planners.pollux.genetic import Ints, Problem, evolve
from weft.policies.planners.target import (
    all_jobs,
    as_decided,
    different_ways,
    held,
    remember,
    restart_share,
    sizes_that_fit,
    stay_s,
    target_of,
)

_GAMMAS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


def efficiency(noise_scale: float, asked: float, batch: float) -> float:
    """Progress per sample at some batch, relative to that at the batch asked for."""
    return (noise_scale + asked) / (noise_scale + batch)


@dataclass(frozen=True)
class Goodput:
    """The fitted model of a job. `sync` has the line (constant, per replica beyond two) on one node and on several."""

    grad: tuple[float, float]  # seconds, and seconds per sample of a replica
    sync: tuple[tuple[float, float], tuple[float, float]]
    gamma: float
    noise_scale: float
    asked: float  # m0, samples per iteration

    def iteration_s(self, replicas: int, several_nodes: bool, batch: float) -> float:
        """Time of an iteration of `batch` samples in all."""
        grad = self.grad[0] + self.grad[1] * batch / replicas
        if replicas == 1:
            return grad
        constant, slope = self.sync[several_nodes]
        sync = max(0.0, constant + slope * (replicas - 2))
        return float((grad**self.gamma + sync**self.gamma) ** (1.0 / self.gamma))

    def goodput(self, replicas: int, several_nodes: bool, batch: float) -> float:
        """Samples per second, each worth its efficiency."""
        if replicas == 0:
            return 0.0
        throughput = batch / max(self.iteration_s(replicas, several_nodes, batch), 1e-12)
        return throughput * efficiency(self.noise_scale, self.asked, batch)


# (replicas, several nodes?) -> (samples per replica, compute s, iteration s), as measured
Measured = Mapping[tuple[int, bool], tuple[float, float, float]]


def fit_throughput(measured: Measured, asked: float, noise_scale: float) -> Goodput:
    """Least squares on what has been measured of a job; a line with one point is constant."""
    grad = _line([(samples, compute) for samples, compute, _ in measured.values()])
    best: tuple[float, Goodput] | None = None
    for gamma in _GAMMAS:
        lines = tuple(_line(_sync_points(measured, several, gamma)) for several in (False, True))
        model = Goodput(grad, (lines[0], lines[1]), gamma, noise_scale, asked)
        error = sum(
            (model.iteration_s(n, several, samples * n) / total - 1.0) ** 2
            for (n, several), (samples, _, total) in measured.items()
            if total > 0
        )
        if best is None or error < best[0] - 1e-15:
            best = error, model
    assert best is not None
    return best[1]


def _sync_points(measured: Measured, several: bool, gamma: float) -> list[tuple[float, float]]:
    points = []
    for (n, where), (_, compute, total) in measured.items():
        if n > 1 and where == several:
            points.append((float(n - 2), max(0.0, total**gamma - compute**gamma) ** (1.0 / gamma)))
    return points


def _line(points: list[tuple[float, float]]) -> tuple[float, float]:
    if not points:
        return 0.0, 0.0
    x, y = np.array(points).T
    if np.ptp(x) <= 0:
        return float(y.mean()), 0.0
    slope, constant = np.polyfit(x, y, 1)
    if constant < 0 or slope < 0:  # neither is physical: the better of the two with one of them 0
        through = float((x @ y) / (x @ x))
        flat = float(y.mean())
        if slope < 0 or ((through * x - y) ** 2).sum() > ((flat - y) ** 2).sum():
            return flat, 0.0
        return 0.0, through
    return float(constant), float(slope)


RESTART_S = 30.0  # what a re-allocation is taken to cost (delta of section 4.2)


@dataclass(eq=False)
class Pollux(Planner):
    """`pollux`, `pollux:NOISE`, `pollux:NOISE,INTERVAL`: all GPUs are shared out anew every INTERVAL seconds (60).

    A job that can run with several batches runs, at each size, with the one that has the largest goodput; its
    iterations then count by the samples in them and their efficiency. `fixed` at the end leaves batches alone.

    A genetic search maximises the power mean (p = -1) of the jobs' speed-ups, a speed-up being goodput over goodput on
    a fair share; re-allocated jobs count less, by what a restart costs; two distributed jobs never share a node. The
    search also runs when jobs come and go. NOISE is the gradient noise scale in batches (phi / m0, by default 10),
    which no world reports. Jobs are placed as the search's own matrix of jobs and nodes says; it does not know racks.
    Candidates are plans over all jobs with the same sizes, where no job is on several nodes that was on one.
    """

    name = "pollux"
    needs = frozenset({Fact.PROFILE})
    resizes = True
    search = (12, 12)  # population and generations of the genetic search

    noise: float = setting(10.0, within="(0, inf)")
    interval_s: float = setting(60.0, within="[1, inf)")
    fixed: bool = setting(False, words={"fixed": True})

    def __post_init__(self) -> None:
        """Nothing has been chosen."""
        super().__post_init__()
        self._chosen: dict[tuple[int, float], tuple[Profile, Profile]] = {}  # a profile, and it with its worth

    def initial_state(self) -> State:
        """Nobody is anywhere."""
        return {"version": 1, "target": {}, "jobs": [], "next_s": 0.0}

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """A new round when it is time or when jobs have come or gone, else what was decided last."""
        target = target_of(view, state)
        same = sorted(all_jobs(view)) == state["jobs"] and len(target) == len(state["target"])
        if same and view.now < state["next_s"]:
            return [as_decided(view, target, state, "until the next round", state["next_s"])]
        return self._round(view, state, n)

    def adapted(self, job: Job, cluster: Cluster, alone: Callable[[Profile, str, Spread], Estimate]) -> Job:
        """The job with the batch of the largest goodput at each size, among batches with at least the samples asked
        for.

        As in the paper, a batch is never smaller than that. A job without the GPUs for it takes the largest batch it
        can.
        """
        asked = _samples(job, job.gpus)
        profiles = dict(job.profiles)
        for size in () if self.fixed else job.batches:
            fits = [p for p in job.batches[size] if p.batch and p.memory_bytes <= cluster.gpu_memory_bytes]
            if len(fits) < 2:
                continue
            enough = [p for p in fits if p.batch * size >= asked] or [max(fits, key=lambda p: p.batch)]
            spread = _spread(cluster, size, size > cluster.largest_server)
            best = max(enough, key=lambda p: _worth(p, asked, self.noise) / alone(p, job.model, spread).iteration_s)
            worth = _worth(best, asked, self.noise)
            profiles[size] = self._chosen.setdefault((id(best), worth), (best, replace(best, worth=worth)))[1]
        return replace(job, profiles=profiles, batch=job.profile.batch)

    def model(self, view: ClusterView, job: JobView) -> Goodput:
        """The goodput of a job, fitted to what the world knows of its speed at every size."""
        measured = {}
        for size in sizes_that_fit(view, job.job):
            samples = _samples(job.job, size) / size
            for several in (False, True):
                if size == 1 and several:
                    continue
                estimate = view.estimate(job.job, size, _spread(view.cluster, size, several))
                measured[size, several] = (samples, estimate.compute_s, estimate.iteration_s)
        asked = float(job.job.batch * job.job.gpus) if job.job.batches else _samples(job.job, job.job.gpus)
        return fit_throughput(measured, asked, self.noise * asked)

    def speedups(self, view: ClusterView, job: JobView, jobs: int) -> dict[tuple[int, bool], float]:
        """Goodput at each size, on one node or several, over that on a fair share of the cluster."""
        model = self.model(view, job)
        roomiest = view.cluster.largest_server
        sizes = sizes_that_fit(view, job.job)
        batch = {size: _samples(job.job, size) for size in sizes}
        share = max(1, view.cluster.n_gpus // max(1, jobs))
        fair = max((size for size in sizes if size <= share), default=sizes[0])
        base = model.goodput(fair, fair > roomiest, batch[fair])
        found = {}
        for size in sizes:
            for several in (False, True):
                if size > 1 or not several:
                    found[size, several] = model.goodput(size, several, batch[size]) / max(base, 1e-12)
        return found

    def _round(self, view: ClusterView, before: State, n: int) -> list[Candidate]:
        coming = held(view)
        jobs = [j for j in all_jobs(view).values() if j.id not in coming and sizes_that_fit(view, j.job)]
        taken = {gpu for gpus in coming.values() for gpu in gpus}
        pool = [gpu for gpu in range(view.cluster.n_gpus) if view.offer.usable[gpu] and gpu not in taken]
        first = {**coming, **(self._placed(view, jobs, pool) if jobs and pool else {})}
        next_s = view.now + self.interval_s
        usual_s = stay_s(view, before, self.interval_s)
        found = []
        for after in different_ways(view, first, n, Pollux.name, lambda spread: int(spread.servers > 1)):
            state = remember(view, before, after, next_s=next_s)
            reasons = {job: _words(view.job(job).job, len(gpus)) for job, gpus in after.items()}
            reasons |= {job.id: "goodput: its GPUs do more for others" for job in jobs if job.id not in after}
            declined = tuple(
                Declined(j, "goodput: no GPUs for it in this round") for j in view.waiting if j not in after
            )
            wake = next_s if all_jobs(view) else None
            share = restart_share(view, after, lambda job: usual_s)
            found.append(Candidate(Plan(after), state, reasons, declined, wake, share))
        return found

    def _placed(self, view: ClusterView, jobs: list[JobView], pool: list[int]) -> dict[str, Placement]:
        cluster = view.cluster
        most = max(max(sizes_that_fit(view, job.job)) for job in jobs)
        table = np.zeros((len(jobs), most + 1, 2))
        for i, job in enumerate(jobs):
            for (size, several), value in self.speedups(view, job, len(jobs)).items():
                table[i, size, int(several)] = value
        capacity = np.bincount(cluster.server_of_gpu[pool], minlength=len(cluster.servers)).astype(np.int64)
        current = np.zeros((len(jobs), len(cluster.servers)), np.int64)
        penalty = np.ones(len(jobs))
        for i, job in enumerate(jobs):
            for gpu in job.gpus:
                current[i, cluster.server_of_gpu[gpu]] += 1
            if job.first_start_s is not None:
                age = max(view.now - job.job.submit_s, 0.0)
                penalty[i] = max(0.0, age - job.preemptions * RESTART_S) / (age + RESTART_S)
        best = evolve(Problem(table, capacity, current, penalty), view.rng(Pollux.name), *self.search)
        if not best.any():
            best = _one_at_least(view, jobs, capacity)
        return on_nodes(cluster, pool, {job.id: best[i] for i, job in enumerate(jobs)}, view.placements)


def on_nodes(
    cluster: Cluster, pool: Sequence[int], matrix: Mapping[str, Ints], now: Mapping[str, Placement]
) -> dict[str, Placement]:
    """The matrix as GPUs: on each node a job keeps those that it has there, as far as it may."""
    free: dict[int, list[int]] = {}
    for gpu in pool:
        free.setdefault(int(cluster.server_of_gpu[gpu]), []).append(gpu)
    found: dict[str, list[int]] = {job: [] for job in matrix}
    for stay in (True, False):
        for job, row in matrix.items():
            for node in np.flatnonzero(row):
                own = [gpu for gpu in free.get(int(node), ()) if not stay or gpu in now.get(job, ())]
                there = sum(int(cluster.server_of_gpu[gpu]) == node for gpu in found[job])
                for gpu in own[: int(row[node]) - there]:
                    found[job].append(gpu)
                    free[int(node)].remove(gpu)
    return {job: tuple(sorted(gpus)) for job, gpus in found.items() if gpus}


def _one_at_least(view: ClusterView, jobs: list[JobView], capacity: Ints) -> Ints:
    """First come, first served, where the search gave no job any GPU because rigid jobs do not fit together."""
    matrix = np.zeros((len(jobs), len(capacity)), np.int64)
    free = capacity.copy()
    for i in sorted(range(len(jobs)), key=lambda i: (jobs[i].job.submit_s, jobs[i].id)):
        want = max((size for size in sizes_that_fit(view, jobs[i].job) if size <= free.sum()), default=0)
        for node in np.argsort(-free, kind="stable"):
            matrix[i, node] = min(want, free[node])
            want -= matrix[i, node]
            free[node] -= matrix[i, node]
    return matrix


def _spread(cluster: Cluster, size: int, several: bool) -> Spread:
    """A spread as far as Pollux knows it: one node or several, of no rack in particular."""
    return Spread(min(size, len(cluster.servers)), 1) if several else Spread(1, 1)


def _worth(profile: Profile, asked: float, noise: float) -> float:
    """What an iteration is worth in iterations as submitted: its samples, times their efficiency."""
    samples = float(profile.batch * profile.workers)
    return samples / asked * efficiency(noise * asked, asked, samples)


def _words(job: Job, size: int) -> str:
    return f"goodput: {size} GPUs" + (f", {job.profiles[size].batch} samples each" if job.batches else "")


def _samples(job: Job, size: int) -> float:
    """Samples of one iteration at a size; where batches are unknown, the number of GPUs asked for at every size."""
    return float(job.profiles[size].batch * size or job.gpus)
