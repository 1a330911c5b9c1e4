"""A cross product of policies, ranked: what `weft compare --all --json` prints.

Combinations are ranked by the mean of a metric over seeds. Two kinds of ratio are formed at each seed and averaged,
with Student t intervals: to the reference, and to the best. An interval of the latter that reaches down to 1 says that
these seeds do not tell a combination from the best. (The best of many is also the luckiest: its own mean flatters it.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from weft.results.compare import compare, flat_metrics, mean_and_interval

MORE_IS_BETTER = frozenset({"gpu_utilisation"})
LAYERS = ("planner", "order", "place", "interleave", "pace")

Summaries = Mapping[str, Sequence[Mapping[str, Any]]]


def rank(
    scenario: str,
    summaries: Summaries,
    layers: Mapping[str, Mapping[str, str]],
    left_out: Sequence[tuple[str, str]],
    by: str = "jct_mean_s",
) -> dict[str, Any]:
    """Combinations best first; {stack: summaries by seed} with the reference first, and (stack, reason) left out."""
    compared = compare(summaries)
    left = {name: sum(int(s["jobs"] - s["finished"]) for s in runs) for name, runs in summaries.items()}
    least, sign = min(left.values()), -1.0 if by in MORE_IS_BETTER else 1.0

    def place(entry: Mapping[str, Any]) -> tuple[bool, bool, float]:
        """Combinations that leave more jobs unfinished rank behind the others: their means are over other jobs."""
        mean = entry["metrics"][by]["mean"]
        return left[entry["stack"]] > least, mean is None, 0.0 if mean is None else sign * mean

    ranked = sorted(compared["stacks"], key=place)
    at = {name: [flat_metrics(s)[by] for s in runs] for name, runs in summaries.items()}
    best = at[ranked[0]["stack"]]
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
            ),
        }
        for i, entry in enumerate(ranked)
    ]
    return {
        "scenario": scenario,
        "seeds": compared["seeds"],
        "by": by,
        "reference": next(iter(summaries)),
        "combinations": entries,
        "layers": layer_effects(entries, by),
        "skipped": _grouped(left_out),
    }


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
