"""The engine alone: iterations, flow completions and events per second, what skipping and estimates cost.

Everything runs on one core, warm, with `weft replay`'s own job files, so that anyone can write such a file and see the
same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from benchmarks import _simgrid

GBPS = 50.0


def run(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Figures by name; each speed is the median of several runs."""
    from weft.runs.prepare import compile_kernels

    compile_kernels(say)
    repeats = 1 if quick else 5
    iterations = 500 if quick else 5000
    say("random jobs over two links each, every iteration simulated")
    plain = [_replay(random_jobs(200, iterations), skip=False) for _ in range(repeats)]
    dense = [_replay(random_jobs(40, iterations // 10), skip=False) for _ in range(repeats)]
    say("a thousand flows drain over 64 hosts")
    drains = [_replay(draining_flows(), skip=False) for _ in range(repeats)]
    say("pairs that repeat; random jobs measured and extrapolated")
    figures: dict[str, Any] = {
        "iterations_per_s": median(r["iterations"] / r["wall_s"] for r in plain),
        "flow_completions_per_s": median(r["iterations"] / r["wall_s"] for r in drains),
        "dense_events_per_s": median(r["events"] / r["wall_s"] for r in dense),
    }
    figures |= _beside_simgrid(drains[0], figures["flow_completions_per_s"], say)
    figures |= _skipping(iterations, repeats) | _estimates(iterations, repeats)
    say("compilation from nothing, and a warm start")
    figures["cold_compile_s"] = None if quick else _compile_s(fresh=True)
    figures["warm_start_s"] = _compile_s(fresh=False)
    return figures


def _replay(jobs: dict[str, Any], **options: Any) -> dict[str, Any]:
    from weft.scenario.jobfile import load_job_file
    from weft.sim.replay import run_replay

    # CPU seconds, so that the figures do not depend on what else the machine does
    return run_replay(load_job_file(jobs).model_dump(), clock=time.process_time, **options)


def random_jobs(n_links: int, iterations: int, n_jobs: int = 100, seed: int = 0) -> dict[str, Any]:
    """Jobs that compute and then send over two random links."""
    rng = np.random.default_rng(seed)
    links = {f"l{i}": {"gbps": GBPS} for i in range(n_links)}
    jobs = []
    for j in range(n_jobs):
        a, b = rng.choice(n_links, 2, replace=False)
        send = {"bytes": float(rng.uniform(1e8, 9e8)), "flows": {f"l{a}": 1, f"l{b}": 1}}
        phases = [{"compute_s": float(rng.uniform(0.05, 0.3))}, send]
        jobs.append({"id": f"j{j}", "iterations": iterations, "phases": phases})
    return {"links": links, "jobs": jobs}


def repeating_pairs(iterations: int, n_pairs: int = 50, seed: int = 0) -> dict[str, Any]:
    """Pairs that share a link, with periods in the ratio 1:1, 1:2 or 2:3."""
    rng = np.random.default_rng(seed)
    jobs = []
    for p in range(n_pairs):
        short, long = ((1, 1), (1, 2), (2, 3))[p % 3]
        unit = round(float(rng.uniform(0.05, 0.2)), 3)
        for name, period in (("a", short * unit), ("b", long * unit)):
            send_s = 0.2 * unit
            phases = [
                {"compute_s": period - send_s},
                {"bytes": send_s * GBPS * 1e9 / 8, "flows": {f"l{p}": 1}},
            ]
            start = 0.0 if name == "a" else 0.5 * unit
            jobs.append({"id": f"{name}{p}", "start_s": start, "iterations": iterations, "phases": phases})
    return {"links": {f"l{p}": {"gbps": GBPS} for p in range(n_pairs)}, "jobs": jobs}


def draining_flows(n_flows: int = 1000, seed: int = 1) -> dict[str, Any]:
    """Flows of 50-500 MB between random hosts of an 8 x 8 leaf-spine, all started at once."""
    from weft.network.topologies import Machine, leaf_spine

    topology = leaf_spine(8, 8, Machine(nic_gbps=10.0), spines=8).topology
    rng = np.random.default_rng(seed)
    jobs = []
    for i in range(n_flows):
        a, b = rng.choice(64, 2, replace=False)
        route = topology.route(int(a), int(b), i)
        phase = {"bytes": float(round(rng.uniform(50e6, 500e6))), "flows": {topology.links[k].name: 1 for k in route}}
        jobs.append({"id": f"f{i}", "iterations": 1, "phases": [phase]})
    links = {link.name: {"gbps": link.bytes_per_s * 8 / 1e9} for link in topology.links}
    return {"links": links, "jobs": jobs}


def _beside_simgrid(drained: dict[str, Any], per_s: float, say: Callable[[str], None]) -> dict[str, float | None]:
    """The same thousand flows in SimGrid, where it is installed: its speed (CPU), and how far the ends differ."""
    python = _simgrid.find()
    if python is None:
        say("SimGrid is not installed (Debian: python3-simgrid): not compared")
        return {"simgrid_completions_per_s": None, "times_simgrid": None, "simgrid_difference_max": None}
    say("the same flows in SimGrid")
    jobs = draining_flows()
    number = {name: k for k, name in enumerate(jobs["links"])}
    phases = [job["phases"][0] for job in jobs["jobs"]]
    case = {
        "capacity": [link["gbps"] * 1e9 / 8 for link in jobs["links"].values()],
        "jobs": [
            {
                "start": 0.0, "compute": 0.0, "bytes": int(phase["bytes"]), "rate": None, "iterations": 1,
                "links": [number[name] for name in phase["flows"]],
            }
            for phase in phases
        ],
    }  # fmt: skip
    ends, cpu_s = _simgrid.run(python, case)
    ours = [drained["jobs"][job["id"]]["finish_s"] for job in jobs["jobs"]]
    return {
        "simgrid_completions_per_s": len(ends) / cpu_s,
        "times_simgrid": per_s * cpu_s / len(ends),
        "simgrid_difference_max": max(abs(a / b - 1.0) for a, b in zip(ours, ends, strict=True)),
    }


def _skipping(iterations: int, repeats: int) -> dict[str, float]:
    """Cost of 100 times as many iterations, and the largest relative difference to the plain run."""
    few = [_replay(repeating_pairs(iterations)) for _ in range(repeats)]
    many = [_replay(repeating_pairs(100 * iterations)) for _ in range(repeats)]
    plain = _replay(repeating_pairs(iterations), skip=False)
    worst = max(abs(few[0]["jobs"][k]["finish_s"] / job["finish_s"] - 1.0) for k, job in plain["jobs"].items())
    return {"skip_cost_ratio": _ratio(many, few), "skip_error_max": worst}


def _estimates(iterations: int, repeats: int) -> dict[str, float]:
    """The same for exact = false, with the exact run's own spread under a perturbation of 1e-12."""
    jobs = random_jobs(200, iterations)
    exact = _replay(jobs, skip=False)
    moved = _replay(jobs, skip=False, perturb=1e-12)
    few = [_replay(jobs, exact=False) for _ in range(repeats)]
    many = [_replay(random_jobs(200, 100 * iterations), exact=False) for _ in range(repeats)]
    errors, spread = _differences(few[0], exact), _differences(moved, exact)
    return {
        "estimate_cost_ratio": _ratio(many, few),
        "estimate_error_mean": float(errors.mean()),
        "estimate_error_p95": float(np.quantile(errors, 0.95)),
        "exact_spread_mean": float(spread.mean()),
        "exact_spread_p95": float(np.quantile(spread, 0.95)),
    }


def _differences(a: dict[str, Any], b: dict[str, Any]) -> Any:
    return np.array([abs(a["jobs"][k]["finish_s"] / b["jobs"][k]["finish_s"] - 1.0) for k in b["jobs"]])


def _ratio(a: list[dict[str, Any]], b: list[dict[str, Any]]) -> float:
    return float(median(r["wall_s"] for r in a) / median(r["wall_s"] for r in b))


def _compile_s(fresh: bool) -> float:
    """CPU seconds of a new process that gets the engine's kernels ready, with an empty cache or the user's own.

    Kernels of policies are not among them, nor is the one that carries out the rates that a rule sets.
    """
    code = (
        "import time; t = time.process_time(); from weft.sim.warm import compile_all; compile_all(); "
        "print(time.process_time() - t)"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **({"WEFT_CACHE_DIR": folder} if fresh else {})}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)
