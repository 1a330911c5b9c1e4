"""Prints the tables of docs/papers/dally.md beyond the paper: python -m tools.dally [contention|orders|timers]"""

from __future__ import annotations

import sys

from weft.research.claims import Runs
from weft.research.dally.beyond import METRICS, contention, orders, rows, timer_rules

SEEDS = (0, 1, 2)


def table(runs: Runs, first: str) -> str:
    """Metrics of each stack in thousands of seconds; in brackets over those of the first, paired by seed, with the 95 %
    interval."""
    lines = ["| stack | " + " | ".join(METRICS) + " |", "|---|" + "---:|" * len(METRICS)]
    for row in rows(runs, first):
        cells = [f"{row[m][0] / 1e3:,.1f} ({_ratio(*row[m][1:])})" for m in METRICS]
        lines.append(f"| `{row['stack']}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ratio(mean: float, ci95: tuple[float | None, float | None]) -> str:
    low, high = ci95
    return f"{mean:.2f}" if low is None or high is None or low == high else f"{mean:.2f}, {low:.2f} to {high:.2f}"


def main() -> None:
    """Run what is asked for, or all."""
    asked = sys.argv[1:] or ["contention", "orders", "timers"]
    if "orders" in asked:
        for experiment in ("batch-8", "poisson-8"):
            print(f"\n{experiment}\n")
            print(table(orders(SEEDS, experiment, workers=1), "tiresias"), flush=True)
    if "timers" in asked:
        runs = timer_rules(SEEDS, workers=1)
        print(table(runs, next(iter(runs.by_stack))), flush=True)
    if "contention" in asked:
        for links, runs in contention(SEEDS, workers=1).items():
            print(f"\n{links}\n")
            print(table(runs, "tiresias"), flush=True)


if __name__ == "__main__":
    main()
