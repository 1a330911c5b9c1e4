"""A cross product of policies, ranked: what `weft compare --all --json` prints.

Combinations are ranked by the mean of a metric over seeds. Two kinds of ratio are formed at each seed and averaged,
with Student t intervals: to the reference, and to the best. If the interval of the latter reaches down to 1, these
seeds do not distinguish a combination from the best. (The best of many is also the luckiest: its own mean flatters it.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from weft.results.compare import compare, flat_metrics, mean_and_interval
from weft.results.windows import Table, window_intervals, windows_of

MORE_IS_BETTER = frozenset({"gpu_utilisation", "foreign_gbps"})
LAYERS = ("planner", "order", "place", "interleave", "pace", "route")

Summaries = Mapping[str, Sequence[Mapping[str, Any]]]


def rank(
    scenario: str,
    summaries: Summaries,
    layers: Mapping[str, Mapping[str, str]],
    left_out: Sequence[tuple[str, str]],
    by: str = "jct_mean_s",
    bins: Mapping[str, Sequence[Table]] | None = None,
) -> dict[str, Any]:
    """Combinations best first; {stack: summaries by seed} with the reference first, and (stack, reason) left out.

    `bins` are given where the jobs are recorded: intervals are then over windows of the trace.
    """
    compared = compare(summaries, bins)
    left = {name: sum(int(s["jobs"] - s["finished"]) for s in runs) for name, runs in summaries.items()}
    least, sign = min(left.values()), -1.0 if by in MORE_IS_BETTER else 1.0

    def place(entry: Mapping[str, Any]) -> tuple[bool, bool, float]:
        """Combinations that leave more jobs unfinished rank behind the others: their means are over other jobs."""
        mean = entry["metrics"][by]["mean"]
        return left[entry["stack"]] > least, mean is None, 0.0 if mean is None else sign * mean

    ranked = sorted(compared["stacks"], key=place)
    at = {name: [flat_metrics(s)[by] for s in runs] for name, runs in summaries.items()}
    best = at[ranked[0]["stack"]]
    over_best = _over_best(ranked, bins, by, compared["intervals"]["over"] == "windows")
    entries = [
        {
            "rank": i + 1,
            "stack": entry["stack"],
            "layers": dict(layers[entry["stack"]]),
            "unfinished": left[entry["stack"]],
            "metrics": entry["metrics"],
            "ratio_to_reference": entry["ratio_to_first"],
            "ratio_to_best": mean_and_interval(
                [a / b if a is not None and b else None for a, b in zip(at[entry["stack"]], best, strict=True)],
                least=0.0,
            )
            | over_best(entry["stack"]),
        }
        for i, entry in enumerate(ranked)
    ]
    return {
        "scenario": scenario,
        "seeds": compared["seeds"],
        "intervals": compared["intervals"],
        "by": by,
        "reference": next(iter(summaries)),
        "combinations": entries,
        "layers": layer_effects(entries, by),
        "skipped": _grouped(left_out),
    }


def _over_best(
    ranked: Sequence[Mapping[str, Any]], bins: Mapping[str, Sequence[Table]] | None, by: str, many: bool
) -> Callable[[str], dict[str, Any]]:
    """The interval over windows of a stack's ratio to the best, where intervals are over windows."""
    if bins is None:
        return lambda stack: {}
    if not many:
        return lambda stack: {"ci95": [None, None]}
    order = [str(entry["stack"]) for entry in ranked]
    windows = windows_of(next(iter(bins.values()))[0])
    found = window_intervals({name: bins[name] for name in order}, None, windows)
    return lambda stack: {"ci95": found[stack]["ratio_to_first"].get(by, [None, None])}


def layer_effects(entries: Sequence[Mapping[str, Any]], by: str) -> dict[str, list[dict[str, Any]]]:
    """For each policy of a layer, the median and best ratio of its combinations to the reference; best median first."""
    sign = -1.0 if by in MORE_IS_BETTER else 1.0
    ratios: dict[str, dict[str, list[float]]] = {layer: {} for layer in LAYERS}
    for entry in entries:
        mean = entry["ratio_to_reference"][by]["mean"]
        for layer, policy in entry["layers"].items():
            if policy and mean is not None:
                ratios[layer].setdefault(policy, []).append(mean)
    return {
        layer: sorted(
            (
                {
                    "policy": policy,
                    "combinations": len(found),
                    "median": median(found),
                    "best": sign * min(sign * ratio for ratio in found),
                }
                for policy, found in policies.items()
            ),
            key=lambda row: (sign * float(str(row["median"])), str(row["policy"])),
        )
        for layer, policies in ratios.items()
        if policies
    }


def _grouped(left_out: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Reasons with the combinations that each keeps out, most first."""
    groups: dict[str, list[str]] = {}
    for name, reason in left_out:
        groups.setdefault(reason, []).append(name)
    return [
        {"reason": reason, "count": len(names), "combinations": names}
        for reason, names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
