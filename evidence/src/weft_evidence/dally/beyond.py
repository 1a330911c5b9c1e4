"""Beyond the Dally paper: jobs that contend for links, a timer rule that learns from what waiting brought, and what
leases, moves, order and timers are worth, changed one at a time.

`python -m weft_evidence.dally.experiments` runs all and prints the tables of docs/papers/dally.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft_evidence.claims import Runs
from weft_evidence.dally.runs import GANDIVA, scenario

if TYPE_CHECKING:
    from weft.results.run import RunResult

METRICS = ("makespan_s", "jct_mean_s", "jct_median_s", "jct_p95_s", "jct_p99_s", "queueing_mean_s", "comm_mean_s")
TOGETHER = "order=nw-sens:together"  # all leases end at the same moment, so that everybody is on offer at once
CONTENDING = (
    "tiresias:together", GANDIVA,
    *(f"{name}[{TOGETHER}]" for name in ("dally", "dally-nowait", "dally-consolidated", "dally-benefit")),
)  # fmt: skip
# Dally and Tiresias with leases of their own and with leases that end together, and Dally with other timers.
LEASES = (
    "dally", f"dally[{TOGETHER}]", "dally-manual", "dally-consolidated", "dally-nowait", "tiresias",
    "tiresias:together", "tiresias-racks", GANDIVA,
)  # fmt: skip
# What Dally gains over Tiresias, one step at a time: jobs move when leases end, Nw_sens, timers.
MOVES = (
    "tiresias-racks", "tiresias-racks[order=las:moving]", "dally-nowait[order=nw-sens:staying]", "dally-nowait",
    "dally", "dally-consolidated",
)  # fmt: skip
# Gandiva as it is, and without time slices and moves.
GANDIVAS = (GANDIVA, "gandiva[order=fifo:backfill]")
# Tiresias without preemption: nobody passes a job that waits, or those that fit do.
TIRESIASES = ("tiresias[order=fifo]", "tiresias[order=fifo:backfill]")
# Strict queues, in which nobody passes a job that waits and nobody is stopped; and the shortest job first.
QUEUES = (
    "gandiva[order=fifo]", "gandiva[order=sjf]", "gandiva[order=sjf,place=first-fit]", "dally[order=fifo]",
    "dally-manual[order=fifo]",
)  # fmt: skip
# Dally whose leases end together, on its own and beside a Gandiva without time slices and moves (2 racks).
LEASED = (f"dally[{TOGETHER}]", f"dally-manual[{TOGETHER}]")
TWO_RACKS = (GANDIVAS[1], LEASED[0])
# Figure 9: Dally, and Dally with least attained service instead of Nw_sens, beside both kinds of Tiresias.
ORDERS, BESIDE = ("dally", "dally[order=las:moving]"), ("tiresias-racks", "tiresias")
# Gandiva with the latencies of the authors' ASTRA-sim: a strict queue, one that may be passed, and time slices.
LATENCIES = ("gandiva[order=fifo]", "gandiva[order=fifo:backfill]", GANDIVA)
# The rules alone, without preemption, and under Dally's order with leases that end together.
RULES = tuple(
    f"dally[{order},place=delay{rule}]"
    for order in ("order=fifo:backfill", TOGETHER)
    for rule in (":no-wait", ":manual", "", ":consolidated", ":benefit")
)


def contention(seeds: Sequence[int], jobs: int = 60, racks: int = 2, workers: int | None = None) -> dict[str, Runs]:
    """Stacks on the first jobs of the batch, with links of 400 and of 25 Gbit/s that jobs share."""
    found = {}
    for links in ("links", "slow-links"):
        runs: list[RunResult] = []
        for seed in seeds:
            given = scenario(f"batch-{racks}-{links}", seed)
            given["workload"]["jobs"] = jobs
            runs += _compare(given, CONTENDING, seed, workers)
        found[links] = Runs(runs)
    return found


def beside(
    stacks: Sequence[str], seeds: Sequence[int], experiment: str, quick: bool = False, workers: int | None = None
) -> Runs:
    """Stacks on the same seeds of an experiment, Table I costs. Quick: on a quarter of it."""
    runs: list[RunResult] = []
    for seed in seeds:
        runs += _compare(scenario(experiment, seed, quick=quick), stacks, seed, workers)
    return Runs(runs)


def ended(run: RunResult, other: RunResult, within_s: float = 0.0, least_gpus: int = 1) -> tuple[float, float, float]:
    """Percent of the jobs (of so many GPUs at least) that end sooner than in another run, at the same moment (or so
    close to it), and later."""
    from weft.results.metrics import finished_jobs

    both = finished_jobs(run).join(finished_jobs(other), on="job_id", suffix="_other")
    both = both.filter(both["gpus"] >= least_gpus)
    apart = (both["jct_s"] - both["jct_s_other"]).to_numpy()
    sides = (apart < -within_s, np.abs(apart) <= within_s, apart > within_s)
    sooner, same, later = (100.0 * float(np.mean(side)) for side in sides)
    return sooner, same, later


def longest(run: RunResult, share: float = 0.01) -> list[tuple[str, int, float]]:
    """Model, GPUs and completion time of that share of the jobs which took longest (one at least), longest first."""
    jobs = run.jobs.sort("jct_s", descending=True, nulls_last=True)
    found = jobs.head(max(1, round(share * len(jobs)))).select("model", "gpus", "jct_s")
    return [(str(model), int(gpus), float(jct)) for model, gpus, jct in found.iter_rows()]


def rows(runs: Runs, first: str) -> list[dict[str, Any]]:
    """For each stack its metrics, and the ratios to those of `first` at the same seed, as mean and interval."""
    found: list[dict[str, Any]] = []
    for stack in runs.by_stack:
        row: dict[str, Any] = {"stack": stack}
        for metric in METRICS:
            ratio = runs.ratio(stack, first, metric)
            row[metric] = (runs.metric(stack, metric).value, ratio.value, ratio.ci95)
        found.append(row)
    return found


def _compare(given: dict[str, Any], stacks: Sequence[str], seed: int, workers: int | None) -> Sequence[RunResult]:
    from weft import api

    return api.compare(given, list(stacks), [seed], workers=workers).runs
