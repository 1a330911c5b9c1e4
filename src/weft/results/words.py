"""Results in words: what each metric is, and the sentence that a report opens with."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from weft.results.display import count, duration, percent
from weft.results.html import definition_list

# as tables and tiles call it: what it is
DEFINITIONS: dict[str, str] = {
    "JCT": "job completion time: from submission to the end",
    "makespan": "from the first submission to the end of the last job",
    "queue": "time in which a job had no GPUs, restarts included",
    "exposed comm.": "time in which a job had its GPUs and they waited for the network",
    "GPU utilisation": "share of all GPU time in which GPUs computed; a GPU that is held by a job but waits for the "
    "network, or that nobody holds, does not compute",
    "iteration": "time of one training step, over all steps of all jobs",
    "jobs finished": "jobs that ran all their iterations",
    "preemptions": "how often a running job was stopped to make room",
    "relative JCT": "mean JCT over that of the first stack, with its 95 % interval; below 1 is better",
}


def meanings(*names: str) -> str:
    """Definitions below a table, as HTML."""
    chosen = {name: DEFINITIONS[name] for name in names} if names else DEFINITIONS
    listed = definition_list(list(chosen.items()))
    return f'<details class="meanings" open><summary>What these numbers mean</summary>{listed}</details>'


def verdict_card(sentence: str) -> str:
    """The sentence on top of a report."""
    return f'<section class="card verdict"><p class="lead">{escape(sentence)}</p></section>'


def run_verdict(summary: Mapping[str, Any], peak: float | None = None) -> str:
    """One run in a sentence."""
    jct, waited, exposed = (summary[key]["mean"] for key in ("jct_s", "queueing_s", "comm_s"))
    if jct is None:
        return f"No job finished under {summary['stack']}."
    held = "" if peak is None else f"; at most {count(peak)} GPUs were held at once"
    return (
        f"Under {summary['stack']} a job takes {duration(jct)} on average, of which it waits {duration(waited)} for "
        f"GPUs and {duration(exposed)} for the network; GPUs compute {percent(summary['gpu_utilisation'])} of the "
        f"time{held}."
    )


def comparison_verdict(comparison: Mapping[str, Any]) -> str:
    """Which stack is best by mean completion time, and whether these runs tell that stack from the first."""
    known = [entry for entry in comparison["stacks"] if entry["metrics"]["jct_mean_s"]["mean"] is not None]
    if not known:
        return "No stack finished its jobs in every run, so none can be called best."
    best = min(known, key=lambda entry: entry["metrics"]["jct_mean_s"]["mean"])
    first = comparison["stacks"][0]
    mean = duration(best["metrics"]["jct_mean_s"]["mean"])
    if best is first:
        others = f", the shortest of {len(known)}" if len(known) > 1 else ""
        return f"{best['stack']} has a mean completion time of {mean}{others}."
    ratio = best["ratio_to_first"]["jct_mean_s"]
    return (
        f"{best['stack']} has the shortest mean completion time, {mean}: {ratio_words(ratio)} of that of "
        f"{first['stack']}{_doubt(ratio, comparison)}."
    )


def ranking_verdict(found: Mapping[str, Any]) -> str:
    """The best of all combinations, and how many cannot be told from it."""
    best, by = found["combinations"][0], found["by"]
    lows = [entry["ratio_to_best"]["ci95"][0] for entry in found["combinations"][1:]]
    close = sum(low is not None and low <= 1.0 for low in lows)
    told = (
        "without intervals, so nothing can be said about the others" if all(low is None for low in lows)
        else f"{count(close)} others cannot be told from it"
    )  # fmt: skip
    head = f"is best of {count(len(found['combinations']))} by {by}"
    if best["stack"] == found["reference"]:
        return f"{best['stack']}, the reference, {head}; {told}."
    ratio = ratio_words(best["ratio_to_reference"][by])
    return f"{best['stack']} {head}, at {ratio} of that of {found['reference']}; {told}."


def sweep_verdict(found: Mapping[str, Any]) -> str:
    """Who is best at each setting."""
    best: dict[str, list[str]] = {}
    for point in found["sweep"]:
        known = [entry for entry in point["stacks"] if entry["metrics"]["jct_mean_s"]["mean"] is not None]
        if known:
            stack = min(known, key=lambda entry: entry["metrics"]["jct_mean_s"]["mean"])["stack"]
            best.setdefault(stack, []).append(point["name"])
    if len(best) == 1 and len(found["sweep"]) == len(next(iter(best.values()))):
        return f"{next(iter(best))} has the shortest mean completion time at every setting."
    parts = [f"{stack} at {', '.join(names)}" for stack, names in best.items()]
    return f"The shortest mean completion time has {'; '.join(parts)}." if parts else "No stack finished its jobs."


def ratio_words(ratio: Mapping[str, Any]) -> str:
    """A ratio with its interval, to be followed by "of ..."."""
    mean, (low, high) = ratio["mean"], ratio["ci95"]
    if mean is None:
        return "an undefined part"
    return f"{mean:.2f}" if low is None else f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def _doubt(ratio: Mapping[str, Any], comparison: Mapping[str, Any]) -> str:
    high = ratio["ci95"][1]
    if high is None:
        return f" ({comparison['intervals']['note']})"
    return "" if high < 1.0 else ", though the interval does not rule out that they are alike"
