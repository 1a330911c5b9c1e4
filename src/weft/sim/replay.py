"""`weft replay`: the physics alone. Given jobs over given links, no scheduler."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.model.plan import Gate
from weft.model.units import gbps_to_bytes_per_s
from weft.results.metrics import run_length_quantiles
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import NodeSpec, Program, compute_node, make_program, transfer_node


def run_replay(
    spec: dict[str, Any],
    skip: bool = True,
    exact: bool = True,
    perturb: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Run a job file that has been checked (`weft.scenario.jobfile.load_job_file(...).model_dump()`).

    `perturb` stretches every compute time by that relative amount: how far do results move?
    """
    names = list(spec["links"])
    number = {name: i for i, name in enumerate(names)}
    capacity = np.array([gbps_to_bytes_per_s(spec["links"][n]["gbps"]) for n in names], dtype=np.float64)
    network = spec["network"]
    admission = network.get("admission") or {"kind": "all", "k": 0, "ratios": ()}
    engine_spec = EngineSpec(
        capacity,
        np.ones(len(names), np.bool_),
        sharing=network["sharing"],
        b_s_per_byte=network["b_s_per_byte"],
        eta_s_per_byte=network["eta_s_per_byte"],
        admission=admission["kind"],
        admission_k=admission["k"],
        admission_ratios=tuple(admission["ratios"]),
        skip=skip,
        exact=exact,
    )
    programs = [_program(job, number, engine_spec, network, perturb) for job in spec["jobs"]]
    engine = Engine(engine_spec)
    finish, wall_s = _drive(engine, spec["jobs"], programs, clock)
    return _report(engine, spec, names, finish, wall_s)


def _program(
    job: dict[str, Any], number: dict[str, int], spec: EngineSpec, network: dict[str, Any], perturb: float
) -> Program:
    k_way = network["sharing"] == "k-way"
    nodes: list[NodeSpec] = []
    before: tuple[int, ...] = ()
    task = 0
    for phase in job["phases"]:
        ends: list[int] = []
        if phase["compute_s"] > 0 or phase["bytes"] <= 0:
            nodes.append(compute_node(task, phase["compute_s"] * (1.0 + perturb), before))
            ends.append(len(nodes) - 1)
            task += 1
        if phase["bytes"] > 0:
            demand = phase.get("demand_gbps")
            links = sorted((number[name], flows) for name, flows in phase["flows"].items())
            nodes.append(
                transfer_node(
                    task,
                    phase["bytes"],
                    links,
                    before,
                    demand=math.inf if demand is None else gbps_to_bytes_per_s(demand),
                    latency=network["a_s"] if k_way else 0.0,
                )
            )
            ends.append(len(nodes) - 1)
            task += 1
        before = tuple(ends)
    return make_program(nodes, spec.capacity, kway_b=spec.b_s_per_byte if k_way else None)


def _drive(
    engine: Engine, jobs: list[dict[str, Any]], programs: list[Program], clock: Callable[[], float]
) -> tuple[dict[int, float], float]:
    """Attach each job at its start, run to the end; returns finish times by job number, and the seconds it took.

    Laying out the jobs that are there from the beginning is setting up, and not counted.
    """
    finish: dict[int, float] = {}
    rows: dict[int, int] = {}
    starts = sorted((job["start_s"], i) for i, job in enumerate(jobs))

    def attach_due() -> None:
        while starts and starts[0][0] <= engine.now:
            _, i = starts.pop(0)
            gate = jobs[i].get("gate")
            rows[engine.attach(i, programs[i], jobs[i]["iterations"], gate=Gate(**gate) if gate else None)] = i

    attach_due()
    began = clock()
    while starts or rows:
        for row in engine.run(starts[0][0] if starts else math.inf, go_on=True):
            finish[rows.pop(row)] = engine.finish_s(row)
        if not starts:
            break
        attach_due()
    return finish, clock() - began


def _report(
    engine: Engine, spec: dict[str, Any], names: list[str], finish: dict[int, float], wall_s: float
) -> dict[str, Any]:
    records = engine.records()
    makespan = max(finish.values(), default=0.0)
    order = np.argsort(records["uid"], kind="stable")
    uids, durations, counts = records["uid"][order], records["duration"][order], records["count"][order]
    bounds = np.searchsorted(uids, np.arange(len(spec["jobs"]) + 1))
    jobs = {}
    for i, job in enumerate(spec["jobs"]):
        rows = slice(bounds[i], bounds[i + 1])
        p50, p99 = run_length_quantiles(durations[rows], counts[rows], np.array([0.5, 0.99]))
        mean = float((durations[rows] * counts[rows]).sum() / counts[rows].sum())
        statistics = {"mean": mean, "p50": float(p50), "p99": float(p99), "max": float(durations[rows].max())}
        jobs[job["id"]] = {"start_s": job["start_s"], "finish_s": finish[i], "iteration_s": statistics}
    links = {}
    for name, link in zip(names, engine.links(), strict=True):
        could = float(link["capacity"]) * makespan
        carried = float(link["bytes"])
        links[name] = {
            "bytes": carried,
            "busy_s": float(link["busy"]),
            "utilisation": carried / could if could > 0 else None,
        }
    return {
        "makespan_s": makespan,
        "events": engine.events,
        "iterations": engine.iterations,
        "exact": engine.exact,
        "wall_s": wall_s,
        "jobs": jobs,
        "links": links,
    }
