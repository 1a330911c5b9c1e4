"""CASSINI (Rajasekaran, Ghobadi and Akella, NSDI 2024): Table 2, Figures 2 and 11 to 19.

The readings are those of docs/papers/cassini.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft_evidence.checks import LabCheck, Rule, chosen, graded, judge, nearly, on_that_side, some_effect
from weft_evidence.claims import Measured, Reproduction, Request, Runs

if TYPE_CHECKING:
    from weft.results.run import RunResult

TITLE = "CASSINI: network-aware job scheduling in machine learning clusters (2024)"

PAPER = "cassini"
SEEDS, QUICK_SEEDS = 5, 1
JITTER = 0.01
RESTART_S = 10.0  # what a job loses that is stopped and started elsewhere; a sweep is in docs/papers/cassini.md
NO_MARKS = 1000.0  # a ratio of marks that stands for: none are left

NOTES = (
    "The traces were never published: models, lengths, sizes and arrivals are drawn anew for each seed; both stacks of "
    "a ratio see the same jobs.",
    "Table 2: snapshots 1 and 2 are fitted, 3 to 5 are predictions (docs/papers/cassini.md).",
    "ECN marks are a model on top of max-min sharing (weft/research/cassini/ecn.py), over the first tasks of each run.",
)

# Batches of the vision models are those at which computing takes as long as in Table 2 (VGG16 142 ms, VGG19 168 ms,
# WideResNet101 152 ms; VGG11 and ResNet50 in proportion to their operations): the paper's 512 to 1,800 images are small
# ones, the zoo's have 224 x 224. DLRM is the one whose parameters are those of Table 3.
_VGG11, _VGG16, VGG19 = "vgg11[batch=104]", "vgg16[batch=46]", "vgg19[batch=104]"
_RESNET50, _WIDE, _DLRM = "resnet50[batch=24]", "wide-resnet101[batch=40]", "dlrm-benchmark"
_MODELS = [_VGG11, _VGG16, VGG19, _RESNET50, _WIDE, "bert-base", "roberta", "camembert", "xlm", "gpt1", "gpt2",
           "gpt2-medium", _DLRM]  # fmt: skip
_PARALLEL = [
    "gpt1[parallel=hybrid]",
    "gpt2-a[batch=24,parallel=hybrid]",
    "gpt2-b[batch=70,parallel=hybrid]",
    "gpt3-cassini[parallel=hybrid]",
    _DLRM,
]
_SIZES = {str(n): 1 for n in range(1, 13)}
_SPAN = [0.4, 1.5]  # batches per GPU stay about in the ranges of Table 3 when jobs are resized


def _scenario(cluster: Mapping[str, Any], **workload: Any) -> dict[str, Any]:
    usual = {"gpus": _SIZES, "elastic": [1, 12], "elastic_batch": _SPAN, "iterations": [200, 1000]}
    return {
        "cluster": dict(cluster),
        "workload": {name: value for name, value in {**usual, **workload}.items() if value is not None},
        "run": {"jitter": JITTER, "restart_s": RESTART_S},
    }


_TESTBED = {"topology": "cassini"}
_LARGE = {**_TESTBED, "gpu_memory_gb": 1000}  # the paper's GPT jobs need more memory than a GPU has: no limit

# experiment: scenario of sections 5.2 to 5.6
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "figure-11": _scenario(_TESTBED, source="poisson", jobs=30, load=0.9, models=_MODELS),
    "figure-12": _scenario(
        _LARGE, source="poisson", jobs=16, load=0.9, models=_PARALLEL, gpus={"2": 1, "4": 1, "8": 1}, elastic=None
    ),
    "figure-13": _scenario(
        _TESTBED, source="dynamic", jobs=12, present=8, arrive_s=60, gap_s=10, models=[*_MODELS, _DLRM, _RESNET50],
        gpus={"3": 1, "4": 1, "5": 1, "6": 1}, shortest_s=120,
    ),
    "figure-14": _scenario(
        _LARGE, source="dynamic", jobs=10, present=6, arrive_s=60, gap_s=10, models=_PARALLEL,
        gpus={"2": 1, "4": 1, "8": 1}, elastic=None,
    ),
    "figure-16": _scenario(
        {**_TESTBED, "servers": 6}, source="dynamic", jobs=8, present=4, arrive_s=60, gap_s=10,
        models=["xlm", _RESNET50, _DLRM, _VGG16, "bert-base"], gpus={"3": 1}, elastic=None,
    ),
    "sweep": _scenario(
        _TESTBED, source="poisson", jobs=30, load=0.9, models=[VGG19], gpus={"3": 1}, elastic=None, apps=True,
    ),
}  # fmt: skip


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
    rule, slow = (some_effect(1.0), True) if published is None else (on_that_side(1.0), False)
    key = f"iteration_{metric}_s"

    def measure(other: str) -> Callable[[_CassiniRuns], Measured]:
        return lambda lab: lab.ratio(figure, stack, f"{stack}+{other}", key)

    what = f"{figure}: {metric} iteration time, {stack} over {stack}+cassini"
    if published is None:
        what += " (not in the paper)"
    found = {f"{figure}.{stack}.{metric}": _Check(what, published, "x", measure("cassini"), rule, slow=slow)}
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
        f"{figure}.{stack}.restarts.plain": _unjudged(f"{what} alone (not in the paper)", 0.0, "", restarts(stack))
    }
    for name, other in {"": "cassini", **CONTROLS}.items():
        words, dot = (f": control, {_WORDS[name]}", f".{name}") if name else ("", "")
        found |= {
            f"{figure}.{stack}.jct{dot}": _unjudged(
                f"{figure}: mean JCT, {stack} over {stack}+cassini (not in the paper){words}", 1.0, "x", jct(other)
            ),
            f"{figure}.{stack}.restarts{dot}": _unjudged(
                f"{what}+cassini (not in the paper){words}", 0.0, "", restarts(f"{stack}+{other}")
            ),
        }
    return found


def _unjudged(what: str, published: float | None, unit: str, measure: Callable[[_CassiniRuns], Measured]) -> _Check:
    return _Check(what, published, unit, measure, lambda p, m: "not judged", slow=True)


def _ecn(figure: str, stack: str, published: float, runs: str = "", model: str = "") -> _Check:
    what = f"{figure}: ECN marks per iteration (an estimate), {stack} over {stack}+cassini"
    if model:
        what += f", {model}"
    what += " (direction: at least 2; 1000: none left)"
    return _Check(what, published, "x", lambda lab: lab.ecn(runs or figure, stack, model), _at_least(2.0), slow=True)


def _dlrm(stack: str) -> _Check:
    what = f"figure-13: mean iteration time of DLRM, {stack} over {stack}+cassini (no number published)"
    other = f"{stack}+cassini"
    return _Check(
        what, None, "x", lambda lab: lab.of_model("figure-13", stack, other, _DLRM), some_effect(1.0), slow=True
    )


def _beside(
    figure: str, stack: str, other: str, metric: str, published: float | None, words: str, rule: Rule
) -> _Check:
    what = f"{figure}: {metric} iteration time, {stack} over {other} ({words})"
    return _Check(
        what, published, "x", lambda lab: lab.ratio(figure, stack, other, f"iteration_{metric}_s"), rule, slow=True
    )


def _at_least(least: float) -> Rule:
    known = graded(lambda published, measured: measured.value is not None and measured.value >= least)
    return lambda published, measured: "not judged" if measured.value is None else known(published, measured)


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
        how = "fitted" if snapshot.fitted else "predicted"
        key = f"table-2.snapshot-{number}"
        found[f"{key}.score"] = _Check(
            f"snapshot {number} ({how}): score", snapshot.score, "", score(number), nearly, seeded=False
        )
        for job in snapshot.jobs:
            slug = job.name.lower().replace("'", "-2")
            for word, value, shifted in (("themis", job.themis_ms, False), ("cassini", job.cassini_ms, True)):
                what = f"snapshot {number} ({how}): communication time of {job.name}, {word}"
                measure = comm(number, job.name, shifted)
                found[f"{key}.{slug}.{word}"] = _Check(what, value, "ms", measure, nearly, seeded=False)
        for job in snapshot.jobs[1:]:
            slug = job.name.lower().replace("'", "-2")
            what = f"snapshot {number} ({how}): time-shift of {job.name}"
            found[f"{key}.{slug}.shift"] = _Check(
                what, job.shift_ms, "ms", shift(number, job.name), nearly, seeded=False
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
        "Figure 2: time-shift (the period is read from it)", 120.0, "ms", _figure_2_shift, nearly, seeded=False
    ),
    **_snapshot_claims(),
    **{
        name: check
        for figure, stack, metric, published in (
            ("figure-11", "themis", "mean", 1.6), ("figure-11", "themis", "p99", 1.8),
            ("figure-11", "pollux", "mean", 1.6), ("figure-11", "pollux", "p99", 1.8),
            ("figure-12", "themis", "mean", 1.2), ("figure-12", "themis", "p99", 1.6),
            ("figure-12", "pollux", "mean", None), ("figure-12", "pollux", "p99", None),
            ("figure-13", "themis", "mean", 1.5), ("figure-13", "themis", "p99", 2.2),
            ("figure-13", "pollux", "mean", 1.6), ("figure-13", "pollux", "p99", 2.5),
            ("figure-14", "themis", "mean", 1.2), ("figure-14", "themis", "p99", 1.6),
            ("figure-14", "pollux", "mean", 1.2), ("figure-14", "pollux", "p99", 1.6),
            ("figure-16", "themis", "mean", 1.4), ("figure-16", "themis", "p99", 1.9),
            ("sweep", "themis", "mean", None), ("sweep", "themis", "p99", None),
            ("sweep", "pollux", "mean", None), ("sweep", "pollux", "p99", None),
        )
        for name, check in _times(figure, stack, metric, published).items()
    },
    **{
        name: check
        for figure in ("figure-11", "figure-12", "figure-13", "figure-14", "figure-16", "sweep")
        for stack in ("themis", "pollux")[: 1 if figure == "figure-16" else 2]
        for name, check in _costs(figure, stack).items()
    },
    **{
        f"{figure}.ideal.{metric}": _beside(
            figure, "themis+cassini", "ideal", metric, 1.0, "similar in the paper", nearly
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
    "figure-13.themis.ecn": _ecn("figure-13", "themis", 27.0, model=_DLRM),
    "figure-13.pollux.ecn": _ecn("figure-13", "pollux", 33.0, model=_DLRM),
    "figure-14.themis.ecn": _ecn("figure-14", "themis", 29.0),
    "figure-19.themis.ecn": _ecn("figure-19 (no number; runs of figure-11)", "themis", 2.0, runs="figure-11"),
    "figure-19.pollux.ecn": _ecn("figure-19 (no number; runs of figure-11)", "pollux", 2.0, runs="figure-11"),
    **{
        f"figure-17.snapshot-{n}": _Check(
            f"Figure 17: adjustments per minute and job, snapshot {n}, 1 % jitter (reproduced: fewer than 2)", 2.0,
            "/min", _figure_17(n), lambda published, found: found.value is not None and found.value < published,
        )
        for n in (1, 2, 3)
    },
    "figure-18.accuracy": _Check(
        "Figure 18: snapshots in which a grid of 5 degrees is as good as exact rotations", 100.0, "%", _figure_18,
        nearly, seeded=False,
    ),
}  # fmt: skip


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
