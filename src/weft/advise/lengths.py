"""How long jobs would run without the delays that the network adds.

The recorded length of a job contains its communication on the cluster that it ran on. If the simulation took it for the
length of the job alone, the simulated network would stretch it a second time, and a log that kept a cluster busy would
flood the simulated one. So recorded lengths are fitted: the jobs of a window are simulated under what the site runs
today, each job's length is changed so that it would run as long as recorded, and this is repeated until the jobs of the
window together run as long as recorded. Jobs then become shorter under a stack that uses the network less than today's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from weft.advise.site import ANY
from weft.runs.run import Task, run_task
from weft.scenario import Scenario
from weft.scenario.build import Layers
from weft.scenario.changes import changed
from weft.workload.traces.reading import read, write

PASSES = 5  # runs of a window at most, of which the nearest to what is recorded counts
NEAR = 0.05  # a run is near enough if its GPU time is within this part of what is recorded
# Shorter jobs meet fewer others on the network, which stretches them less: whole steps go back and forth.
STEP = 0.5
LEAST = 0.01  # a job keeps at least this part of its length


def to_fit(scenario: Scenario, stack: str, seed: int) -> Task:
    """A window whose trace has recorded lengths, under what the site runs today."""
    return Task(scenario, Layers(stack), seed, part=("fit",))


def fit(task: Task) -> dict[str, float]:
    """For each job, the part of its recorded length that is its own."""
    trace = read(Path(str(task.scenario.workload.trace)))
    recorded = dict(zip(trace.frame["job_id"], trace.frame["duration_s"], strict=True))
    parts = dict.fromkeys(recorded, 1.0)
    best = dict(parts)
    least = math.inf
    with TemporaryDirectory() as folder:
        for i in range(PASSES):
            file = Path(folder) / f"{i}.parquet"
            write(replace(trace, frame=shortened(trace.frame, parts)), file)
            run = run_task(replace(task, scenario=changed(task.scenario, {"workload.trace": str(file)})))
            off = abs(math.log(max(run_over_recorded(run.jobs, trace.frame), 1e-9)))
            if off < least:
                least, best = off, dict(parts)
            if off < NEAR:
                break
            for job, run_s in zip(run.jobs["job_id"], run.jobs["run_s"], strict=True):
                parts[job] = min(1.0, max(LEAST, parts[job] * (recorded[job] / max(run_s, 1e-9)) ** STEP))
    return best


def shortened(frame: pl.DataFrame, parts: Mapping[str, float]) -> pl.DataFrame:
    """The jobs with fitted lengths; a job without a fit keeps its length."""
    part = frame["job_id"].replace_strict(dict(parts), default=1.0, return_dtype=pl.Float64)
    return frame.with_columns((pl.col("duration_s") * part).alias("duration_s"))


def elsewhere(frame: pl.DataFrame, faster: Mapping[str, float]) -> pl.DataFrame:
    """The jobs with the lengths that they have on other GPUs: for each model the part of its length here."""
    if not faster:
        return frame
    part = frame["model"].replace_strict(dict(faster), default=faster.get(ANY, 1.0), return_dtype=pl.Float64)
    return frame.with_columns((pl.col("duration_s") * part).alias("duration_s"))


def run_over_recorded(run: pl.DataFrame, recorded: pl.DataFrame) -> float:
    """GPU time of the jobs of a run over what is recorded for them."""
    jobs = run.select("job_id", "run_s").join(recorded.select("job_id", "gpus", "duration_s"), on="job_id")
    spent = float((jobs["run_s"] * jobs["gpus"]).sum())
    return spent / max(float((jobs["duration_s"] * jobs["gpus"]).sum()), 1e-9)
