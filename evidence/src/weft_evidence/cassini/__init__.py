"""CASSINI (Rajasekaran, Ghobadi and Akella, NSDI 2024): Table 2, Figures 2 and 11 to 19.

The readings are those of docs/papers/cassini.md.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from weft_evidence.cassini.scenarios import DLRM, EXPERIMENTS, JITTER
from weft_evidence.checks import (
    LabCheck,
    Rule,
    chosen,
    graded,
    headed,
    judge,
    nearly,
    no_more,
    on_that_side,
    similar,
    some_effect,
)
from weft_evidence.claims import Kind, Measured, Reproduction, Request, Runs, published

if TYPE_CHECKING:
    from weft.results.run import RunResult

TITLE = "CASSINI: network-aware job scheduling in machine learning clusters (2024)"

PAPER = "cassini"
SEEDS, QUICK_SEEDS = 5, 1
NO_MARKS = 1000.0  # a ratio of marks that stands for: none are left

NOTES = (
    "The traces were never published: models, lengths, sizes and arrivals are drawn anew for each seed; both stacks of "
    "a ratio see the same jobs.",
    "Table 2: snapshots 1 and 2 are fitted, 3 to 5 are predictions (docs/papers/cassini.md).",
    "ECN marks are a model on top of max-min sharing (weft_evidence/cassini/ecn.py), over the first tasks of each run.",
)


@dataclass
class _CassiniRuns:
    """Runs of the experiments, made when a claim first needs them."""

    request: Request
    runs: dict[tuple[str, str], Runs] = field(default_factory=dict)
    marks: dict[tuple[str, str], list[tuple[str, float]]] = field(default_factory=dict)

    def seeds(self) -> list[int]:
        return self.request.numbers(SEEDS, QUICK_SEEDS)

    def ratio(self, experiment: str, stack: str, other: str, metric: str) -> Measured:
        """A metric with one stack over that with another, seed by seed."""
        pair = [(self.get(experiment, name).values(name, metric)) for name in (stack, other)]
        ratios = [a / b if a is not None and b else None for a, b in zip(*pair, strict=True)]
        return Measured.over_seeds(ratios, least=0.0)

    def get(self, experiment: str, stack: str) -> Runs:
        """A stack at every seed."""
        from weft import api

        if (experiment, stack) not in self.runs:
            request = self.request
            done = api.compare(
                deepcopy(EXPERIMENTS[experiment]), [stack], self.seeds(), workers=request.workers,
                on_progress=request.on_progress, on_compile=request.on_compile, record=True,
            )  # fmt: skip
            self.runs[experiment, stack] = Runs(done.runs)
        return self.runs[experiment, stack]

    def of_model(self, experiment: str, stack: str, other: str, model: str) -> Measured:
        """Mean iteration time of one model's jobs with one stack over that with another, at each seed that has any."""
        pair = [[_mean_of(run, model) for run in self.get(experiment, name).by_stack[name]] for name in (stack, other)]
        return Measured.over_seeds([a / b for a, b in zip(*pair, strict=True) if a and b], least=0.0)

    def ecn(self, experiment: str, stack: str, model: str = "") -> Measured:
        """Marks per iteration without CASSINI over those with it, over the jobs (of a model) whose tasks are recorded.

        Those are the first tasks of the first seed. None if there are no marks without CASSINI.
        """
        plain, shifted = (self._marks(experiment, name, model) for name in (stack, f"{stack}+cassini"))
        return Measured(plain / max(shifted, plain / NO_MARKS) if plain > 0 else None)

    def _marks(self, experiment: str, stack: str, model: str) -> float:
        """Mean marks per iteration over jobs; they are worked out once."""
        from weft_evidence.cassini.ecn import marks_by_model

        if (experiment, stack) not in self.marks:
            runs = self.get(experiment, stack).by_stack[stack]
            found = [entry for run in runs for entry in marks_by_model(run, EXPERIMENTS[experiment])]
            self.marks[experiment, stack] = found
        mine = [marks for name, marks in self.marks[experiment, stack] if model in ("", name)]
        return sum(mine) / len(mine) if mine else 0.0


def _mean_of(run: RunResult, model: str) -> float | None:
    named = {job for job, name in zip(run.jobs["job_id"], run.jobs["model"], strict=True) if name == model}
    mine = [(seconds, count) for job, seconds, count in run.iterations.iter_rows() if job in named]
    total = sum(count for _, count in mine)
    return sum(seconds * count for seconds, count in mine) / total if total else None


_Check = LabCheck[_CassiniRuns]


# What a part of CASSINI does alone: the planner's candidate with the fewest racks, whatever its score; the best score
# without shifts; shifts of the planner's own plan.
CONTROLS = {"racks": "cassini:metric=racks,unshifted", "choice": "cassini:unshifted", "shifts": "cassini:candidates=1"}
_WORDS = {"racks": "fewest racks, no score, no shifts", "choice": "no shifts", "shifts": "no choice"}


def _times(figure: str, stack: str, metric: str, published: float | None) -> dict[str, _Check]:
    """The claim, and its controls, which no verdict is given on."""
    rule, kind = (some_effect(1.0), Kind.OWN) if published is None else (on_that_side(1.0), None)
    key = f"iteration_{metric}_s"

    def measure(other: str) -> Callable[[_CassiniRuns], Measured]:
        return lambda lab: lab.ratio(figure, stack, f"{stack}+{other}", key)

    what = f"{figure}: {metric} iteration time, {stack} over {stack}+cassini"
    if published is None:
        what += " (not in the paper)"
    found = {
        f"{figure}.{stack}.{metric}": _Check(
            what, published, "x", measure("cassini"), rule, slow=published is None, kind=kind
        )
    }
    for name, other in CONTROLS.items():
        found[f"{figure}.{stack}.{metric}.{name}"] = _unjudged(
            f"{what}: control, {_WORDS[name]}", published, "x", measure(other)
        )
    if stack == "pollux" and "elastic" in EXPERIMENTS[figure]["workload"]:
        found[f"{figure}.{stack}.{metric}.fixed"] = _unjudged(
            f"{what}: control, batches are not adapted", published, "x",
            lambda lab: lab.ratio(figure, "pollux:fixed", "pollux:fixed+cassini", key),
        )  # fmt: skip
    return found


def _costs(figure: str, stack: str) -> dict[str, _Check]:
    """Mean JCT and restarts beside the iteration times, with the same controls; no verdict is given on them."""

    def jct(other: str) -> Callable[[_CassiniRuns], Measured]:
        return lambda lab: lab.ratio(figure, stack, f"{stack}+{other}", "jct_mean_s")

    def restarts(name: str) -> Callable[[_CassiniRuns], Measured]:
        return lambda lab: lab.get(figure, name).metric(name, "preemptions")

    what = f"{figure}: restarts in a run, {stack}"
    found = {
        f"{figure}.{stack}.restarts.plain": _unjudged(f"{what} alone (not in the paper)", None, "", restarts(stack))
    }
    for name, other in {"": "cassini", **CONTROLS}.items():
        words, dot = (f": control, {_WORDS[name]}", f".{name}") if name else ("", "")
        found |= {
            f"{figure}.{stack}.jct{dot}": _unjudged(
                f"{figure}: mean JCT, {stack} over {stack}+cassini (not in the paper){words}", None, "x", jct(other)
            ),
            f"{figure}.{stack}.restarts{dot}": _unjudged(
                f"{what}+cassini (not in the paper){words}", None, "", restarts(f"{stack}+{other}")
            ),
        }
    return found


def _unjudged(what: str, published: float | None, unit: str, measure: Callable[[_CassiniRuns], Measured]) -> _Check:
    return _Check(what, published, unit, measure, nearly, slow=True, kind=Kind.CONTROL)


def _ecn(figure: str, stack: str, published: float | None, runs: str = "", model: str = "") -> _Check:
    what = f"{figure}: ECN marks per iteration (an estimate), {stack} over {stack}+cassini"
    if model:
        what += f", {model}"
    what += " (direction: at least 2; 1000: none left)"
    return _Check(what, published, "x", lambda lab: lab.ecn(runs or figure, stack, model), _at_least(2.0), slow=True)


def _dlrm(stack: str) -> _Check:
    what = f"figure-13: mean iteration time of DLRM, {stack} over {stack}+cassini (no number published)"
    other = f"{stack}+cassini"
    return _Check(
        what, None, "x", lambda lab: lab.of_model("figure-13", stack, other, DLRM), some_effect(1.0), slow=True
    )


def _beside(
    figure: str, stack: str, other: str, metric: str, published: float | None, words: str, rule: Rule
) -> _Check:
    what = f"{figure}: {metric} iteration time, {stack} over {other} ({words})"
    return _Check(
        what, published, "x", lambda lab: lab.ratio(figure, stack, other, f"iteration_{metric}_s"), rule, slow=True
    )


def _at_least(least: float) -> Rule:
    """The published number, or at least so many times as much; without anything to divide nothing is said."""
    known = graded(lambda published, measured: measured.value is not None and measured.value >= least, 1.0)
    return replace(known, judge=lambda p, m: "not judged" if m.value is None else known.judge(p, m))


def _snapshot_claims() -> dict[str, _Check]:
    from weft_evidence.cassini.snapshots import SNAPSHOTS, played

    found: dict[str, _Check] = {}

    def comm(number: int, name: str, shifted: bool) -> Callable[[_CassiniRuns], Measured]:
        return lambda lab: Measured(played(SNAPSHOTS[number], shifted)["jobs"][name]["comm_ms"])

    def score(number: int) -> Callable[[_CassiniRuns], Measured]:
        return lambda lab: Measured(played(SNAPSHOTS[number], True)["score"])

    def shift(number: int, name: str) -> Callable[[_CassiniRuns], Measured]:
        return lambda lab: Measured(played(SNAPSHOTS[number], True)["jobs"][name]["shift_ms"])

    for number, snapshot in SNAPSHOTS.items():
        how, kind = ("fitted", Kind.FITTED) if snapshot.fitted else ("predicted", None)
        key = f"table-2.snapshot-{number}"
        found[f"{key}.score"] = _Check(
            f"snapshot {number} ({how}): score", snapshot.score, "", score(number), nearly, seeded=False, kind=kind
        )
        for job in snapshot.jobs:
            slug = job.name.lower().replace("'", "-2")
            for word, value, shifted in (("themis", job.themis_ms, False), ("cassini", job.cassini_ms, True)):
                what = f"snapshot {number} ({how}): communication time of {job.name}, {word}"
                measure = comm(number, job.name, shifted)
                found[f"{key}.{slug}.{word}"] = _Check(what, value, "ms", measure, nearly, seeded=False, kind=kind)
        for job in snapshot.jobs[1:]:
            slug = job.name.lower().replace("'", "-2")
            what = f"snapshot {number} ({how}): time-shift of {job.name}"
            found[f"{key}.{slug}.shift"] = _Check(
                what, job.shift_ms, "ms", shift(number, job.name), nearly, seeded=False, kind=kind
            )
    return found


def _figure_2_ratio(lab: _CassiniRuns) -> Measured:
    from weft_evidence.cassini.snapshots import FIGURE_2, played

    plain, shifted = (played(FIGURE_2, how, iterations=1000)["jobs"]["VGG19"]["p90_ms"] for how in (False, True))
    return Measured(plain / shifted)


def _figure_2_shift(lab: _CassiniRuns) -> Measured:
    from weft_evidence.cassini.snapshots import FIGURE_2, played

    return Measured(played(FIGURE_2, True)["jobs"]["VGG19'"]["shift_ms"])


def _figure_17(number: int) -> Callable[[_CassiniRuns], Measured]:
    def measure(lab: _CassiniRuns) -> Measured:
        from weft_evidence.cassini.snapshots import SNAPSHOTS, played

        values = []
        for seed in lab.seeds():
            jobs = played(SNAPSHOTS[number], True, JITTER, seed, 1000)["jobs"]
            values.append(sum(job["adjusted_per_min"] for job in jobs.values()) / len(jobs))
        return Measured.over_seeds(values)

    return measure


def _figure_18(lab: _CassiniRuns) -> Measured:
    """Part of the snapshots in which the grid of 5 degrees has shifts as good as the exact ones (within 1 %)."""
    from weft.policies.interleave.cassini.compat import rotate_on_grid
    from weft_evidence.cassini.snapshots import CAPACITY_GBPS, SNAPSHOTS, shifted

    good = []
    for snapshot in SNAPSHOTS.values():
        exact = shifted(snapshot)
        if not exact.periods.fit:
            continue
        grid = rotate_on_grid(exact.circles, CAPACITY_GBPS, exact.periods, 5.0)
        good.append(grid.score >= exact.rotation.score - 0.01)
    return Measured(100.0 * sum(good) / len(good))


CLAIMS: dict[str, _Check] = {
    "figure-2.p90": _Check(
        "Figure 2: p90 iteration time of two VGG19 jobs, unshifted over shifted", 1.26, "x", _figure_2_ratio,
        on_that_side(1.0), seeded=False,
    ),
    "figure-2.shift": _Check(
        "Figure 2: time-shift (the period is read from it)", 120.0, "ms", _figure_2_shift, nearly, seeded=False,
        kind=Kind.FITTED,
    ),
    **_snapshot_claims(),
    **{
        name: check
        for figure, stacks in published(PAPER).items()
        for stack, numbers in stacks.items()
        for metric in ("mean", "p99")
        for name, check in _times(figure, stack, metric, numbers.get(metric)).items()
    },
    **{
        name: check
        for figure in ("figure-11", "figure-12", "figure-13", "figure-14", "figure-16", "sweep")
        for stack in ("themis", "pollux")[: 1 if figure == "figure-16" else 2]
        for name, check in _costs(figure, stack).items()
    },
    **{
        f"{figure}.ideal.{metric}": _beside(
            figure, "themis+cassini", "ideal", metric, None, "similar in the paper; no number", similar(1.0)
        )
        for figure in ("figure-11", "figure-13") for metric in ("mean", "p99")
    },
    **{
        f"{figure}.random.mean": _beside(
            figure, "random", "themis", "mean", None, "random has the highest network overhead; no number",
            some_effect(1.0),
        )
        for figure in ("figure-11", "figure-13")
    },
    "figure-13.themis.dlrm": _dlrm("themis"),
    "figure-13.pollux.dlrm": _dlrm("pollux"),
    "figure-13.themis.ecn": _ecn("figure-13", "themis", 27.0, model=DLRM),
    "figure-13.pollux.ecn": _ecn("figure-13", "pollux", 33.0, model=DLRM),
    "figure-14.themis.ecn": _ecn("figure-14", "themis", 29.0),
    "figure-19.themis.ecn": _ecn("figure-19 (no number; runs of figure-11)", "themis", None, runs="figure-11"),
    "figure-19.pollux.ecn": _ecn("figure-19 (no number; runs of figure-11)", "pollux", None, runs="figure-11"),
    **{
        f"figure-17.snapshot-{n}": _Check(
            f"Figure 17: adjustments per minute and job, snapshot {n}, 1 % jitter (fewer than 2)", 2.0, "/min",
            _figure_17(n), no_more(),
        )
        for n in (1, 2, 3)
    },
    "figure-18.accuracy": _Check(
        "Figure 18: snapshots in which a grid of 5 degrees is as good as exact rotations", 100.0, "%", _figure_18,
        nearly, seeded=False,
    ),
}  # fmt: skip
CLAIMS = headed(PAPER, CLAIMS)


def reproduce(request: Request) -> Reproduction:
    """Check the claims that were asked for, all by default."""
    names, notes = chosen(request, CLAIMS)
    lab = _CassiniRuns(request)
    seeds = lab.seeds()
    claims = []
    quickly = " --quick" * request.quick
    for name in names:
        command = f"weft reproduce {PAPER} --claim {name} --seeds {len(seeds)} --seed {seeds[0]}{quickly} --json"
        scenario = f"weft_evidence.cassini {name.split('.')[0]}"
        claims.append(judge(name, CLAIMS[name], CLAIMS[name].measure(lab), scenario, command, seeds))
    if request.quick and request.seeds is None:
        notes.append(f"quick: {QUICK_SEEDS} seeds instead of {SEEDS}.")
    return Reproduction(PAPER, tuple(claims), (*NOTES, *notes))
