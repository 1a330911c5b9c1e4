"""Paired comparison of stacks over seeds: what `weft compare --json` prints.

Every stack saw the same workload and routes at a seed, so stacks are compared seed by seed. A metric's interval is
Student's t over seeds: mean +- t(0.975, n - 1) s / sqrt(n). A ratio to the first stack is formed at each seed and the
same interval is taken over those ratios, which removes the spread that the seeds share. No metric can be below 0, so
intervals end there: with few seeds that differ much, t would reach further. Ratios are averaged as they
are, not as logarithms: "mean" is then what it says, and a metric that reaches zero (preemptions) keeps a ratio.

A metric that is undefined at any seed is null: a mean over the seeds that happened to finish is another experiment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import InputError

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
    "preemptions": ("preemptions",),
}

Value = float | None


def compare(summaries: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Stacks side by side from {stack: [summary of each seed]}; the first stack is what the ratios refer to."""
    seeds = _common_seeds(summaries)
    by_stack = {
        stack: [flat_metrics(s) for s in sorted(runs, key=lambda s: seeds.index(s["seed"]))]
        for stack, runs in summaries.items()
    }
    first = next(iter(by_stack.values()))
    scenario = next(iter(summaries.values()))[0]["scenario"]
    return {
        "scenario": scenario,
        "seeds": seeds,
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


def flat_metrics(summary: Mapping[str, Any]) -> dict[str, Value]:
    """The compared metrics of one summary, by flat name."""
    flat: dict[str, Value] = {}
    for name, path in METRICS.items():
        value: Any = summary
        for key in path:
            value = value[key]
        flat[name] = None if value is None else float(value)
    return flat


def mean_and_interval(values: Sequence[Value], least: float = -math.inf) -> dict[str, Any]:
    """Mean and 95 % Student t interval, cut off at the `least` value there can be; nulls when undefined (the interval
    needs two values)."""
    numbers = [v for v in values if v is not None and math.isfinite(v)]
    n = len(numbers)
    if n == 0 or n < len(values):
        return {"mean": None, "ci95": [None, None]}
    mean = math.fsum(numbers) / n
    if n == 1:
        return {"mean": mean, "ci95": [None, None]}
    from scipy.special import stdtrit  # inverse of Student's t distribution

    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in numbers) / (n - 1))
    half = float(stdtrit(n - 1, 0.975)) * deviation / math.sqrt(n)
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
