"""MonkeyTree's sweep of loads: 16 ToRs of 64 GPUs under 16 spines, one port of 400 Gbit/s per GPU; systems by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft.runs.run import Task, run_grid
from weft.scenario.build import Layers, build

from weft_evidence.claims import Measured, Request
from weft_evidence.monkeytree.jobs import BY_NAME, draw, jobs_of, seed_of, state_s
from weft_evidence.settings import own, scenario_of, stack_of

if TYPE_CHECKING:
    from weft.results.run import RunResult

Floats = npt.NDArray[np.float64]

LOADS = (0.7, 0.8, 0.9, 1.0)
REPETITIONS, QUICK_REPETITIONS, JOBS, QUICK_JOBS = 5, 3, 1000, 60
PAUSE_S = 10.0
_STAY = "monkeytree:limit=1000000"  # the same queue and best fit, and nobody moves
SYSTEMS = {
    "ecmp": f"{_STAY}/none/fair/ecmp",
    "crux-released": f"{_STAY}/none/fair/crux-released",
    "crux": f"{_STAY}/none/crux/crux",
    "sglb": f"{_STAY}/none/fair/sglb",
    "perfect": f"{_STAY}/none/fair/edge-colouring",
    "spray": f"{_STAY}/none/fair/spray",
    "monkeytree+ecmp": "monkeytree/none/fair/ecmp",
    "monkeytree+crux-released": "monkeytree/none/fair/crux-released",
    "monkeytree+sglb": "monkeytree/none/fair/sglb",
    "monkeytree": "monkeytree/none/fair/edge-colouring",
}  # fmt: skip


def scenario(tors: int = 16, per_tor: int = 64, spines: int = 16) -> dict[str, Any]:
    """The cluster. Neighbours in a block talk at the speed of a port, as they do through the leaf. The jobs are drawn by
    jobs.py; what stands here of them is not used."""
    return {
        "cluster": {
            "topology": "leaf-spine", "racks": tors, "servers_per_rack": per_tor // 8, "gpus_per_server": 8,
            "nics_per_server": 8, "nic_gbps": 400.0, "intra_server_gbps": 400.0, "spines": spines,
            "oversubscription": per_tor / spines, "gpu_memory_gb": 1000.0,
        },
        "workload": {"source": "poisson", "jobs": 1, "iterations": [1, 1]},
        "run": {"restart_s": PAUSE_S + state_s(), "exact": False},
    }  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What is kept of a run: slowdowns by job, moves, GPU seconds held over those there are, seconds it took."""

    slowdown: Floats
    moves: int
    wall_s: float

    def number(self, name: str) -> float:
        """mean, p90 or p99 slowdown, or moves."""
        if name == "moves":
            return float(self.moves)
        return float(self.slowdown.mean() if name == "mean" else np.quantile(self.slowdown, float(name[1:]) / 100.0))


def slowdowns(run: RunResult) -> Floats:
    """(end - start) / what the iterations take alone, job by job: waiting in the queue is not counted, pauses are."""
    done = run.jobs.filter(run.jobs["finish_s"].is_not_null())
    rows = done.select("model", "gpus", "iterations", "start_s", "finish_s").iter_rows()
    return np.array([(end - start) / (n * BY_NAME[kind].alone_s(gpus)) for kind, gpus, n, start, end in rows])


def play(task: Task) -> Outcome:
    """One run of a task: its part says load, repetition, and how many jobs."""
    load, repetition, jobs = (float(word) for word in task.part[1:])
    made = build(task.scenario, task.seed, task.layers)
    from weft.runs.prepare import compile_kernels
    from weft.sim import simulate

    compile_kernels(None, [made.stack])
    drawn = draw(seed_of(load, int(repetition)), load, made.cluster.n_gpus, int(jobs))
    run = simulate(made.cluster, jobs_of(drawn), made.stack, made.network, made.run)
    return Outcome(slowdowns(run), int(run.jobs["preemptions"].sum()), run.wall_s)


@dataclass
class Sweep:
    """Runs by load and system, each done once, when first asked for."""

    request: Request
    done: dict[tuple[float, str], list[Outcome]] = field(default_factory=dict)

    @property
    def repetitions(self) -> list[int]:
        """The seeds."""
        return [n + 1 for n in self.request.numbers(REPETITIONS, QUICK_REPETITIONS)]

    def need(self, wanted: Sequence[tuple[float, str]]) -> None:
        """Do what is missing of these together."""
        request = self.request
        missing = [key for key in dict.fromkeys(wanted) if key not in self.done]
        jobs = own(request, "sweep.jobs", QUICK_JOBS if request.quick else JOBS)
        given = scenario_of(request, scenario())
        tasks = [
            Task(given, Layers(stack=stack_of(request, SYSTEMS[name])), n, part=("monkeytree", load, n, jobs))
            for load, name in missing
            for n in self.repetitions
        ]
        found = run_grid(tasks, request.workers, play, request.on_progress)
        each = len(self.repetitions)
        for i, key in enumerate(missing):
            self.done[key] = found[i * each : (i + 1) * each]

    def of(self, load: float, name: str) -> list[Outcome]:
        """A system at a load, repetition by repetition."""
        self.need([(load, name)])
        return self.done[load, name]

    def numbers(self, load: float, name: str, number: str) -> list[float]:
        """A number at each repetition."""
        return [outcome.number(number) for outcome in self.of(load, name)]

    def pooled(self, load: float, name: str, number: str) -> Measured:
        """Over the jobs of all repetitions together, with the interval over repetitions."""
        found = self.of(load, name)
        together = Outcome(np.concatenate([one.slowdown for one in found]), sum(one.moves for one in found), 0.0)
        interval = Measured.over_seeds([one.number(number) for one in found]).ci95
        return Measured(together.number(number), interval)
