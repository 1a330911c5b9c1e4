import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
import pytest

from weft.results.run import DECISIONS, ITERATIONS, JOBS, LINK_SERIES, LINKS, SEGMENTS, SPANS, RunResult

MODELS = {  # compute seconds and gradient bytes of one iteration
    "vgg16": (0.14, 0.53e9), "resnet50": (0.11, 0.10e9), "inception-v3": (0.16, 0.09e9), "lstm-ptb": (0.06, 0.25e9),
}  # fmt: skip
NIC = 1.25e9  # bytes per second: 10 Gbit/s
GPUS_PER_SERVER = 4


@dataclass
class _Job:
    id: str
    model: str
    gpus: int
    submit_s: float
    iterations: int
    compute_s: float
    message_bytes: float
    left: int = 0
    waiting_since_s: float = 0.0
    start_s: float | None = None
    finish_s: float | None = None
    queueing_s: float = 0.0
    run_s: float = 0.0
    comm_s: float = 0.0
    gpu_s: float = 0.0
    lost_gpu_s: float = 0.0
    preemptions: int = 0
    servers: int = 0


@dataclass
class _World:
    """Servers of four GPUs in two racks; a GPU owns its part of its server's NIC, so links are never overloaded."""

    rng: np.random.Generator
    n_gpus: int
    slowdown: float
    preempt: float
    free: set[int] = field(default_factory=set)
    waiting: deque[_Job] = field(default_factory=deque)
    ends: list[tuple[float, int, _Job, tuple[int, ...], int, bool]] = field(default_factory=list)
    spans: list[tuple[object, ...]] = field(default_factory=list)
    iterations: list[tuple[str, float, float]] = field(default_factory=list)
    decisions: list[tuple[object, ...]] = field(default_factory=list)
    segments: list[tuple[str, str, str, float, float]] = field(default_factory=list)
    sent: list[tuple[int, float, float, float]] = field(default_factory=list)  # server, start, end, bytes
    cycle: int = 0

    def start(self, job: _Job, now: float) -> None:
        gpus = tuple(sorted(self.free)[: job.gpus])
        self.free -= set(gpus)
        servers = sorted({g // GPUS_PER_SERVER for g in gpus})
        share = min(sum(g // GPUS_PER_SERVER == s for g in gpus) for s in servers) / GPUS_PER_SERVER
        ring = self.slowdown * 2 * job.message_bytes * (len(gpus) - 1) / len(gpus)
        wire = ring if len(servers) > 1 else 0.0
        comm_s = wire / (NIC * share)
        self.decide(now, job, "start", gpus, f"{job.gpus} GPUs free, first in order; {len(servers)} servers")
        stops = job.left > 20 and self.rng.random() < self.preempt
        n = job.left // 2 if stops else job.left
        durations = self.rng.choice([1.0, 1.2], p=[0.7, 0.3], size=min(n, 6))
        parts = np.diff(np.linspace(0, n, len(durations) + 1).astype(int))
        iteration_s = [job.compute_s + comm_s * f for f in durations]
        exposed_s = float(sum(comm_s * f * c for f, c in zip(durations, parts, strict=True)))
        self.iterations += [(job.id, d, float(c)) for d, c in zip(iteration_s, parts, strict=True) if c > 0]
        end = now + float(np.dot(iteration_s, parts)) + (0.5 * job.compute_s if stops else 0.0)
        self.record(job, now, iteration_s[0], comm_s)
        self.sent += [(s, now, end, wire * n) for s in servers if wire > 0]
        job.servers = max(job.servers, len(servers))
        job.start_s = now if job.start_s is None else job.start_s
        job.queueing_s += now - job.waiting_since_s
        job.run_s += end - now
        job.comm_s += exposed_s
        job.gpu_s += job.gpus * job.compute_s * (n + 0.5 * stops)
        job.lost_gpu_s += job.gpus * job.compute_s * 0.5 * stops
        heapq.heappush(self.ends, (end, self.cycle, job, gpus, n, stops))
        self.spans.append((job.id, now, end, list(gpus), "stopped" if stops else "finished"))

    def record(self, job: _Job, now: float, iteration_s: float, comm_s: float) -> None:
        for k in range(3 if len(self.segments) < 400 else 0):
            start = now + k * iteration_s
            self.segments.append((job.id, "forward+backward", "compute", start, start + job.compute_s))
            if comm_s > 0:  # the transfer starts while the backward pass still computes
                ready = start + 0.8 * job.compute_s
                self.segments.append((job.id, "all-reduce", "transfer", ready, start + iteration_s))

    def decide(self, now: float, job: _Job, action: str, gpus: tuple[int, ...], reason: str) -> None:
        self.cycle += 1
        self.decisions.append((self.cycle, now, job.id, action, " ".join(map(str, gpus)), reason))

    def serve(self, now: float) -> None:
        while self.waiting and self.waiting[0].gpus <= len(self.free):
            self.start(self.waiting.popleft(), now)
        if self.waiting:
            job = self.waiting[0]
            self.decide(now, job, "hold", (), f"wants {job.gpus} GPUs, {len(self.free)} free; ask again at next end")

    def end(self, now: float) -> None:
        _, _, job, gpus, n, stops = heapq.heappop(self.ends)
        self.free |= set(gpus)
        job.left -= n
        if stops:
            job.preemptions += 1
            job.waiting_since_s = now
            self.waiting.append(job)
            self.decide(now, job, "stop", (), "lease over: gives way to jobs that waited longer")
        else:
            job.finish_s = now


def _draw_jobs(rng: np.random.Generator, n: int, n_gpus: int, load: float) -> list[_Job]:
    jobs = []
    names = list(MODELS)
    for i in range(n):
        model = names[int(rng.integers(len(names)))]
        compute_s, size = MODELS[model]
        gpus = min(int(rng.choice([1, 2, 4, 8], p=[0.5, 0.1, 0.2, 0.2])), n_gpus)
        iterations = int(rng.integers(200, 1000))
        jobs.append(_Job(f"job{i:05d}", model, gpus, 0.0, iterations, compute_s, size, left=iterations))
    work = sum(j.gpus * j.iterations * j.compute_s for j in jobs)
    gap = work / max(n, 1) / n_gpus / load
    for job, at in zip(jobs, np.cumsum(rng.exponential(gap, n)), strict=True):
        job.submit_s = job.waiting_since_s = float(at)
    return jobs


def _simulate(world: _World, jobs: list[_Job]) -> None:
    arrivals = deque(jobs)
    while arrivals or world.ends:
        if world.ends and (not arrivals or world.ends[0][0] <= arrivals[0].submit_s):
            now = world.ends[0][0]
            world.end(now)
        else:
            job = arrivals.popleft()
            now = job.submit_s
            world.waiting.append(job)
        world.serve(now)


def _link_frames(world: _World, horizon_s: float, series: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    n_servers = -(-world.n_gpus // GPUS_PER_SERVER)
    names = [(f"server{s}->leaf{s // 4}", "nic") for s in range(n_servers)]
    names += [(f"leaf{r}->spine", "leaf") for r in range(-(-n_servers // 4))]
    edges = np.linspace(0.0, max(horizon_s, 1e-9), 121)
    carried = np.zeros((len(names), 120))
    for server, start, end, size in world.sent:
        share = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], start), 0, None) / (end - start)
        carried[server] += size * share
        carried[n_servers + server // 4] += 0.5 * size * share
    capacity = np.array([NIC if t == "nic" else 2 * NIC for _, t in names])
    total = carried.sum(axis=1)
    links = pl.DataFrame(
        {
            "link": range(len(names)), "name": [n for n, _ in names], "tier": [t for _, t in names],
            "bytes_per_s": capacity, "bytes": total, "busy_s": total / capacity,
            "utilisation": total / capacity / max(horizon_s, 1e-9),
        },
        schema=LINKS,
    )  # fmt: skip
    used = [(i, edges[b], edges[b + 1], carried[i, b]) for i in range(len(names)) for b in range(120) if carried[i, b]]
    return links, pl.DataFrame(used if series else [], schema=LINK_SERIES, orient="row")


def _job_frame(jobs: list[_Job]) -> pl.DataFrame:
    rows = [
        (
            j.id, j.model, j.gpus, j.submit_s, j.start_s, j.finish_s,
            None if j.finish_s is None else j.finish_s - j.submit_s, j.queueing_s, j.run_s, j.comm_s, 0.0, j.gpu_s,
            j.lost_gpu_s, j.iterations - j.left, j.preemptions, j.servers, -(-j.servers // 4),
            "finished" if j.finish_s is not None else "waiting", f"user{int(j.id[3:]) % 5}",
        )
        for j in jobs
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=JOBS, orient="row")


def synthetic_run(
    n_jobs: int = 60,
    n_gpus: int = 32,
    seed: int = 1,
    stack: str = "fifo",
    load: float = 0.5,
    slowdown: float = 1.0,
    preempt: float = 0.1,
    series: bool = True,
) -> RunResult:
    """A run of `n_jobs` drawn jobs; `slowdown` scales the network's cost, `series` asks for link time series."""
    rng = np.random.default_rng(seed)
    jobs = _draw_jobs(rng, n_jobs, n_gpus, load)
    world = _World(rng, n_gpus, slowdown, preempt, free=set(range(n_gpus)))
    _simulate(world, jobs)
    horizon_s = max((j.finish_s for j in jobs if j.finish_s is not None), default=0.0)
    links, link_series = _link_frames(world, horizon_s, series)
    return RunResult(
        scenario="leaf-spine", stack=stack, seed=seed, jobs=_job_frame(jobs),
        iterations=pl.DataFrame(world.iterations, schema=ITERATIONS, orient="row"), links=links,
        decisions=pl.DataFrame(world.decisions, schema=DECISIONS, orient="row"),
        spans=pl.DataFrame(world.spans, schema=SPANS, orient="row"), n_gpus=n_gpus, events=7 * len(world.iterations),
        exact=True, wall_s=0.42, segments=pl.DataFrame(world.segments, schema=SEGMENTS, orient="row"),
        link_series=link_series, notes=("Jobs are synthetic: drawn from a seed, not from a trace.",),
        scenario_text='[cluster]\ntopology = "leaf-spine"\nnic_gbps = 10\n', command="weft simulate leaf-spine.toml",
        version="0.1.0", server_of_gpu=tuple(g // GPUS_PER_SERVER for g in range(n_gpus)),
    )  # fmt: skip


def unfinished_run(n_jobs: int = 3) -> RunResult:
    """A run in which jobs wait and none ever starts."""
    rng = np.random.default_rng(0)
    jobs = _draw_jobs(rng, n_jobs, 8, 0.9)
    world = _World(rng, 8, 1.0, 0.0)
    for job in jobs:
        world.decide(job.submit_s, job, "hold", (), f"wants {job.gpus} GPUs, 0 free")
    links, series = _link_frames(world, 0.0, False)
    return RunResult(
        scenario="stuck", stack="fifo", seed=0, jobs=_job_frame(jobs), iterations=pl.DataFrame(schema=ITERATIONS),
        links=links, decisions=pl.DataFrame(world.decisions, schema=DECISIONS, orient="row"),
        spans=pl.DataFrame(schema=SPANS), n_gpus=8, events=0, exact=True, wall_s=0.0, link_series=series,
    )  # fmt: skip


@pytest.fixture(scope="session")
def make_run() -> Callable[..., RunResult]:
    return synthetic_run


@pytest.fixture(scope="session")
def run() -> RunResult:
    return synthetic_run()


@pytest.fixture(scope="session")
def big_run() -> RunResult:
    return synthetic_run(n_jobs=5_000, n_gpus=512)


@pytest.fixture(scope="session")
def single_run() -> RunResult:
    return synthetic_run(n_jobs=1, n_gpus=8, preempt=0.0)


@pytest.fixture(scope="session")
def stuck_run() -> RunResult:
    return unfinished_run()


@pytest.fixture(scope="session")
def empty_run() -> RunResult:
    return unfinished_run(n_jobs=0)


@pytest.fixture(scope="session")
def paired_runs() -> list[RunResult]:
    """Two stacks over three seeds, same jobs at a seed; the second stack's network is a third cheaper."""
    return [
        replace(synthetic_run(seed=seed, stack=stack, slowdown=slowdown), command="weft compare leaf-spine.toml")
        for stack, slowdown in (("fifo", 1.5), ("srsf", 1.0))
        for seed in (1, 2, 3)
    ]
