"""Moments of Crux's trace: the jobs that run at a time of the two weeks, on the GPUs that they have, for some seconds.

GPU use is the computing that GPUs do in a given time, so that jobs must not end sooner when they are faster: as many
iterations as fit are played, with the jobs of the moment. Jobs have GPUs from their arrival on, the first that are
free; nobody waits. A job of several hosts sums its gradients over all its NICs.
"""

from __future__ import annotations

import hashlib
import heapq
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from weft.model.job import Job
from weft.model.plan import Placement, State
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.place.base import Answer, Place
from weft.runs.run import Task
from weft.scenario.build import Layers, build
from weft.workload import zoo

TRACE = "crux/crux.csv"
SOURCES = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()  # of what makes a run, beside those of weft
NO_LENGTH_S = 30.0  # of rows whose duration is 0: times are whole minutes
PLAY_S, MOMENTS, QUICK_MOMENTS = 12.0, 3, 1
# What models are drawn from, by GPUs at least: our stand-ins for the paper's kinds.
MODELS = {
    64: ("llama-7b[parallel=data]",), 16: ("bert-large", "gpt2-medium", "transformer-xl-36"),
    1: ("resnet50", "bert-base", "transformer-xl"),
}  # fmt: skip
_LEVELS = 8
LAYERS = {  # who is where is given; a system is an interleave, a pace and a route
    "none": Layers(interleave="none", pace="fair", route="ecmp"),
    "spray": Layers(interleave="none", pace="fair", route="spray"),
    "ps": Layers(interleave="none", pace="fair", route="crux"),
    "pa": Layers(interleave="none", pace="crux:64", route="ecmp"),
    "ps-pa": Layers(interleave="none", pace="crux:64", route="crux"),
    "full": Layers(interleave="none", pace=f"crux:{_LEVELS}", route="crux"),
    "cassini": Layers(interleave="cassini", pace="fair", route="ecmp"),
    "sincronia": Layers(interleave="none", pace=f"sincronia:{_LEVELS}", route="ecmp"),
    "taccl": Layers(interleave="none", pace=f"taccl:{_LEVELS}", route="least-loaded"),
}


def scenario() -> dict[str, Any]:
    """173 ToRs with two hosts of 8 A100 each under 16 aggregation switches; every cable as fast as a NIC. The jobs are
    those of a moment; what stands here of them is not used."""
    return {
        "cluster": {
            "topology": "leaf-spine", "racks": 173, "servers_per_rack": 2, "gpus_per_server": 8, "nics_per_server": 4,
            "nic_gbps": 200.0, "intra_server_gbps": 2400.0, "spines": 16, "oversubscription": 0.5, "gpu": "A100",
            "gpu_memory_gb": 1000.0,
        },
        "workload": {"source": "poisson", "jobs": 1, "iterations": [1, 1]},
        "run": {"exact": True},
    }  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A job of the trace on its GPUs."""

    job: int
    start_s: float
    end_s: float
    gpus: Placement


def has_trace() -> bool:
    """Whether the trace is there."""
    store = os.environ.get("WEFT_TRACES")
    return store is not None and (Path(store) / TRACE).is_file()


@cache
def rows(gpus: int = 2768) -> list[Row]:
    """The jobs of the trace, each on the first GPUs that are free when it comes."""
    from weft.workload.traces.reading import read

    frame = read(Path(os.environ["WEFT_TRACES"]) / TRACE).frame
    free, ends = list(range(gpus)), list[tuple[float, int, Placement]]()
    found = []
    for at, (start, size, lasts) in enumerate(frame.select("submit_s", "gpus", "duration_s").iter_rows()):
        while ends and ends[0][0] <= start:
            free = sorted([*free, *heapq.heappop(ends)[2]])
        size, end = int(size), start + (lasts or NO_LENGTH_S)
        mine, free = _first(free, size)
        heapq.heappush(ends, (end, at, mine))
        found.append(Row(at, start, end, mine))
    return found


def _first(free: list[int], size: int) -> tuple[Placement, list[int]]:
    """The first free GPUs: whole hosts for a job of 8 or more, one host for a smaller one."""
    by_host: dict[int, list[int]] = {}
    for gpu in free:
        by_host.setdefault(gpu // 8, []).append(gpu)
    mine: list[int] = []
    for there in by_host.values():
        wanted = min(size - len(mine), 8)
        if wanted and len(there) >= wanted:
            mine += there[:wanted]
    if len(mine) < size:
        mine = free[:size]
    taken = set(mine)
    return tuple(mine), [gpu for gpu in free if gpu not in taken]


def moments(known: list[Row], n: int, seed: int) -> list[list[Row]]:
    """Jobs of several hosts that run at n times, which are drawn among those with at least five of them."""
    rng = np.random.default_rng(seed)
    large = [row for row in known if len(row.gpus) > 8]
    last, found = max(row.end_s for row in known), list[list[Row]]()
    while len(found) < n:
        at = rng.uniform(0.0, last)
        now = [row for row in large if row.start_s <= at < row.end_s]
        if len(now) >= 5:
            found.append(now)
    return found


def model_of(row: Row, seed: int) -> str:
    """Drawn by size: larger jobs have larger models."""
    some = MODELS[max(least for least in MODELS if least <= len(row.gpus))]
    return some[int(np.random.default_rng([seed, row.job]).integers(len(some)))]


class Given(Place):
    """Jobs where the trace has them."""

    name = "given"
    names_gpus = True

    def __init__(self, where: Mapping[str, Placement]) -> None:
        self.where = where

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Its own GPUs."""
        return Answer(self.where[job.id], "as in the trace", state)


def task_part(number: int, name: str) -> tuple[float | str, ...]:
    """What tells a run from others of its scenario and stack."""
    return ("crux", SOURCES[:16], number, name)


def play(task: Task) -> dict[str, float]:
    """GPU use at a moment under a stack, on average over the GPUs of jobs of several hosts, and of the job that has
    least of it."""
    from weft.core.layered import Layered
    from weft.policies.order.fifo import Fifo
    from weft.runs.prepare import compile_kernels
    from weft.sim import simulate

    number, seed = int(task.part[2]), task.seed or 0
    made = build(task.scenario, seed, task.layers)
    now = moments(rows(made.cluster.n_gpus), number + 1, seed)[number]
    stack = replace(made.stack, planner=Layered(Fifo(), Given({str(row.job): row.gpus for row in now})))
    jobs = []
    for row in now:
        model, n = model_of(row, seed), len(row.gpus)
        jobs.append(Job(str(row.job), 0.0, n, 1_000_000, {n: zoo.profile(model, n, gpu="A100")}, model))
    compile_kernels(None, [stack])
    run = simulate(made.cluster, jobs, stack, made.network, replace(made.run, until_s=PLAY_S))
    done = dict(run.jobs.select("job_id", "gpu_s").iter_rows())
    use = {row.job: done[str(row.job)] / (len(row.gpus) * PLAY_S) for row in now}
    held = sum(len(row.gpus) for row in now)
    mean = sum(use[row.job] * len(row.gpus) for row in now) / held
    return {"use": mean, "least": min(use.values()), "jobs": float(len(now))}
