"""What the stack weft is tried on: the five papers' scenarios, and two weeks of each of four public traces."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from weft.advise.race import SHORTLIST
from weft.scenario.problems import read_toml
from weft.scenario.shipped import scenario_path
from weft.stacks import names, resolve
from weft_evidence.dally.runs import scenario as dally
from weft_evidence.titan.runs import ELASTICFLOW, placers
from weft_evidence.titan.runs import scenario as titan

TWO_WEEKS_S = 14 * 86_400.0
LOAD = 0.9  # the part of its cluster's GPU time that the two weeks of a trace ask for
TITAN_JOBS = 1500  # taken from its trace: 4,096 GPUs are never full, so more jobs would change no ratio
TRACES = {
    "philly": "philly/philly_jobs.csv.gz",
    "helios": "helios/venus_gpu_jobs.csv.gz",
    "acme": "acme/kalos_converted_completed_jobs.csv",
    "pai": "alibaba_pai_2020/pai_tasks_sample.csv.gz",
}
BOUNDS = frozenset({"ideal"})  # gives each job a cluster of its own
POLLUX = frozenset({"pollux", "pollux+cassini"})
RESTLESS = frozenset({"themis", "themis+cassini", "gandiva"})

# Combinations that have done well on some paper's scenario, beside those that `weft advise` tries
COMBINATIONS = (
    "fifo[pace=flow]", "themis+cassini", "pollux+cassini", "sjf/tight", "fifo/tight", "srsf:preemptive/delay/cassini",
    "sjf/lwf:1/none/at-most:1", "las/delay/none/at-most:1", "srsf:preemptive/lwf:1/none/flow",
    "srsf:preemptive/lwf:1/none/tcp:cubic", "srsf:preemptive/tight/none/flow", "srsf/tight/none/flow",
    "srsf:preemptive/tight/none/at-most:1",
)  # fmt: skip
EXCLUSIVE = ("fifo-backfill", "fifo:backfill/tight", "sjf/tight", "srsf/tight", "srsf-tight", "las/delay", "tiresias")


@dataclass(frozen=True)
class Trial:
    """A scenario at each seed, what it is held to first, and who else takes part.

    `own` is the paper's own method, or on a trace what most sites run. `smaller` makes the scenario on which the best
    other stack is looked for, where the whole would take hours.
    """

    own: str
    scenario: Callable[[int], dict[str, Any]]
    rivals: Callable[[], list[str]]
    smaller: Callable[[int], dict[str, Any]] | None = None
    slow: bool = False
    trace: str = ""


def everybody(days: bool = False, elastic: bool = False) -> list[str]:
    """All named stacks and the shortlist. Where jobs last for `days`, stacks that let jobs share GPUs are left out,
    because each iteration of jobs that meet on a GPU is simulated, and so are those that deal GPUs out anew every few
    minutes. Where no job can be resized, Pollux is left out, which searches for sizes."""
    found = dict.fromkeys([*names(), *SHORTLIST, *COMBINATIONS])
    left_out = BOUNDS | {"weft"} | (frozenset() if elastic else POLLUX) | (RESTLESS if days else frozenset())
    return [name for name in found if name not in left_out and not (days and resolve(name).planner.shares_gpus)]


def _on_titans() -> list[str]:
    """Every place, and the shortlist: no job waits on that scenario, so orders make no difference."""
    placed = [f"fifo[place={name}]" for name in placers(TITAN_JOBS)]
    return [*placed, "titan", "hived", "elasticflow", *EXCLUSIVE]


def _shipped(name: str, seed: int) -> dict[str, Any]:
    return dict(read_toml(scenario_path(name)))


def _titan(seed: int) -> dict[str, Any]:
    made = titan("trace-1", quick=False)
    made["workload"]["jobs"] = TITAN_JOBS
    return made


@cache
def _submitted(path: Path) -> pl.DataFrame:
    from weft.workload.traces.reading import read

    return read(path).frame.select("submit_s", "gpus", "duration_s")


def two_weeks(file: str, seed: int) -> dict[str, Any]:
    """Two weeks of a trace, chosen by the seed, on a cluster of 8-GPU machines with racks oversubscribed 4:1.

    The cluster is as large as a load of 0.9 needs, and at least as large as the largest job. Windows of several seeds
    may overlap.
    """
    jobs = _submitted(Path(os.environ["WEFT_TRACES"]) / file)
    first, last = float(jobs["submit_s"].min()), float(jobs["submit_s"].max())  # type: ignore[arg-type]
    start = first + (seed * (math.sqrt(5.0) - 1.0) / 2.0) % 1.0 * (last - first - TWO_WEEKS_S)
    window = jobs.filter((pl.col("submit_s") >= start) & (pl.col("submit_s") < start + TWO_WEEKS_S))
    busy = float((window["gpus"] * window["duration_s"]).sum()) / TWO_WEEKS_S
    gpus = max(busy / LOAD, float(window["gpus"].max()))  # type: ignore[arg-type]
    return {
        "cluster": {
            "topology": "leaf-spine", "racks": max(2, math.ceil(gpus / 32)), "servers_per_rack": 4,
            "gpus_per_server": 8, "gpu": "V100", "gpu_memory_gb": 32, "nic_gbps": 25, "oversubscription": 4.0,
            "intra_server_gbps": 300,
        },
        "workload": {
            "source": "trace", "trace": file, "from_s": start, "until_s": start + TWO_WEEKS_S,
            "jobs": window.height, "pick": "random", "models": ["vgg16", "resnet50", "inception-v3", "lstm-ptb"],
        },
        "run": {"exact": False, "restart_s": 30},
    }  # fmt: skip


def missing(trial: Trial) -> bool:
    """Whether a trial needs a trace that is not there."""
    store = os.environ.get("WEFT_TRACES")
    return bool(trial.trace) and (store is None or not (Path(store) / trial.trace).exists())


def _of_paper(name: str, own: str) -> Trial:
    return Trial(own, partial(_shipped, name), everybody)


TRIALS: dict[str, Trial] = {
    "ada-srsf": _of_paper("ada-srsf", "ada-srsf"),
    "ada-srsf-16gb": _of_paper("ada-srsf-16gb", "ada-srsf"),
    "ada-srsf-no-limit": _of_paper("ada-srsf-no-limit", "ada-srsf"),
    "cassini": Trial("themis+cassini", partial(_shipped, "cassini"), partial(everybody, elastic=True)),
    "flows": _of_paper("flows", "fifo[pace=flow]"),
    "dally": Trial(
        "dally", partial(dally, "batch-8"), partial(everybody, days=True),
        lambda seed: dally("batch-8", seed, quick=True), slow=True,
    ),
    "titan": Trial("titan", _titan, _on_titans, slow=True, trace=ELASTICFLOW),
    **{
        name: Trial(
            "fifo-backfill", partial(two_weeks, file), lambda: list(EXCLUSIVE), slow=True, trace=file,
        )
        for name, file in TRACES.items()
    },
}  # fmt: skip
