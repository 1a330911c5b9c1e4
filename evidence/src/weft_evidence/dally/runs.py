"""The cluster runs of the Dally paper: 500 jobs at once or 411 over a week, on 2 to 16 racks.

A run is named `stack@experiment`: `dally@batch-8` is Dally on the batch with 8 racks, `dally@poisson-4` on Poisson
arrivals with 4, `...-links` the same over links that jobs share (`-slow-links`: of 25 instead of 400 Gbit/s) and
`...-shapes` with costs by the shape of a placement instead of Table I (`-astra`: those that the authors' ASTRA-sim
gives; `-astra-divided`: and the GPUs of a job share its duration, as in the authors' simulator). Seed 0 is the authors'
own file where WEFT_TRACES has it; other seeds draw as many jobs from it (batch), or take another of the five files
(Poisson). Without it, jobs are drawn from its published figures. Seeds 3 and 4 are files of the authors in which jobs
arrive differently.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.scenario.problems import read_toml
from weft.scenario.shipped import scenario_path
from weft_evidence.claims import Request, Runs
from weft_evidence.settings import run_stacks

if TYPE_CHECKING:
    from weft.results.run import RunResult

RACKS = (2, 4, 8, 16)
QUARTER, QUARTER_JOBS = 4, 125
GANDIVA = "gandiva:14400"  # slices of four hours: the jobs run for days
BATCH = "dally/jobs/sense_500jobs_0start-withBert.json.gz"
POISSON = tuple(
    f"dally/jobs/sense_500jobs_poisson_{name}.json.gz"
    for name in ("1proc-week", "1proc-week2", "1proc-week3", "3proc-week", "3proc-day")
)  # of 411 jobs each; three seeds are the default, so claims are judged on the first three
_MODELS = {
    "bert-large": 125.0, "mobilenet-v3": 125.0, "resnet50": 125.0, "alexnet": 53.0, "resnet18": 38.0, "vgg11": 34.0,
}  # fmt: skip
_SIZES = {1: 270.0, 2: 13.0, 4: 52.0, 8: 109.0, 16: 42.0, 32: 11.0, 40: 1.0, 48: 1.0, 56: 1.0}
_POISSON_SIZES = {2: 41.0, 4: 97.0, 8: 190.0, 16: 56.0, 32: 23.0, 40: 2.0, 48: 1.0, 56: 1.0}
_LENGTHS = {"duration_median_s": 55_975.0, "duration_sigma": 1.018}  # mean 93,988 s
_WEEK_GPUS = 833.0  # GPUs that the Poisson jobs keep busy while they come


def has_files() -> bool:
    """Whether the authors' job files are there."""
    store = os.environ.get("WEFT_TRACES")
    return store is not None and all((Path(store) / name).exists() for name in (BATCH, *POISSON))


def scenario(experiment: str, seed: int, files: bool | None = None, quick: bool = False) -> dict[str, Any]:
    """The scenario of an experiment (`batch-8`, `poisson-16`, `batch-8-links`, ...) at a seed.

    Quick: a quarter of the batch on a quarter of the racks, of which there must be 4 at least.
    """
    arrival, racks, *rest = experiment.split("-")
    made = deepcopy(read_toml(scenario_path("dally")))
    made["cluster"]["racks"] = int(racks)
    made["workload"] = _workload(arrival, 64 * int(racks), seed, has_files() if files is None else files)
    if quick and arrival == "batch":
        made["cluster"]["racks"] = int(racks) // QUARTER
        made["workload"]["jobs"] = QUARTER_JOBS
    if rest == ["shapes"]:
        made["network"]["table"] = "dally-by-shape"
    elif rest[:1] == ["astra"]:
        made["network"]["table"] = "dally-astra-sim"
        if rest[1:] == ["divided"]:
            made["workload"]["reading"] = "one-gpu"
    elif rest:  # contention: bytes over links, uplinks of a rack a quarter of what its machines can send
        made["cluster"] |= {"oversubscription": 4, "nic_gbps": 25 if "slow" in rest else 400}
        made["network"] = {"cost": "links", "sharing": "max-min"}
        made["workload"]["overlap"] = True
        made["run"] = {**made.get("run", {}), "exact": False}
    return made


def quarter_words(text: str) -> str:
    """The name or the words of a claim about the batch as they are when a quarter of it is run."""

    def words(found: re.Match[str]) -> str:
        before, racks, between = found.groups()
        number = int(racks) // QUARTER
        if before == "batch on ":
            before = f"{QUARTER_JOBS} jobs at once on "
        else:
            before = f".{QUARTER_JOBS}-jobs-"
        return f"{before}{number}{between}rack{'s' * (number != 1)}"

    return re.sub(r"(batch on |\.)(\d+)([ -])racks", words, text)


def _workload(arrival: str, n_gpus: int, seed: int, files: bool) -> dict[str, Any]:
    if arrival == "batch":
        if not files:
            return {"source": "batch", "jobs": 500, "reading": "compute", "models": _MODELS, "gpus": _SIZES, **_LENGTHS}
        if seed == 0:
            return {"source": "trace", "trace": BATCH, "reading": "compute"}
        return {"source": "batch", "jobs": 500, "draw_from": BATCH, "reading": "compute"}
    if files:
        return {"source": "trace", "trace": POISSON[seed % len(POISSON)], "reading": "compute"}
    return {
        "source": "poisson", "jobs": 411, "load": _WEEK_GPUS / n_gpus, "reading": "compute", "models": _MODELS,
        "gpus": _POISSON_SIZES, **_LENGTHS,
    }  # fmt: skip


def run_experiments(
    needed: Mapping[str, Mapping[str, None]], seeds: Sequence[int], request: Request
) -> dict[str, Runs]:
    """Run every `stack@experiment` that is needed, seed by seed; results carry that name."""
    done: dict[str, Runs] = {}
    total = len(seeds) * sum(map(len, needed.values()))
    before = 0
    for paper, names in needed.items():
        runs: list[RunResult] = []
        experiments: dict[str, list[str]] = {}
        for name in names:
            stack, _, experiment = name.partition("@")
            experiments.setdefault(experiment, []).append(stack)
        for experiment, stacks in experiments.items():
            for seed in seeds:

                def tell(count: int, of: int, before: int = before) -> None:
                    if request.on_progress is not None:
                        request.on_progress(before + count, total)

                found = run_stacks(request, scenario(experiment, seed, quick=request.quick), stacks, [seed], tell)
                runs += [replace(run, stack=f"{run.stack}@{experiment}") for run in found]
                before += len(stacks)
        done[paper] = Runs(runs)
    return done


def timers_over_time(racks: int, gpus: int, seed: int = 0) -> list[tuple[float, float, float]]:
    """Time, machine timer and rack timer of a GPU demand under `dally`, whenever they change (Figure 4)."""
    from weft.core.cycle import Core
    from weft.core.loop import run
    from weft.scenario import Scenario
    from weft.scenario.build import build
    from weft.sim.world import SimWorld
    from weft.stacks import resolve

    given = Scenario.load(scenario(f"batch-{racks}", seed))
    made = build(given, seed)
    world = SimWorld(made.cluster, made.workload.jobs, made.network, made.run)
    core = Core(resolve("dally"), world, seed)
    found: list[tuple[float, float, float]] = []

    def note(now: float, core: Core) -> None:
        tuned = core.planner_state["place"]["tuned"].get(str(gpus))
        if tuned is not None and (not found or found[-1][1:] != (tuned[0], tuned[1])):
            found.append((now, tuned[0], tuned[1]))

    run(core, world, on_progress=note)
    world.close()
    return found
