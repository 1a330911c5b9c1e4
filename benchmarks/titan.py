"""Whole traces on 4,096 GPUs under `titan`: CPU seconds, memory, time of decisions, error of estimates.

The files are found through WEFT_TRACES; what is not there is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.traces import FILES, present

if TYPE_CHECKING:
    from polars import DataFrame

    from weft.model.cluster import Cluster
    from weft.model.events import Event
    from weft.model.job import Job
    from weft.model.plan import Decision
    from weft.results.run import RunResult
    from weft.sim import NetworkSpec

TRACES = {"elasticflow": FILES["elasticflow_raw"], **{name: FILES[name] for name in ("helios_venus", "philly", "pai")}}
SLICE = 2000
EVERY = 16  # one in so many decisions is timed in CPU seconds, too: asking for them takes as long as a small decision
SEEDS = (0, 1, 2)  # each takes another slice of the trace
MOVED = 1e-12  # relative, for the spread of the exact run itself
SHORTER = 20  # jobs of a slice are so many times shorter, since its exact run would otherwise take half an hour


def run(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Figures of each trace, from reading it to the result; quick: the first 1,000 jobs, and no slice.

    `error_jct_*` compare slices of 2,000 jobs with their exact runs: the relative error of the mean and the 95th
    percentile of completion times, over jobs that share links (more than one machine). `error_of_a_job_*` do so job by
    job. Each is given as the median over the seeds and as the worst. `spread_*` are the same for an exact run whose
    tasks differ by 1e-12, at one seed. Memory is the most held so far, over all traces.
    """
    from weft.runs.prepare import compile_kernels

    compile_kernels(say)
    figures: dict[str, Any] = {}
    there = present(TRACES, say)
    for name in there:
        say(f"{name}: {'the first 1,000 jobs' if quick else 'the whole trace'}")
        figures |= _measured(name, TRACES[name], 1000 if quick else None)
    if not quick and "elasticflow" in there:
        say(f"{SLICE} jobs of elasticflow, estimated and exact")
        figures |= _errors(TRACES["elasticflow"], say)
    return figures


def _scenario(trace: str, jobs: int | None, **changes: Any) -> dict[str, Any]:
    from weft.scenario.problems import read_toml
    from weft.scenario.shipped import scenario_path

    made: dict[str, Any] = read_toml(scenario_path("titan"))
    made["workload"] |= {"trace": trace, "oversize": "leave-out", **({"jobs": jobs} if jobs else {})}
    made["workload"] |= changes.get("workload", {})
    made["run"] |= changes.get("run", {})
    return made


def _measured(name: str, trace: str, jobs: int | None) -> dict[str, Any]:
    """One run with every decision timed."""
    from weft.core.cycle import Core
    from weft.core.journal import MemoryJournal
    from weft.core.loop import run as drive
    from weft.scenario import Scenario
    from weft.scenario.build import build_cluster, build_workload, physics
    from weft.sim import few_collections
    from weft.sim.outcome import make_result
    from weft.sim.world import SimWorld
    from weft.stacks import resolve

    took: list[float] = []
    computed: list[float] = []  # CPU seconds of one in so many decisions

    class TimedCore(Core):
        def step(self, now: float, events: Sequence[Event]) -> list[Decision]:
            by_cpu = len(took) % EVERY == 0
            cpu = time.thread_time() if by_cpu else 0.0
            began = time.perf_counter()
            decisions = super().step(now, events)
            took.append(time.perf_counter() - began)
            if by_cpu:
                computed.append(time.thread_time() - cpu)
            return decisions

    began, wall = time.process_time(), time.perf_counter()
    scenario = Scenario.load(_scenario(trace, jobs))
    cluster = build_cluster(scenario, 0)
    with few_collections():
        workload = build_workload(scenario, cluster, 0)
    world = SimWorld(cluster, workload.jobs, *physics(scenario, 0))
    journal = MemoryJournal()
    with few_collections():
        drive(TimedCore(resolve("titan"), world, 0, journal), world)
        world.close()
        result = make_result(world, journal, "titan", time.perf_counter() - wall)
    return {
        f"{name}_jobs": result.jobs.height,
        f"{name}_cpu_s": time.process_time() - began,
        f"{name}_wall_s": time.perf_counter() - wall,
        f"{name}_peak_gb": _peak_gb(),
        f"{name}_decision_p99_ms": 1e3 * float(np.quantile(took, 0.99)),
        f"{name}_decision_cpu_p99_ms": 1e3 * float(np.quantile(computed, 0.99)),
        f"{name}_decision_max_ms": 1e3 * max(took),
        f"{name}_events": result.events,
    }


def _peak_gb() -> float:
    """The most memory that this process has held, so far."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


def _errors(trace: str, say: Callable[[str], None]) -> dict[str, Any]:
    """The errors of several slices: of each figure the median and the worst."""
    found = []
    for seed in SEEDS:
        say(f"slice {seed}")
        found.append(slice_error(trace, seed, spread=seed == SEEDS[0]))
    names = [name for name in found[0] if name.startswith("error")]
    return {
        **found[0],
        **{name: float(np.median([each[name] for each in found])) for name in names},
        **{f"{name}_worst": max(each[name] for each in found) for name in names},
    }


def slice_error(trace: str, seed: int = 0, spread: bool = False, shorter: int = SHORTER) -> dict[str, Any]:
    """Random jobs of the trace at a load that makes them share links, all times divided by `shorter`.

    Jobs come, go and meet as they otherwise would, but do fewer iterations meanwhile, which gives estimates less to
    work with. The estimated run has the starts and GPUs of the exact one: a job that ends a moment earlier or later
    leaves its GPUs to another job, and after a few such moments two runs of the same trace would compare jobs on
    different machines.
    """
    from weft.scenario import Scenario
    from weft.scenario.build import build_cluster, build_workload, physics
    from weft.sim import simulate
    from weft.stacks import resolve

    changes = {"jobs": SLICE, "load": 0.9, "pick": "random"}
    scenario = Scenario.load(_scenario(trace, SLICE, workload=changes, run={"exact": True}))
    cluster = build_cluster(scenario, seed)
    jobs = [
        replace(job, submit_s=job.submit_s / shorter, iterations=max(1, job.iterations // shorter))
        for job in build_workload(scenario, cluster, seed).jobs
    ]
    network, spec = physics(scenario, seed)
    exact = simulate(cluster, jobs, resolve("titan"), network, spec)
    rows = exact.jobs.filter(exact.jobs["servers"] > 1)
    figures: dict[str, Any] = {"slice_sharing_jobs": rows.height, "slice_iterations": int(rows["iterations"].sum())}
    figures |= _compared("error", rows, _again(cluster, jobs, exact, network, exactly=False))
    if spread:
        figures |= _compared("spread", rows, _again(cluster, jobs, exact, network, exactly=True))
    return figures


def _compared(name: str, rows: DataFrame, finish_s: dict[str, float]) -> dict[str, float]:
    """How far completion times are from those of the exact run."""
    ends = rows["jct_s"].to_numpy()
    found = np.array([finish_s[job] for job in rows["job_id"]]) - rows["submit_s"].to_numpy()
    off = np.abs(found / ends - 1.0)
    return {
        f"{name}_jct_mean": abs(float(found.mean() / ends.mean()) - 1.0),
        f"{name}_jct_p95": abs(float(np.quantile(found, 0.95) / np.quantile(ends, 0.95)) - 1.0),
        f"{name}_of_a_job_mean": float(off.mean()),
        f"{name}_of_a_job_p95": float(np.quantile(off, 0.95)),
    }


def _again(
    cluster: Cluster, jobs: Sequence[Job], exact: RunResult, network: NetworkSpec, exactly: bool
) -> dict[str, float]:
    """When each job ends if it is started when and where it was in the exact run: at estimated paces, or exactly with
    tasks that differ by MOVED."""
    from weft.sim.engine import Engine, EngineSpec
    from weft.sim.lower import Lowering

    lowering = Lowering(cluster, network)
    engine = Engine(EngineSpec(lowering.capacity, lowering.ports, sharing=network.sharing, exact=exactly))
    numbered = {job.id: (uid, job) for uid, job in enumerate(jobs)}
    there: dict[int, str] = {}
    finish_s: dict[str, float] = {}
    rng = np.random.default_rng(0)

    def advance(until: float) -> None:
        while done := engine.run(until):
            for row in done:
                finish_s[there.pop(row)] = engine.detach(row).finish_s

    for name, start_s, gpus in exact.spans.sort("start_s").select("job_id", "start_s", "gpus").iter_rows():
        advance(start_s)
        uid, job = numbered[name]
        program = lowering.program(job.profiles[len(gpus)], tuple(gpus), job.model, uid)
        if exactly:
            nodes = program.nodes.copy()
            nodes["amount"] *= 1.0 + MOVED * rng.uniform(-1.0, 1.0, len(nodes))
            program = replace(program, nodes=nodes)
        there[engine.attach(uid, program, job.iterations)] = name
    advance(np.inf)
    return finish_s
