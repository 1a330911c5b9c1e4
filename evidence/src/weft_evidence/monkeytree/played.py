"""One run of MonkeyTree's jobs under a stack, and what is kept of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft.runs.run import Task
from weft.scenario.build import build
from weft_evidence.monkeytree import jobs as generator

if TYPE_CHECKING:
    from weft.results.run import RunResult

Floats = npt.NDArray[np.float64]

# What is kept of a run is found by the sources that it was made with; those of weft are counted elsewhere.
SOURCES = hashlib.sha256(b"".join(Path(str(file)).read_bytes() for file in (generator.__file__, __file__))).hexdigest()


@dataclass(frozen=True)
class Outcome:
    """Slowdowns by job, how often jobs were stopped for moves, and the seconds that the run took."""

    slowdown: Floats
    moves: int
    wall_s: float

    @staticmethod
    def of(said: Mapping[str, Any]) -> Outcome:
        """What `play` said."""
        return Outcome(np.array(said["slowdown"]), said["moves"], said["wall_s"])

    def number(self, name: str) -> float:
        """mean, p90 or p99 slowdown, or moves."""
        if name == "moves":
            return float(self.moves)
        return float(self.slowdown.mean() if name == "mean" else np.quantile(self.slowdown, float(name[1:]) / 100.0))


def task_part(load: float, repetition: int, jobs: int) -> tuple[float | str, ...]:
    """What tells a run from others of its scenario and stack."""
    return ("monkeytree", SOURCES[:16], load, repetition, jobs)


def play(task: Task) -> dict[str, Any]:
    """One run of a task, whose part says load, repetition, and how many jobs."""
    from weft.runs.prepare import compile_kernels
    from weft.sim import simulate

    load, repetition, jobs = (float(word) for word in task.part[2:])
    made = build(task.scenario, task.seed, task.layers)
    compile_kernels(None, [made.stack])
    seed = generator.seed_of(load, int(repetition))
    drawn = generator.draw(seed, load, made.cluster.n_gpus, int(jobs))
    run = simulate(made.cluster, generator.jobs_of(drawn), made.stack, made.network, made.run)
    moves = int(run.jobs["preemptions"].sum())
    return {"slowdown": slowdowns(run).tolist(), "moves": moves, "wall_s": run.wall_s}


def slowdowns(run: RunResult) -> Floats:
    """(end - start) / what the iterations take alone, job by job: waiting in the queue is not counted, pauses are."""
    done = run.jobs.filter(run.jobs["finish_s"].is_not_null())
    rows = done.select("model", "gpus", "iterations", "start_s", "finish_s").iter_rows()
    kinds = generator.BY_NAME
    return np.array([(end - start) / (n * kinds[kind].alone_s(gpus)) for kind, gpus, n, start, end in rows])
