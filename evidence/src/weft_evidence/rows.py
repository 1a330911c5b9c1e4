"""Claims that a paper's package writes as rows of TOML: orders, bounds and savings, over runs that others need too.

    [[check]]
    name = "order.table-iv.median"
    what = "Table IV: LWF-1 < RAND < LS < FF by median JCT"
    metric = "jct_median_s"
    order = ["LWF-1", "RAND", "LS", "FF"]     # the least first

Besides `order` (`most_first = true` turns it round) a row has one of `pairs` (the smaller first), `rising` (stacks, or
ratios of two), `place` (its first stack among the others is to be the first), `saving` (two stacks, percent), `times`
(two stacks) and `share` (one stack). `mean_saving` and `best_saving` are over pairs of stacks, at each seed. A {} in
names is each value of `over`. `published` is a number that the paper prints; `bound = true` says that it prints a
bound only. `more_than` and `less_than` are what words without a number come to.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from weft_evidence.checks import (
    Check,
    Rule,
    bounded,
    compared,
    in_order,
    in_place,
    nearly,
    on_that_side,
    place_of,
    similar,
    some_effect,
)
from weft_evidence.claims import Measured, Metric, Runs

if TYPE_CHECKING:
    from weft.results.run import RunResult

Named = Callable[[str], str]  # a stack by its name in the paper


def read(package: str, stack: Named = str, file: str = "rows.toml") -> dict[str, Check]:
    """The checks in a file of a package."""
    found = tomllib.loads((files(package) / file).read_text("utf-8"))["check"]
    return {row["name"]: _check(row, stack) for row in found}


def _expanded(names: Any, over: Sequence[Any]) -> Any:
    """Names with each value of `over` in turn for {}."""
    texts = [json.dumps(names).replace("{}", str(value)) for value in over]
    return [json.loads(text) for text in texts] if names and over else names


def _check(row: Mapping[str, Any], stack: Named) -> Check:
    metric = METRICS.get(row["metric"], row["metric"])
    what, slow, most = row["what"], row.get("slow", False), row.get("most_first", False)
    if chain := [stack(name) for name in row.get("order", ())]:
        least = chain[::-1] if most else chain
        pairs = [(a, b) for i, a in enumerate(least) for b in least[i + 1 :]]
        return in_order(what, pairs, metric, slow)
    over = row.get("over", ())
    if pairs := [(stack(a), stack(b)) for a, b in _expanded(row.get("pairs", ()), over)]:
        return in_order(what, [(b, a) if most else (a, b) for a, b in pairs], metric, slow)
    for of, measured in (("mean_saving", np.mean), ("best_saving", np.max)):
        if pairs := [(stack(a), stack(b)) for a, b in _expanded(row.get(of, ()), over)]:
            stacks = tuple(dict.fromkeys(name for pair in pairs for name in pair))
            measure = partial(_savings, pairs, metric, measured)
            return Check(what, row.get("published"), "%", stacks, measure, _rule(row, 0.0), slow)
    if steps := [tuple(map(stack, step)) for step in _expanded(row.get("rising", ()), over)]:
        stacks = tuple(dict.fromkeys(name for step in steps for name in step))
        what = f"{what} (all {len(steps) - 1} must)"
        return Check(what, len(steps) - 1.0, "steps", stacks, partial(_rising, steps, metric), in_place, slow)
    if among := tuple(stack(name) for name in row.get("place", ())):
        return Check(what, 1.0, "place", among, partial(_place, among, metric, most), in_place, slow)
    of, stacks = next((of, tuple(map(stack, row[of]))) for of in ("saving", "times", "share") if of in row)
    alone = {"saving": _saving, "times": _times, "share": _share}[of]
    none = {"saving": 0.0, "times": 1.0}.get(of)
    unit = "x" if of == "times" else row.get("unit", "%")
    return Check(what, row.get("published"), unit, stacks, partial(alone, stacks, metric), _rule(row, none), slow)


def _rule(row: Mapping[str, Any], none: float | None) -> Rule:
    """A number, a bound of it, or words."""
    if "more_than" in row or "less_than" in row:
        more = "more_than" in row
        return some_effect(row["more_than" if more else "less_than"], more)
    if none is None:
        return nearly
    if row.get("similar"):
        return similar(none)
    if "published" not in row:
        return some_effect(none)
    return bounded(none) if row.get("bound") else on_that_side(none)


def _place(among: tuple[str, ...], metric: Metric, most_first: bool, runs: Runs) -> Measured:
    mine, *others = (runs.values(stack, metric) for stack in among)
    return place_of(mine, others, most_first)


def _savings(
    pairs: Sequence[tuple[str, str]], metric: Metric, of: Callable[[list[float]], Any], runs: Runs
) -> Measured:
    """The mean, or the largest, of what the first of each pair saves over the second, seed by seed."""
    found = [zip(runs.values(a, metric), runs.values(b, metric), strict=True) for a, b in pairs]
    seeds = [[100.0 * (1.0 - a / b) for a, b in seed if a is not None and b] for seed in zip(*found, strict=True)]
    return Measured.over_seeds([float(of(each)) if len(each) == len(pairs) else None for each in seeds])


def _rising(steps: Sequence[tuple[str, ...]], metric: Metric, runs: Runs) -> Measured:
    """How many steps go up, between those that surely do and those that do not surely go down."""
    values = []
    for first, *second in steps:
        mine: Sequence[float | None] = runs.values(first, metric)
        if second:
            both = zip(mine, runs.values(second[0], metric), strict=True)
            mine = [a / b if a is not None and b else None for a, b in both]
        values.append(mine)
    found = [compared(low, high) for low, high in pairwise(values)]
    ups = [sum(way) for way in zip(*((mean < 0.0, side < 0, side <= 0) for mean, side in found), strict=True)]
    return Measured(float(ups[0]), (float(ups[1]), float(ups[2])))


def _saving(stacks: tuple[str, ...], metric: Metric, runs: Runs) -> Measured:
    return runs.ratio(stacks[0], stacks[1], metric, lambda ratio: 100.0 * (1.0 - ratio))


def _times(stacks: tuple[str, ...], metric: Metric, runs: Runs) -> Measured:
    return runs.ratio(stacks[0], stacks[1], metric)


def _share(stacks: tuple[str, ...], metric: Metric, runs: Runs) -> Measured:
    return runs.metric(stacks[0], metric, 100.0)


def within(seconds: float, run: RunResult) -> float | None:
    """The share of the jobs that take no longer."""
    from weft.results.metrics import finished_jobs

    done = finished_jobs(run)
    return float((done["jct_s"] <= seconds).sum()) / run.jobs.height if run.jobs.height else None


def servers(run: RunResult) -> float | None:
    """Servers of a job of several GPUs, on average."""
    found = run.jobs.filter(run.jobs["gpus"] > 1)["servers"].drop_nulls()
    return float(np.mean(found.to_numpy())) if len(found) else None


def imbalance(run: RunResult) -> float | None:
    """How unevenly GPUs are busy: the deviation of their busy shares over the mean."""
    from weft_evidence.report import gpu_shares

    shares = gpu_shares(run)
    return float(shares.std() / shares.mean()) if shares.mean() > 0.0 else None


def waiting_share(run: RunResult) -> float | None:
    """Of the time that jobs on several servers hold their GPUs, the share in which these wait for the network."""
    spread = run.jobs.filter((run.jobs["servers"] > 1) & run.jobs["finish_s"].is_not_null())
    held = float(spread["run_s"].sum())
    return float(spread["comm_s"].sum()) / held if held > 0.0 else None


def larger_jobs(run: RunResult) -> float | None:
    """The share of the jobs that want more than one GPU."""
    return float((run.jobs["gpus"] > 1).sum()) / run.jobs.height if run.jobs.height else None


def placements(run: RunResult) -> float | None:
    """How often jobs are given GPUs, a second."""
    from weft.results.metrics import summary

    makespan_s = summary(run)["makespan_s"]
    return run.spans.height / makespan_s if makespan_s else None


def queueing(statistic: str, run: RunResult) -> float | None:
    """A statistic of the time that jobs wait for GPUs."""
    from weft.results.metrics import summary

    found: float | None = summary(run)["queueing_s"][statistic]
    return found


METRICS: Mapping[str, Metric] = {
    "within_5000_s": partial(within, 5000.0),
    "servers": servers,
    "imbalance": imbalance,
    "waiting_share": waiting_share,
    "larger_jobs": larger_jobs,
    "placements": placements,
    **{f"queueing_{name}_s": partial(queueing, name) for name in ("p95", "p99")},
}
