"""What the race says: the recommendation in three sentences, its price, what it depends on, and the same as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.advise.jobs import RARE, JobLog, first_problem
from weft.advise.race import Entrant, Race, Windows, ratios, score
from weft.advise.replayed import ALIKE, TODAY, Replayed
from weft.advise.site import Site
from weft.errors import InputError
from weft.results.compare import mean_and_interval
from weft.results.display import duration, number, percent
from weft.results.words import ratio_words

CLOSE = 1.02  # stacks within this factor of each other count as equally good
QUEUE = 0.02  # if jobs wait for less than this share of their completion time under today's stack, there is no queue
PLAUSIBLE = (0.005, 20.0)  # GPU time asked for over GPU time there is; beyond, lengths are in another unit

_DOUBTS = {
    False: ", though the interval does not rule out that nothing changes",
    True: ", though the log is too short for an interval, so this may be chance",
}


@dataclass(frozen=True)
class Changed:
    """What stacks came to on a changed cluster, in the windows that the race began with."""

    text: str
    n_gpus: int
    size: str  # what a change of size came to, in words
    outcomes: Mapping[str, Sequence[dict[str, float] | str]]


@dataclass(frozen=True)
class Advice:
    """Everything that was found."""

    log: JobLog
    site: Site
    replayed: Replayed
    drawn: Windows
    race: Race
    facts: Mapping[str, Any]  # what was understood
    changes: tuple[Changed, ...] = ()
    under: Mapping[str, Sequence[float]] = field(
        default_factory=dict
    )  # guess: the rival over today's, window by window
    further: str = ""  # how further windows ended, where they were asked for

    @property
    def reference(self) -> Entrant:
        """What the site runs today."""
        return self.race.entrants[0]

    @property
    def ranked(self) -> list[Entrant]:
        """Entrants, best first: those that ran in more windows come before those that dropped out."""
        return sorted(
            (one for one in self.race.entrants if one.outcomes),
            key=lambda one: (-len(one.outcomes), score(one, self.reference)),
        )

    @property
    def rival(self) -> Entrant | None:
        """The best stack other than today's. Of those that are equally good, one that stops no job comes first, then
        one that needs no lengths, then the one that stops the fewest."""
        finalists = [one for one in self.ranked if one is not self.reference]
        if not finalists:
            return None
        most, least = len(finalists[0].outcomes), score(finalists[0], self.reference)
        equal = [o for o in finalists if len(o.outcomes) == most and score(o, self.reference) <= least * CLOSE]
        return min(equal, key=lambda one: (not one.calm, not one.blind, _mean(one, "preemptions")))

    @property
    def best(self) -> Entrant:
        """The recommended stack: the best one, or today's if that is as good."""
        rival = self.rival
        return self.reference if rival is None or score(rival, self.reference) > 1 / CLOSE else rival

    @property
    def decided(self) -> bool:
        """Whether the interval of the best other stack over today's says which is better, or that neither is by 2 %."""
        if self.rival is None:
            return True
        low, high = self.ratio(self.rival)["ci95"]
        return low is not None and (not low <= 1 <= high or (low >= 1 / CLOSE and high <= CLOSE))

    @property
    def has_room(self) -> bool:
        """Whether the log has room for a further window beside those of the race."""
        return len(self.drawn.spans) < self.drawn.side_by_side

    def ratio(self, one: Entrant, metric: str = "jct_mean_s") -> dict[str, Any]:
        """A stack's metric over that of today's, window by window, with its interval.

        Overlapping windows say less than as many separate ones, so the interval counts no more windows than would fit
        side by side into the log.
        """
        return interval(ratios(one, self.reference, metric), self.drawn.side_by_side)

    def sentences(self) -> list[str]:
        """The recommendation: what to run, at what price, and what the advice depends on; then one sentence for each
        what-if."""
        further = [self.further] if self.further else []
        return [self._recommendation(), self._price(), self._sensitivity(), *further, *map(self._with, self.changes)]

    def _recommendation(self) -> str:
        best, today = self.best, self.reference.stack
        guesses = len(self.site.guesses)
        what = f"windows of {duration(self.drawn.counted_s)} each" if self.drawn.side_by_side > 1 else "runs of the log"
        counted = f"{len(best.outcomes)} {what} under {guesses} guess{'es' * (guesses > 1)}"
        if best is self.reference:
            rival = self.rival
            other = f"; {rival.stack}, say, comes to {ratio_words(self.ratio(rival))} of it" if rival else ""
            return f"Stay with {today}: over {counted} no other stack tried is better by 2 %{other}."
        ratio = self.ratio(best)
        high = ratio["ci95"][1]
        doubt = "" if high is not None and high < 1 else _DOUBTS[high is None]
        doubt += " (--minutes 30 asks further windows)" * bool(doubt and self.has_room and not self.further)
        knows = "" if best.blind else " (it must know how long jobs run)"
        return (
            f"{'Consider' if doubt else 'Run'} {best.stack} instead of {today}{knows}: over {counted} the mean "
            f"completion time falls to {ratio_words(ratio)} of today's on average{doubt}{self._instead()}."
        )

    def _instead(self) -> str:
        """Why not the stack with the lowest mean, if that is another one."""
        best, lowest = self.best, next(one for one in self.ranked if one is not self.reference)
        if lowest is best:
            return ""
        if best.calm and not lowest.calm:
            why = "stops jobs"
        elif best.blind and not lowest.blind:
            why = "needs to know lengths"
        else:
            why = "stops more jobs"
        return f" ({lowest.stack} is as good, {ratio_words(self.ratio(lowest))}, but {why})"

    def _price(self) -> str:
        best, today = self.best, self.reference
        if best is today:
            return "Nothing would change, so there is no price."
        stops = _mean(best, "preemptions")
        parts = [
            f"the 99th percentile of completion times comes to {ratio_words(self.ratio(best, 'jct_p99_s'))} of today's",
            f"the worst-off 1 % of jobs take {number(_mean(best, 'slowdown_p99'))} times as long as they compute "
            f"(today {number(_mean(today, 'slowdown_p99'))})",
            f"a job is stopped and resumed {number(stops)} times on average" if stops > 0 else "no job was stopped",
        ]
        if _mean(best, "worst_user") > 0:
            parts.append(
                f"the worst-off user's mean completion time is {ratio_words(self.ratio(best, 'worst_user'))} of today's"
            )
        slower = (self.ratio(best, metric)["mean"] or 0.0 for metric in ("jct_p99_s", "worst_user"))
        worse = stops > 0 or max(slower) > 1 or _mean(best, "slowdown_p99") > _mean(today, "slowdown_p99")
        name = "The price" if worse else "No price was seen"
        return f"{name}: " + ", ".join(parts[:-1]) + f", and {parts[-1]}."

    def _sensitivity(self) -> str:
        best, rival = self.best, self.rival
        parts = []
        if self.under and rival is not None:
            n = min(map(len, self.under.values()))
            words = ", ".join(
                f"{math.fsum(over) / len(over):.2f} with {name}" for name, over in self.under.items() if over
            )
            parts.append(f"in the first {n} windows alone, run under every guess, {rival.stack} comes to {words}")
        if self.site.size_guessed:
            parts.append(f"that the cluster has {self.site.n_gpus:,} GPUs is a guess, so give --gpus")
        if self.replayed.waits is not None and self.replayed.waits["off"] >= 1.0:
            parts.append("the replay's waits are far from the recorded ones, so this is a hint only")
        elif self.replayed.waits is not None and self.replayed.waits["correlation"] < ALIKE and not self.unqueued:
            parts.append("in the replay other jobs wait than in the record, so this is a hint only")
        if self.unqueued:
            parts.append(
                "hardly any job waits in these windows, so stacks differ by the network alone; busier months may differ"
            )
        for kind, text in (("calm", "stops no job"), ("blind", "needs no lengths")):
            one = next((e for e in self.ranked if getattr(e, kind)), None)
            if one is not None and one is not best and not getattr(best, kind):
                parts.append(f"the best that {text} is {one.stack} ({ratio_words(self.ratio(one))})")
        if self.replayed.grows:
            parts.append("the log asks for more than the cluster has, so all this holds within windows of the log only")
        if self.drawn.side_by_side == 1:
            parts.append("the log is a single window, so another month may give another answer")
        if not parts:
            parts.append(f"models and cluster are as given, so only on what the log shows ({self.replayed.trust})")
        return "What it depends on: " + "; ".join([*parts, self._size()]) + "."

    def _size(self) -> str:
        """Why a cluster of another size may get other advice."""
        n, (share, enough) = self.site.n_gpus, self.log.crowded(self.site.n_gpus)
        told = (
            f"if all jobs started when submitted, they would hold more than {n:,} GPUs for {percent(share)} of the time"
        )
        if share > RARE:
            return (
                f"{told}, and more than {enough:,} for {percent(RARE)}; with so many hardly any waits: less is to gain"
            )
        return f"{told}, so hardly any waits; with fewer than {enough:,} GPUs more do, and the advice may be another"

    @property
    def unqueued(self) -> bool:
        """Whether hardly any job waits under today's stack in the windows of the race."""
        return _mean(self.reference, "wait_mean_s") < QUEUE * _mean(self.reference, "jct_mean_s")

    def _with(self, change: Changed) -> str:
        """What a changed cluster comes to, in a sentence."""
        size = f" ({change.size})" if change.size else ""
        parts = [f"{row['stack']} comes to {ratio_words(row['over_today'])}" for row in self.what_if(change)]
        return f"With {change.text}{size} {' and '.join(parts)} of today's mean completion time."

    def what_if(self, change: Changed) -> list[dict[str, Any]]:
        """Each stack on the changed cluster over today's stack on today's cluster, window by window."""
        rows = []
        for stack, outcomes in change.outcomes.items():
            pairs = zip(outcomes, self.reference.outcomes, strict=False)
            over = [o["jct_mean_s"] / t["jct_mean_s"] for o, t in pairs if not isinstance(o, str)]
            rows.append({"stack": stack, "over_today": interval(over, self.drawn.side_by_side)})
        return rows

    def to_dict(self) -> dict[str, Any]:
        """What `weft advise --json` prints."""
        return {
            "verdict": self.sentences(),
            "understood": dict(self.facts),
            "replay": {
                "stack": self.replayed.stack, "jobs": self.replayed.jobs, "load": self.replayed.load,
                "queue_only_grows": self.replayed.grows, "waiting_jobs_by_fifth": list(self.replayed.queue),
                "waits": self.replayed.waits, "run_over_recorded": self.replayed.run_over_recorded,
                "sentences": self.replayed.sentences(),
            },
            "race": {
                "reference": self.reference.stack, "recommended": self.best.stack, "decided": self.decided,
                "windows": self.drawn.words(), "windows_side_by_side": self.drawn.side_by_side,
                "window_s": self.drawn.counted_s,
                "under_each_guess": {
                    name: interval(over, self.drawn.side_by_side) for name, over in self.under.items()
                },
                "stacks": [self._entry(one) for one in self.ranked], "refused": dict(self.race.refused),
            },
            "what_if": [
                {"change": one.text, "size": one.size, "gpus": one.n_gpus, "stacks": self.what_if(one)}
                for one in self.changes
            ],
        }  # fmt: skip

    def _entry(self, one: Entrant) -> dict[str, Any]:
        metrics = ("jct_mean_s", "jct_p99_s", "wait_mean_s", "slowdown_p99", "preemptions", "comm_share")
        return {
            "stack": one.stack, "windows": len(one.outcomes), "dropped": one.out, "needs_lengths": not one.blind,
            "has_stopped_jobs": not one.calm, "over_today": self.ratio(one),
            "p99_over_today": self.ratio(one, "jct_p99_s"), "means": {name: _mean(one, name) for name in metrics},
        }  # fmt: skip


def understood(log: JobLog, site: Site, today: str | None = None) -> dict[str, Any]:
    """What was read, what was assumed, and what is not known; `today` is what the operator says that the site runs."""
    frame = log.frame
    too_large = int((frame["gpus"] > site.n_gpus).sum())
    if too_large > frame.height / 2:
        raise InputError(
            f"{log.trace.path}: {too_large:,} of {frame.height:,} jobs ask for more than the cluster's {site.n_gpus:,} "
            "GPUs; correct --gpus, or say which column is what with --map"
        )
    load = log.gpu_seconds() / (site.n_gpus * max(log.span_s, 1.0))
    if not log.unit_said and not PLAUSIBLE[0] <= load <= PLAUSIBLE[1]:
        column = log.mapping.get("duration", "COLUMN").partition(" (")[0]
        raise InputError(
            f"{log.trace.path}: jobs would ask for {100 * load:.2g} % of the GPU time of {site.n_gpus:,} GPUs, so "
            f"lengths are probably not in seconds; name their unit (ms, s, m, h, d), as in --map duration={column}:h"
        )
    vcs = frame["vc"].n_unique() if "vc" in frame.columns else 1
    pooled = [f"{vcs:,} partitions or virtual clusters are one queue"] if vcs > 1 else []
    left_out = [f"{too_large:,} jobs ask for more than {site.n_gpus:,} GPUs and are left out"] if too_large else []
    guessed = [] if log.has_waits or today else [f"today's stack = {TODAY[0]} (name yours with --today)"]
    unknown = [] if log.has_waits else ["how long jobs waited"]
    if not log.has_models:
        unknown.append("models, and so how much jobs communicate")
    if not (frame["user"] != "").any():
        unknown.append("users")
    by_day = log.load_by_day(site.n_gpus)
    half = len(by_day) // 2
    return {
        "file": log.trace.path, "format": log.trace.format, "columns": dict(log.mapping),
        "rows": log.trace.n_rows_in, "jobs": frame.height - too_large, "damaged": log.trace.n_damaged,
        "first_damaged": first_problem(log.trace) if log.trace.n_damaged else "",
        "left_out": log.trace.n_left_out + too_large, "days": log.span_s / 86_400, "cluster_gpus": site.n_gpus,
        "assumed": [*guessed, *site.assumed, *pooled, *left_out],
        "load": load, "load_by_day": by_day,
        "load_by_half": [_average(by_day[:half]), _average(by_day[half:])], "unknown": unknown,
    }  # fmt: skip


def _average(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def interval(values: Sequence[float], windows: int) -> dict[str, Any]:
    """Mean and 95 % interval, as if there were at most `windows` values, because more windows than that overlap."""
    return {**mean_and_interval(values, least=0.0, independent=windows), "windows": len(values)}


def _mean(one: Entrant, metric: str) -> float:
    return math.fsum(outcome[metric] for outcome in one.outcomes) / max(len(one.outcomes), 1)
