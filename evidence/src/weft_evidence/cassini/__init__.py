"""CASSINI (Rajasekaran, Ghobadi and Akella, NSDI 2024): Table 2, Figures 2 and 11 to 19.

The readings are those of docs/papers/cassini.md.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from weft_evidence.cassini.scenarios import DLRM, EXPERIMENTS, GPT2_A, JITTER
from weft_evidence.cassini.statements import STATEMENTS
from weft_evidence.cassini.table_2 import snapshot_claims
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
from weft_evidence.settings import run_stacks

if TYPE_CHECKING:
    from weft.results.run import RunResult

TITLE = "CASSINI: network-aware job scheduling in machine learning clusters (2024)"

PAPER = "cassini"
SEEDS, QUICK_SEEDS = 5, 1
EVENT_SEEDS, BESIDE_SEEDS = 10, 3  # of figure-13 in MAIN; of what stands beside it, the first of them
MAIN = {f"{planner}{more}" for planner in ("themis", "pollux") for more in ("", "+cassini", "+cassini:printed")}
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

    def seeds(self, full: int = SEEDS) -> list[int]:
        return self.request.numbers(full, QUICK_SEEDS)

    def ratio(self, experiment: str, stack: str, other: str, metric: str) -> Measured:
        """A metric with one stack over that with another, at each seed that both have."""
        pair = [(self.get(experiment, name).values(name, metric)) for name in (stack, other)]
        ratios = [a / b if a is not None and b else None for a, b in zip(*pair, strict=False)]
        return Measured.over_seeds(ratios, least=0.0)

    def alike(self, experiment: str, stack: str, metric: str) -> Measured:
        """What CASSINI gains over one stack over what it gains over Themis, at each seed."""
        gains = []
        for name in (stack, "themis"):
            plain, better = (self.get(experiment, each).values(each, metric) for each in (name, f"{name}+cassini"))
            gains.append([a / b if a is not None and b else None for a, b in zip(plain, better, strict=True)])
        return Measured.over_seeds([a / b if a is not None and b else None for a, b in zip(*gains, strict=True)], 0.0)

    def get(self, experiment: str, stack: str) -> Runs:
        """A stack at every seed."""
        if (experiment, stack) not in self.runs:
            request = self.request
            event = EVENT_SEEDS if stack in MAIN else BESIDE_SEEDS
            seeds = self.seeds(event if experiment == "figure-13" else SEEDS)
            given = deepcopy(EXPERIMENTS[experiment])
            done = run_stacks(request, given, [stack], seeds, request.on_progress, record=True)
            self.runs[experiment, stack] = Runs(done)
        return self.runs[experiment, stack]

    def of_model(self, experiment: str, stack: str, other: str, model: str) -> Measured:
        """Mean iteration time of one model's jobs with one stack over that with another, at each seed that has any."""
        pair = [[_mean_of(run, model) for run in self.get(experiment, name).by_stack[name]] for name in (stack, other)]
        return Measured.over_seeds([a / b for a, b in zip(*pair, strict=True) if a and b], least=0.0)

    def models(self, experiment: str, stack: str) -> dict[str, float]:
        """Marks per iteration of each model's jobs, on average over jobs."""
        self._marks(experiment, stack, "")
        found: dict[str, list[float]] = {}
        for name, marks in self.marks[experiment, stack]:
            found.setdefault(name, []).append(marks)
        return {name: sum(marks) / len(marks) for name, marks in found.items()}

    def ecn(self, experiment: str, stack: str, model: str = "") -> Measured:
        """Marks per iteration without CASSINI over those with it, over the jobs (of a model) whose tasks are recorded.

        Those are the first tasks of a run. None if there are no marks without CASSINI.
        """
        plain, shifted = (self._marks(experiment, name, model) for name in (stack, f"{stack}+cassini"))
        return Measured(plain / max(shifted, plain / NO_MARKS) if plain > 0 else None)

    def _marks(self, experiment: str, stack: str, model: str) -> float:
        """Mean marks per iteration over jobs; they are worked out once."""
        from weft_evidence.cassini.ecn import marks_by_model

        if (experiment, stack) not in self.marks:
            some = BESIDE_SEEDS if experiment == "figure-13" else None
            runs = self.get(experiment, stack).by_stack[stack][:some]
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
_WORDS = {
    "racks": "fewest racks, no score, no shifts", "choice": "no shifts", "shifts": "no choice",
    "printed": "the algorithm as printed",
}  # fmt: skip
SIMILAR = "similar"  # a gain that the paper calls similar to another, without a number


def _controls(figure: str) -> dict[str, str]:
    """By name; what is printed in the paper is run where its headlines are."""
    return {**CONTROLS, **({"printed": "cassini:printed"} if figure == "figure-13" else {})}


def _times(figure: str, stack: str, metric: str, stated: float | str | None) -> dict[str, _Check]:
    """The claim, and its controls, which no verdict is given on."""
    published = None if isinstance(stated, str) else stated
    rule, kind = (some_effect(1.0), Kind.OWN) if published is None else (on_that_side(1.0), None)
    key = f"iteration_{metric}_s"

    def measure(other: str) -> Callable[[_CassiniRuns], Measured]:
        return lambda lab: lab.ratio(figure, stack, f"{stack}+{other}", key)

    what = f"{figure}: {metric} iteration time, {stack} over {stack}+cassini"
    what += " (not in the paper)" * (stated is None)
    found = {
        f"{figure}.{stack}.{metric}": _Check(
            what, published, "x", measure("cassini"), rule, slow=stated is None, kind=kind,
        )
    }  # fmt: skip
    if stated == SIMILAR:
        found[f"{figure}.{stack}.{metric}-alike"] = _Check(
            f"{figure}: {metric} iteration time, the gain over {stack} over that over themis (similar in the paper)",
            None, "x", lambda lab: lab.alike(figure, stack, key), similar(1.0), slow=True,
        )  # fmt: skip
    for name, other in _controls(figure).items():
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
    for name, other in {"": "cassini", **_controls(figure)}.items():
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


def _ecn(
    figure: str, stack: str, published: float | None, runs: str = "", model: str = "", kind: Kind | None = None
) -> _Check:
    what = f"{figure}: ECN marks per iteration (an estimate), {stack} over {stack}+cassini"
    if model:
        what += f", {model}"
    what += " (direction: at least 2; 1000: none left)"
    return _Check(
        what, published, "x", lambda lab: lab.ecn(runs or figure, stack, model), _at_least(2.0), slow=True, kind=kind,
    )  # fmt: skip


def _one_model(figure: str, stack: str, model: str) -> _Check:
    what = f"{figure}: mean iteration time of {model}, {stack} over {stack}+cassini (no number published)"
    other = f"{stack}+cassini"
    return _Check(
        what, None, "x", lambda lab: lab.of_model(figure, stack, other, model), some_effect(1.0), slow=True,
    )  # fmt: skip


def _beside(
    figure: str, stack: str, other: str, metric: str, words: str, rule: Rule, kind: Kind | None = None
) -> _Check:
    what = f"{figure}: {metric} iteration time, {stack} over {other} ({words})"
    return _Check(
        what, None, "x", lambda lab: lab.ratio(figure, stack, other, f"iteration_{metric}_s"), rule, slow=True,
        kind=kind,
    )  # fmt: skip


def _at_least(least: float) -> Rule:
    """The published number, or at least so many times as much; without anything to divide nothing is said."""
    known = graded(lambda published, measured: measured.value is not None and measured.value >= least, 1.0)
    return replace(known, judge=lambda p, m: "not judged" if m.value is None else known.judge(p, m))


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
    **snapshot_claims(),
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
            figure, "themis+cassini", "ideal", metric, words, similar(1.0), kind
        )
        for figure, words, kind in (
            ("figure-11", "similar in the paper; no number", None), ("figure-13", "not in the paper", Kind.OWN)
        )
        for metric in ("mean", "p99")
    },
    **{
        f"{figure}.random.mean": _beside(
            figure, "random", "themis", "mean", "random has the highest network overhead; no number",
            some_effect(1.0),
        )
        for figure in ("figure-11", "figure-13")
    },
    "figure-11.themis.xlm": _one_model("figure-11", "themis", "xlm"),
    "figure-12.themis.gpt2-a": _one_model("figure-12", "themis", GPT2_A),
    "figure-13.themis.dlrm": _one_model("figure-13", "themis", DLRM),
    "figure-13.pollux.dlrm": _one_model("figure-13", "pollux", DLRM),
    "figure-13.themis.ecn": _ecn("figure-13", "themis", 27.0, model=DLRM),
    "figure-13.pollux.ecn": _ecn("figure-13", "pollux", 33.0, model=DLRM),
    "figure-14.themis.ecn": _ecn("figure-14", "themis", 29.0),
    **{
        f"figure-19.{stack}.ecn": _ecn(
            "figure-11 (not in the paper)", stack, None, runs="figure-11", kind=Kind.OWN
        )
        for stack in ("themis", "pollux")
    },
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
    **STATEMENTS,
}  # fmt: skip
CLAIMS = headed(PAPER, CLAIMS)


def seeds_for(claim: str) -> int:
    """How many seeds a claim has in a whole reproduction."""
    figure, planner, *part = claim.split(".")
    if figure != "figure-13":
        return EVENT_SEEDS if claim == "figure-19.resnet50" else SEEDS
    beside = planner in ("ideal", "random") or bool({*CONTROLS, "fixed"} & {*part})
    return BESIDE_SEEDS if beside else EVENT_SEEDS


def reproduce(request: Request) -> Reproduction:
    """Check the claims that were asked for, all by default."""
    names, notes = chosen(request, CLAIMS)
    lab = _CassiniRuns(request)
    claims = []
    quickly = " --quick" * request.quick
    for name in names:
        seeds = lab.seeds(seeds_for(name))
        command = f"weft reproduce {PAPER} --claim {name} --seeds {len(seeds)} --seed {seeds[0]}{quickly} --json"
        scenario = f"weft_evidence.cassini {name.split('.')[0]}"
        claims.append(judge(name, CLAIMS[name], CLAIMS[name].measure(lab), scenario, command, seeds))
    if request.quick and request.seeds is None:
        notes.append(f"quick: {QUICK_SEEDS} seed instead of {SEEDS} or {EVENT_SEEDS}.")
    return Reproduction(PAPER, tuple(claims), (*NOTES, *notes))
