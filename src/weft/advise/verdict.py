"""What the race says: the recommendation in three sentences, its price, what it hangs on, and all of it as data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.advise.jobs import JobLog
from weft.advise.race import Entrant, Race, ratios, score
from weft.advise.replayed import Replayed
from weft.advise.site import Site
from weft.results.compare import mean_and_interval
from weft.results.display import number, time_unit
from weft.results.words import ratio_words

CLOSE = 1.02  # stacks within this factor of each other count as equally good


@dataclass(frozen=True)
class Changed:
    """What stacks came to on a changed cluster, in the windows that the race began with."""

    text: str
    n_gpus: int
    outcomes: Mapping[str, Sequence[dict[str, float] | str]]


@dataclass(frozen=True)
class Advice:
    """Everything that was found."""

    log: JobLog
    site: Site
    replayed: Replayed
    race: Race
    changes: tuple[Changed, ...] = ()

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
    def best(self) -> Entrant:
        """The recommended stack: the best one, or today's if that is as good."""
        first = self.ranked[0]
        return self.reference if score(first, self.reference) > 1 / CLOSE else first

    def ratio(self, one: Entrant, metric: str = "jct_mean_s") -> dict[str, Any]:
        """A stack's metric over that of today's, window by window, with its interval.

        Overlapping windows say less than as many separate ones, so the interval counts no more windows than would fit
        side by side into the log.
        """
        return interval(ratios(one, self.reference, metric), self.race.windows)

    def sentences(self) -> list[str]:
        """The recommendation: what to run, at what price, and what that hangs on."""
        return [self._recommendation(), self._price(), self._sensitivity()]

    def _recommendation(self) -> str:
        best, today = self.best, self.reference.stack
        guesses = len(self.site.guesses)
        counted = f"{len(best.outcomes)} windows of the log under {guesses} guess{'es' * (guesses > 1)}"
        if best is self.reference:
            second = next((one for one in self.ranked if one is not best), None)
            other = (
                f"; the next best, {second.stack}, comes to {ratio_words(self.ratio(second))} of it" if second else ""
            )
            return f"Stay with {today}: over {counted} no other stack tried is better by 2 %{other}."
        before_s, after_s = (
            math.fsum(o["jct_mean_s"] for o in one.outcomes[: len(best.outcomes)]) / len(best.outcomes)
            for one in (self.reference, best)
        )
        unit = time_unit([before_s, after_s])
        ratio = self.ratio(best)
        high = ratio["ci95"][1]
        doubt = "" if high is None or high < 1 else ", though the interval does not rule out that nothing changes"
        return (
            f"{'Consider' if doubt else 'Run'} {best.stack} instead of {today}: over {counted} the mean completion "
            f"time falls from {unit.of(before_s)} to {unit.of(after_s)} {unit.name}, to {ratio_words(ratio)} of today's"
            f"{doubt}."
        )

    def _price(self) -> str:
        best, today = self.best, self.reference
        if best is today:
            return "That costs nothing."
        stops = _mean(best, "preemptions")
        parts = [
            f"the 99th percentile of completion times comes to {ratio_words(self.ratio(best, 'jct_p99_s'))} of today's",
            f"the worst-off 1 % of jobs take {number(_mean(best, 'slowdown_p99'))} times their own length (today "
            f"{number(_mean(today, 'slowdown_p99'))})",
            f"a job is stopped and resumed {number(stops)} times on average" if stops > 0 else "no job is ever stopped",
        ]
        if _mean(best, "worst_user") > 0:
            parts.append(
                f"the worst-off user's mean completion time is {ratio_words(self.ratio(best, 'worst_user'))} of today's"
            )
        return "The price: " + ", ".join(parts[:-1]) + f", and {parts[-1]}."

    def _sensitivity(self) -> str:
        best = self.best
        by_guess = {name: ratio for name, ratio in self.by_guess(best).items() if ratio is not None}
        words = ", ".join(f"{ratio:.2f} with {name}" for name, ratio in by_guess.items())
        parts = [f"its ratio is {words}" if len(by_guess) > 1 else "there was one guess of what the log does not say"]
        for kind, text in (("calm", "stops no job"), ("blind", "needs no lengths")):
            one = next((e for e in self.ranked if getattr(e, kind)), None)
            if one is not None and one is not best and not getattr(best, kind):
                parts.append(f"the best that {text} is {one.stack} ({ratio_words(self.ratio(one))})")
        if self.replayed.grows:
            parts.append("the log asks for more than the cluster has, so all this holds within windows of the log only")
        if self.race.windows == 1:
            parts.append("the log is a single window, so another month may give another answer")
        return "What it hangs on: " + "; ".join(parts) + "."

    def by_guess(self, one: Entrant) -> dict[str, float | None]:
        """The mean ratio to today's under each guess of what is unknown."""
        found: dict[str, list[float]] = {name: [] for name in self.site.guesses}
        for replicate, ratio in zip(self.race.replicates, ratios(one, self.reference), strict=False):
            found[replicate.guess].append(ratio)
        return {name: math.fsum(values) / len(values) if values else None for name, values in found.items()}

    def what_if(self, change: Changed) -> list[dict[str, Any]]:
        """Each stack on the changed cluster over today's stack on today's cluster, window by window."""
        rows = []
        for stack, outcomes in change.outcomes.items():
            pairs = zip(outcomes, self.reference.outcomes, strict=False)
            over = [o["jct_mean_s"] / t["jct_mean_s"] for o, t in pairs if not isinstance(o, str)]
            rows.append({"stack": stack, "over_today": interval(over, self.race.windows)})
        return rows

    def to_dict(self) -> dict[str, Any]:
        """What `weft advise --json` prints."""
        frame = self.log.trace.frame
        return {
            "verdict": self.sentences(),
            "understood": {
                "file": self.log.trace.path, "format": self.log.trace.format, "columns": dict(self.log.mapping),
                "rows": self.log.trace.n_rows_in, "jobs": frame.height, "damaged": self.log.trace.n_damaged,
                "left_out": self.log.trace.n_left_out, "days": self.log.span_s / 86_400,
                "cluster_gpus": self.site.n_gpus, "assumed": list(self.site.assumed),
                "load": self.log.gpu_seconds() / (self.site.n_gpus * max(self.log.span_s, 1.0)),
                "load_by_day": self.log.load_by_day(self.site.n_gpus), "unknown": self.unknown(),
            },
            "replay": {
                "stack": self.replayed.stack, "jobs": self.replayed.jobs, "load": self.replayed.load,
                "queue_only_grows": self.replayed.grows, "waiting_jobs_by_fifth": list(self.replayed.queue),
                "waits": self.replayed.waits, "sentences": self.replayed.sentences(),
            },
            "race": {
                "reference": self.reference.stack, "recommended": self.best.stack,
                "windows_side_by_side": self.race.windows, "window_s": self.race.window_s,
                "guesses": list(self.site.guesses),
                "stacks": [self._entry(one) for one in self.ranked], "refused": dict(self.race.refused),
            },
            "what_if": [
                {"change": one.text, "gpus": one.n_gpus, "stacks": self.what_if(one)} for one in self.changes
            ],
        }  # fmt: skip

    def unknown(self) -> list[str]:
        """What the log does not say."""
        missing = [] if self.log.has_waits else ["how long jobs waited"]
        if not self.log.has_models:
            missing.append("models, and so how much jobs communicate")
        if not (self.log.trace.frame["user"] != "").any():
            missing.append("users")
        return missing

    def _entry(self, one: Entrant) -> dict[str, Any]:
        metrics = ("jct_mean_s", "jct_p99_s", "wait_mean_s", "slowdown_p99", "preemptions", "comm_share")
        return {
            "stack": one.stack, "windows": len(one.outcomes), "dropped": one.out, "needs_lengths": not one.blind,
            "stops_jobs": not one.calm, "over_today": self.ratio(one), "p99_over_today": self.ratio(one, "jct_p99_s"),
            "by_guess": self.by_guess(one), "means": {name: _mean(one, name) for name in metrics},
        }  # fmt: skip


def interval(values: Sequence[float], windows: int) -> dict[str, Any]:
    """Mean and 95 % interval, as if there were at most `windows` values, because more windows than that overlap."""
    return {**mean_and_interval(values, least=0.0, independent=windows), "windows": len(values)}


def _mean(one: Entrant, metric: str) -> float:
    return math.fsum(outcome[metric] for outcome in one.outcomes) / max(len(one.outcomes), 1)
