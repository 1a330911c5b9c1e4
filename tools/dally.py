"""Prints the tables of docs/papers/dally.md that go beyond the paper: python -m tools.dally [contention|timers]"""

from __future__ import annotations

import sys

from weft.papers.claims import Runs
from weft.papers.dally_beyond import METRICS, contention, rows, timer_rules

SEEDS = (0, 1, 2)


def table(runs: Runs, first: str) -> str:
    """Metrics of each stack in thousands of seconds, and in brackets over those of the first."""
    lines = ["| stack | " + " | ".join(METRICS) + " |", "|---|" + "---:|" * len(METRICS)]
    for row in rows(runs, first):
        cells = [f"{row[m][0] / 1e3:,.1f} ({row[m][1]:.2f})" for m in METRICS]
        lines.append(f"| `{row['stack']}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run what is asked for, or both."""
    asked = sys.argv[1:] or ["contention", "timers"]
    if "timers" in asked:
        runs = timer_rules(SEEDS, workers=1)
        print(table(runs, next(iter(runs.by_stack))), flush=True)
    if "contention" in asked:
        for links, runs in contention(SEEDS, workers=1).items():
            print(f"\n{links}\n")
            print(table(runs, "tiresias"), flush=True)


if __name__ == "__main__":
    main()
