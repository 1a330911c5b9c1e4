"""Prints the controls and the tables beyond the paper of docs/papers/dally.md.

python -m weft_evidence.dally.experiments
[claims|contention|gandiva|latencies|leases|moves|order|queues|quick|released|sooner|table-i|timers|
tiresias|together|two-racks]

`claims` runs the reproduction over three seeds instead, and writes docs/papers/dally/claims.json: all of it, or of
`claims EXPERIMENT...` (batch-8, poisson-4, ...) the claims that need no other experiment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from weft.results.metrics import summary
from weft.runs.kept import kept
from weft_evidence import claims_of, reproduce
from weft_evidence.claims import Measured, Request, Runs
from weft_evidence.dally import RELEASED_II, RELEASED_III
from weft_evidence.dally.beyond import (
    BESIDE,
    CONTENDING,
    GANDIVAS,
    LATENCIES,
    LEASED,
    LEASES,
    METRICS,
    MOVES,
    ORDERS,
    QUEUES,
    RULES,
    TIRESIASES,
    TWO_RACKS,
    beside,
    contention,
    ended,
    longest,
    rows,
)
from weft_evidence.dally.runs import POISSON
from weft_evidence.dally.shapes import ASTRA_SIM
from weft_evidence.dally.table_i import eight_units, table_i
from weft_evidence.pages import ROOT, asked_for, write_claims

FOLDER = ROOT / "docs" / "papers" / "dally"
SEEDS = (0, 1, 2)
MANY, TWENTY, THIRTY = range(10), range(20), range(30)  # where a run takes a second
FIVE = range(5)  # where a run takes minutes
JCT = ("jct_mean_s", "jct_median_s", "jct_p95_s", "jct_p99_s")


def table(runs: Runs, first: str) -> str:
    """Metrics of each stack in thousands of seconds; in brackets over those of the first, paired by seed, with the 95 %
    interval."""
    lines = ["| stack | " + " | ".join(METRICS) + " |", "|---|" + "---:|" * len(METRICS)]
    for row in rows(runs, first):
        cells = [f"{row[m][0] / 1e3:,.1f} ({_ratio(*row[m][1:])})" for m in METRICS]
        lines.append(f"| `{row['stack']}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def seed_by_seed(runs: Runs) -> str:
    """Completion times of each stack at each seed, in thousands of seconds."""
    lines = ["| stack | " + " | ".join(JCT) + " |", "|---|" + "---:|" * len(JCT)]
    for stack in runs.by_stack:
        cells = [" / ".join(f"{(value or 0.0) / 1e3:,.0f}" for value in runs.values(stack, metric)) for metric in JCT]
        lines.append(f"| `{stack}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def queueing(runs: Runs) -> str:
    """Mean and P95 of queueing of each stack at each seed, in thousands of seconds."""
    lines = ["| stack | mean queueing | P95 queueing |", "|---|---:|---:|"]
    for stack, mine in runs.by_stack.items():
        found = [summary(run)["queueing_s"] for run in mine]
        cells = [" / ".join(f"{each[name] / 1e3:,.0f}" for each in found) for name in ("mean", "p95")]
        lines.append(f"| `{stack}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def over_seeds(runs: Runs) -> str:
    """Completion times of each stack, mean over seeds with the 95 % interval, in thousands of seconds."""
    lines = ["| stack | " + " | ".join(JCT) + " |", "|---|" + "---:|" * len(JCT)]
    for stack in runs.by_stack:
        found = [runs.metric(stack, metric, 1e-3) for metric in JCT]
        cells = [_interval(each, 0) for each in found]
        lines.append(f"| `{stack}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sooner(runs: Runs, within_s: float) -> str:
    """Percent of the jobs that are done sooner than under Tiresias, at the same moment (within so many seconds) and
    later; sooner of those that are not done at the same moment, and of the jobs of more than one GPU: mean over seeds
    with the 95 % interval, and seed by seed. A Tiresias may have been run with fewer seeds, the first ones."""
    lines = [
        f"| beside | stack | sooner | within {within_s:g} s | later | sooner of the others | of more than one GPU |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for other in (each for each in BESIDE if each in runs.by_stack):
        for stack in ORDERS:
            pairs = list(zip(runs.by_stack[stack], runs.by_stack[other], strict=False))
            found = [(*ended(a, b, within_s), ended(a, b, within_s, least_gpus=2)[0]) for a, b in pairs]
            cells = []
            for values in zip(*((s, m, late, 100.0 * s / (s + late), gpus) for s, m, late, gpus in found), strict=True):
                told = " / ".join(f"{each:.1f}" for each in values)
                cells.append(f"{_interval(Measured.over_seeds(values, least=0.0), 1)}: {told}")
            lines.append(f"| `{other}` | `{stack}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def last_percent(runs: Runs) -> str:
    """The jobs of each stack and seed that took longest, one in a hundred, in thousands of seconds."""
    lines = ["| stack | seed | longest |", "|---|---:|---|"]
    for stack, found in runs.by_stack.items():
        for run in found:
            jobs = ", ".join(f"{model} on {gpus}: {jct / 1e3:,.0f}" for model, gpus, jct in longest(run))
            lines.append(f"| `{stack}` | {run.seed} | {jobs} |")
    return "\n".join(lines)


def released() -> str:
    """The authors' code on 8 racks, thousands of seconds, as released and repaired (Gandiva's code does not leak); and
    what their ASTRA-sim exposes of each model, over 4 + 4 GPUs and eight units of one GPU, in percent of computing."""
    statistics = ("mean", "median", "p95", "p99")
    rows = {"batch": RELEASED_II, "Poisson": RELEASED_III}
    lines = ["| 8 racks | as released: mean / median / P95 / P99 | repaired |", "|---|---:|---:|"]
    for words, theirs in rows.items():
        for k, stack in enumerate(("Gandiva", "Tiresias", "Dally-manual", "Dally")):
            both = (" / ".join(f"{theirs[name][k][at]:,}" for name in statistics) for at in (0, 1))
            lines.append(f"| {words}, {stack} | {' | '.join(both)} |")
    lines += ["", "| | machine | rack | racks | 8 machines | 8 racks |", "|---|" + "---:|" * 5]
    for model, row in ASTRA_SIM.items():
        told = (row.machine, row.rack[0], row.network[0], row.rack[1], row.network[1])
        lines.append(f"| {model} | {' | '.join(f'{100.0 * each:,.4g}' for each in told)} |")
    return "\n".join(lines)


def _interval(found: Measured, digits: int) -> str:
    mean, low, high = (f"{each or 0.0:,.{digits}f}" for each in (found.value, *found.ci95))
    return f"{mean} [{low}, {high}]"


def _ratio(mean: float, ci95: tuple[float | None, float | None]) -> str:
    low, high = ci95
    return f"{mean:.2f}" if low is None or high is None or low == high else f"{mean:.2f}, {low:.2f} to {high:.2f}"


def main() -> None:
    """Run what is asked for, or all tables."""
    with kept():  # what is interrupted goes on from the runs that it had finished
        if sys.argv[1:2] == ["claims"]:
            FOLDER.mkdir(parents=True, exist_ok=True)
            request = Request(seeds=len(SEEDS), workers=1, claims=_needing_only(sys.argv[2:]))
            write_claims(reproduce("dally", request).claims, FOLDER)
        else:
            _tables()


def _needing_only(experiments: Sequence[str]) -> tuple[str, ...]:
    """The claims that can be judged by these experiments; none (all claims) if none are named."""
    if not experiments:
        return ()
    needed = {name: {stack.partition("@")[2] for stack in check.stacks} for name, check in claims_of("dally").items()}
    return tuple(name for name, mine in needed.items() if mine <= set(experiments))


def _tables() -> None:
    tables = {
        "moves": (MOVES, "batch-16"), "quick": (MOVES, "batch-8"), "leases": (LEASES, "batch-8"),
        "gandiva": (GANDIVAS, "batch-8"), "timers": (RULES, "batch-8"), "tiresias": (TIRESIASES, "batch-8"),
        "two-racks": (TWO_RACKS, "batch-2"),
    }  # fmt: skip
    asked = asked_for(
        [*tables, "table-i", "sooner", "order", "together", "queues", "latencies", "contention", "released"]
    )
    if "released" in asked:
        print(f"\nreleased\n\n{released()}", flush=True)
    if "table-i" in asked:
        print(f"\ntable-i\n\n{table_i()}", flush=True)
        if "WEFT_ASTRA_SIM" in os.environ:
            print(f"\n{eight_units()}", flush=True)
    for name, (stacks, experiment) in tables.items():
        if name in asked:
            print(f"\n{name}, {experiment}\n")
            seeds = {"tiresias": MANY, "two-racks": MANY, "quick": TWENTY}.get(name, SEEDS)
            runs = beside(stacks, seeds, experiment, name == "quick", workers=1)
            print(table(runs, stacks[0]), flush=True)
            if name == "two-racks":
                print(f"\n{seed_by_seed(runs)}", flush=True)
    if "gandiva" in asked:
        print(f"\ngandiva, batch-8, seeds 0 to {THIRTY[-1]}\n")
        print(over_seeds(beside(GANDIVAS[1:], THIRTY, "batch-8", workers=1)), flush=True)
    if "sooner" in asked:
        print(f"\nsooner, batch-8, seeds 0 to {MANY[-1]} (`{BESIDE[1]}`: to {FIVE[-1]})\n")
        first, last = (
            beside((*ORDERS, BESIDE[0]), MANY, "batch-8", workers=1),
            beside(BESIDE[1:], FIVE, "batch-8", workers=1),
        )
        runs = Runs([*first.of(list(first.by_stack)), *last.of(BESIDE[1:])])
        print(f"{sooner(runs, 0.0)}\n\n{sooner(runs, 60.0)}\n\n{over_seeds(runs)}", flush=True)
        print(f"\nsooner, poisson-8, seeds 0 to {SEEDS[-1]}\n")
        runs = beside((*ORDERS, *BESIDE), SEEDS, "poisson-8", workers=1)
        print(f"{sooner(runs, 0.0)}\n\n{sooner(runs, 60.0)}\n\n{seed_by_seed(runs)}", flush=True)
    if "order" in asked:
        print(f"\norder, batch-16, seeds 0 to {SEEDS[-1]}\n")
        print(queueing(beside((*ORDERS, *BESIDE), SEEDS, "batch-16", workers=1)), flush=True)
    if "together" in asked:
        for experiment, seeds in (("batch-8", MANY), ("poisson-8", range(len(POISSON)))):
            print(f"\ntogether, {experiment}, seeds {seeds[0]} to {seeds[-1]}\n")
            print(over_seeds(beside(LEASED, seeds, experiment, workers=1)), flush=True)
    if "queues" in asked:
        for experiment, seeds in (("batch-8", SEEDS), ("poisson-8", range(len(POISSON)))):
            print(f"\nqueues, {experiment}, seeds {seeds[0]} to {seeds[-1]}\n")
            print(seed_by_seed(beside(QUEUES, seeds, experiment, workers=1)), flush=True)
    if "latencies" in asked:
        for experiment, seeds in (("batch-8-astra-divided", SEEDS), ("poisson-8-astra-divided", range(len(POISSON)))):
            print(f"\nlatencies, {experiment}, seeds {seeds[0]} to {seeds[-1]}\n")
            runs = beside(LATENCIES, seeds, experiment, workers=1)
            print(f"{seed_by_seed(runs)}\n\n{last_percent(runs)}", flush=True)
    if "contention" in asked:
        for links, runs in contention(SEEDS, workers=1).items():
            print(f"\n{links}\n")
            print(table(runs, CONTENDING[0]), flush=True)


if __name__ == "__main__":
    main()
