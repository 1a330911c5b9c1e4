"""Paired comparison of stacks over seeds: what `weft compare --json` prints.

Every stack saw the same workload and routes at a seed, so stacks are compared seed by seed. A metric's interval is
Student's t over seeds: mean +- t(0.975, n - 1) s / sqrt(n). A ratio to the first stack is formed at each seed and the
same interval is taken over those ratios, which removes the spread that the seeds share. No metric can be below 0, so
intervals end there: with few seeds that differ much, t would reach further. Ratios are averaged as they
are, not as logarithms: "mean" is then what it says, and a metric that reaches zero (preemptions) keeps a ratio.

A metric that is undefined at any seed is null, because a mean over the seeds that happened to finish would be another
experiment.

Where the jobs are recorded (a trace, a list), seeds draw no others, and their spread would look like certainty. Then
intervals come from windows of the trace (windows.py); where the trace is one window there is no interval, and
"intervals" says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import InputError
from weft.results.display import duration
from weft.results.windows import FEW, Table, window_intervals, windows_of

if TYPE_CHECKING:
    import polars as pl

# flat name -> path in a summary
METRICS: dict[str, tuple[str, ...]] = {
    "jct_mean_s": ("jct_s", "mean"),
    "jct_median_s": ("jct_s", "median"),
    "jct_p95_s": ("jct_s", "p95"),
    "jct_p99_s": ("jct_s", "p99"),
    "makespan_s": ("makespan_s",),
    "queueing_mean_s": ("queueing_s", "mean"),
    "comm_mean_s": ("comm_s", "mean"),
    "iteration_mean_s": ("iteration_s", "mean"),
    "iteration_p99_s": ("iteration_s", "p99"),
    "gpu_utilisation": ("gpu_utilisation",),
    "foreign_gbps": ("foreign_gbps",),
    "preemptions": ("preemptions",),
}

Value = float | None
_ONE_SEED = "one seed: no intervals"


def compare(
    summaries: Mapping[str, Sequence[Mapping[str, Any]]],
    bins: Mapping[str, Sequence[Table]] | None = None,
    jobs: Mapping[str, Sequence[pl.DataFrame]] | None = None,
) -> dict[str, Any]:
    """Stacks side by side from {stack: [summary of each seed]}; the first stack is what the ratios refer to.

    `bins` (and `jobs`, for percentiles) are given where the jobs are recorded: intervals are then over windows.
    """
    seeds = _common_seeds(summaries)
    by_stack = {
        stack: [flat_metrics(s) for s in sorted(runs, key=lambda s: seeds.index(s["seed"]))]
        for stack, runs in summaries.items()
    }
    first = next(iter(by_stack.values()))
    scenario = next(iter(summaries.values()))[0]["scenario"]
    result = {
        "scenario": scenario,
        "seeds": seeds,
        "intervals": {"over": "seeds" if len(seeds) > 1 else None, "note": "" if len(seeds) > 1 else _ONE_SEED},
        "stacks": [
            {
                "stack": stack,
                "metrics": {m: mean_and_interval([run[m] for run in runs], least=0.0) for m in METRICS},
                "ratio_to_first": {
                    m: mean_and_interval(
                        [_ratio(run[m], base[m]) for run, base in zip(runs, first, strict=True)], least=0.0
                    )
                    for m in METRICS
                },
            }
            for stack, runs in by_stack.items()
        ],
    }
    if bins is not None:
        same = all(run == runs[0] for runs in by_stack.values() for run in runs)
        _over_windows(result, bins, jobs, same)
    return result


def _over_windows(
    result: dict[str, Any],
    bins: Mapping[str, Sequence[Table]],
    jobs: Mapping[str, Sequence[pl.DataFrame]] | None,
    same: bool,
) -> None:
    """Replace intervals over seeds by those over windows."""
    windows = windows_of(next(iter(bins.values()))[0])
    n = len(result["seeds"])
    seeds = "" if n == 1 else f"; the {n} seeds gave the same result" if same else f"; {n} seeds"
    many = windows.count > 1
    if many:
        rough = f"; fewer than {FEW} windows give a rough interval" if windows.count < FEW else ""
        note = f"intervals over {windows.count} windows of {duration(windows.length_s)}{seeds}{rough}"
    elif windows.span_s < 1e-6:
        note = f"the recorded jobs all come at once, so there is no interval{seeds}"
    else:
        note = f"the recorded jobs are one window of {duration(windows.length_s)}, so there is no interval{seeds}"
    result["intervals"] = {
        "over": "windows" if many else None, "windows": windows.count, "window_s": windows.length_s,
        "seeds_differ": not same, "note": note,
    }  # fmt: skip
    found = window_intervals(bins, jobs, windows) if many else {}
    for entry in result["stacks"]:
        for part in ("metrics", "ratio_to_first"):
            for name, value in entry[part].items():
                known = found.get(entry["stack"], {}).get(part, {}).get(name, [None, None])
                value["ci95"] = [None, None] if value["mean"] is None else known


def flat_metrics(summary: Mapping[str, Any]) -> dict[str, Value]:
    """The compared metrics of one summary, by flat name."""
    flat: dict[str, Value] = {}
    for name, path in METRICS.items():
        value: Any = summary
        for key in path:
            value = value[key]
        flat[name] = None if value is None else float(value)
    return flat


def mean_and_interval(
    values: Sequence[Value], least: float = -math.inf, independent: int | None = None
) -> dict[str, Any]:
    """Mean and 95 % Student t interval, cut off at the `least` value there can be; nulls when undefined (the interval
    needs two values). At most `independent` values count for its width, if the others overlap with them."""
    numbers = [v for v in values if v is not None and math.isfinite(v)]
    n = len(numbers)
    if n == 0 or n < len(values):
        return {"mean": None, "ci95": [None, None]}
    mean = math.fsum(numbers) / n
    apart = n if independent is None else min(n, independent)
    if apart < 2:
        return {"mean": mean, "ci95": [None, None]}
    from scipy.special import stdtrit  # inverse of Student's t distribution

    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in numbers) / (n - 1))
    half = float(stdtrit(apart - 1, 0.975)) * deviation / math.sqrt(apart)
    return {"mean": mean, "ci95": [max(mean - half, least), mean + half]}


def _ratio(value: Value, base: Value) -> Value:
    if value is None or base is None or base == 0.0:
        return None
    return value / base


def _common_seeds(summaries: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[int]:
    if not summaries or not all(summaries.values()):
        raise InputError("compare: no runs to compare; give every stack at least one seed")
    seeds = [int(s["seed"]) for s in next(iter(summaries.values()))]
    if len(set(seeds)) < len(seeds):
        raise InputError(f"compare: seeds {seeds} repeat one; each run of a stack needs its own seed")
    for stack, runs in summaries.items():
        theirs = [int(s["seed"]) for s in runs]
        if sorted(theirs) != sorted(seeds):
            raise InputError(f"compare: stack {stack} ran seeds {theirs}, not {seeds}; give every stack the same seeds")
    return seeds
