"""Compare two schedulers from Python and look at the frames."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import weft


def main() -> None:
    """Which jobs does shortest-remaining-first favour?"""
    scenario = Path(__file__).parent / "demo.toml"
    result = weft.compare(scenario, stacks=["fifo", "srsf"], seeds=2)
    by_size = result.jobs.group_by("gpus", "stack").agg(pl.col("jct_s").mean()).sort("gpus", "stack")
    for gpus, stack, jct_s in by_size.iter_rows():
        print(f"{gpus:2d} GPUs  {stack:5s}  mean JCT {jct_s:8.1f} s")


if __name__ == "__main__":  # compare starts worker processes, which import this file
    main()
