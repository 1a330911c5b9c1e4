"""Crux (Cao et al., SIGCOMM 2024): its two examples, its small cases beside the optimum, and moments of its trace.

The readings are those of docs/papers/crux/README.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean

from weft.policies.crux import Load, correction, gpu_use, play, ranked
from weft.runs.run import Task, run_grid
from weft_evidence.checks import (
    LabCheck,
    bounded,
    chosen,
    equal,
    graded,
    headed,
    judge,
    nearly,
    on_that_side,
    similar,
    some_effect,
)
from weft_evidence.claims import Kind, Measured, Reproduction, Request, published
from weft_evidence.crux import trace
from weft_evidence.crux.cases import PARTS, Draw, Scored, scores
from weft_evidence.settings import own, scenario_of

TITLE = "Crux: GPU-efficient communication scheduling for deep learning training (SIGCOMM 2024)"

PAPER = "crux"
PUBLISHED = published(PAPER)
SEEDS, CASES, QUICK_CASES = 3, 1500, 150
SPLIT = 10  # parts of the cases, over which their interval is
NOTES = (
    "Which jobs the paper's small cases have is not printed; ours are drawn (crux/cases.py). A choice is compared with "
    "every other one, the rest being Crux's.",
    "The trace has neither models nor placements; models are drawn by size, and a moment of it is played for "
    f"{trace.PLAY_S:g} s. Jobs inside one host send nothing between hosts and are left out.",
    "PCIe, where Crux schedules too, is not simulated.",
)
# Example 1: seconds on the link and of computing, 10 GPUs each. Communication comes first: so the printed figures come
# out, and not the other way round. Example 2: communication starts when half of the computing is done.
LONG, SHORT = Load(10.0, 2.0, 2.0), Load(5.0, 1.0, 1.0)
LIGHT, HEAVY = Load(10.0, 1.0, 4.0, 0.5), Load(30.0, 3.0, 2.0, 0.5)
ONE_S, TWO_S = 12.0, 13.0


@dataclass
class _Lab:
    """What has been run so far."""

    request: Request
    cases: list[dict[str, list[Scored]]] = field(default_factory=list)
    done: dict[str, list[list[dict[str, float]]]] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        return self.request.numbers(SEEDS, SEEDS)

    def scored(self, part: str) -> list[list[Scored]]:
        """The small cases, in `SPLIT` parts."""
        if not self.cases:
            draw = Draw()
            mine = {key: own(self.request, f"cases.{key}", getattr(draw, key)) for key in draw.__dataclass_fields__}
            n = QUICK_CASES if self.request.quick else CASES
            self.cases = [scores(self.request.seed + k, n // SPLIT, Draw.of(mine)) for k in range(SPLIT)]
        return [each[part] for each in self.cases]

    def moments(self, name: str) -> list[list[dict[str, float]]]:
        """A stack at the moments of each seed."""
        if name not in self.done:
            given = scenario_of(self.request, trace.scenario())
            n = trace.QUICK_MOMENTS if self.request.quick else trace.MOMENTS
            tasks = [
                Task(given, trace.LAYERS[name], seed, part=trace.task_part(number, name))
                for seed in self.seeds
                for number in range(n)
            ]
            found = run_grid(tasks, self.request.workers, trace.play, self.request.on_progress)
            self.done[name] = [found[i * n : (i + 1) * n] for i in range(len(self.seeds))]
        return self.done[name]

    def use(self, name: str) -> list[float]:
        """GPU use by seed, on average over its moments."""
        return [fmean(moment["use"] for moment in each) for each in self.moments(name)]


_Check = LabCheck[_Lab]


def _example_1(first: Load, second: Load) -> Measured:
    idle = [idle_s for _, idle_s in play(first, second, ONE_S, sending=True)]
    return Measured(round(100.0 * gpu_use([first, second], idle, ONE_S), 1))


def _examples() -> dict[str, _Check]:
    one, two = PUBLISHED["example-1"], PUBLISHED["example-2"]
    k = correction(SHORT, LONG, ONE_S, sending=True)

    def told(
        what: str, value: float, unit: str, of: Callable[[], float | Measured], kind: Kind | None = None
    ) -> _Check:
        def measure(lab: _Lab) -> Measured:
            found = of()
            return found if isinstance(found, Measured) else Measured(found)

        return _Check(what, value, unit, measure, equal, seeded=False, kind=kind)

    return {
        "example-1.job-1-first": told(
            "Example 1: GPU use, job 1 first", one["first-1"], "%", lambda: _example_1(LONG, SHORT)
        ),
        "example-1.job-2-first": told(
            "Example 1: GPU use, job 2 first", one["first-2"], "%", lambda: _example_1(SHORT, LONG)
        ),
        "example-1.k": told("Example 1: correction factor of job 2", one["k"], "", lambda: k),
        "example-1.priority": told("Example 1: priority of job 2", one["priority"], "", lambda: k * SHORT.intensity),
        "example-2.job-1-first": told(
            "Example 2: idle seconds of job 2, job 1 first (we chose when it ends)", two["first-1"], "s",
            lambda: play(LIGHT, HEAVY, TWO_S)[1][1], Kind.FITTED,
        ),
        "example-2.job-2-first": told(
            "Example 2: idle seconds of job 2, job 2 first (we chose when it ends)", two["first-2"], "s",
            lambda: play(HEAVY, LIGHT, TWO_S)[0][1], Kind.FITTED,
        ),
        "example-2.order": told(
            "Example 2: the job that goes first", 2.0, "", lambda: 1.0 + (ranked({0: LIGHT, 1: HEAVY})[0] == 1)
        ),
    }  # fmt: skip


def _lost(part: str, random: bool, lab: _Lab) -> Measured:
    """Per cent of the best GPU use that are lost."""
    return Measured.over_seeds(
        [fmean(100.0 - (one.random_share if random else one.share) for one in some) for some in lab.scored(part)], 0.0
    )


def _saved(part: str, lab: _Lab) -> Measured:
    """Of what a choice at random loses, how much Crux does not."""
    pairs = [
        (fmean(o.best - o.crux for o in some), fmean(o.best - o.random for o in some)) for some in lab.scored(part)
    ]
    return Measured.over_seeds([100.0 * (1.0 - mine / chance) if chance else None for mine, chance in pairs])


def _no_worse(value: float, measured: Measured) -> bool:
    """As near to the optimum as is printed, or nearer."""
    return measured.ci95[1] is not None and measured.ci95[1] <= value


def _optimum() -> dict[str, _Check]:
    found: dict[str, _Check] = {}
    for part in PARTS:
        words = f"small cases, {part}: GPU use lost beside the best of all"
        value = 100.0 - PUBLISHED["optimum"][part]
        found[f"optimum.{part}"] = _Check(
            f"{words} (direction: no more than printed)", value, "%", partial(_lost, part, False), graded(_no_worse)
        )
        found[f"optimum.{part}.random"] = _Check(
            f"{words}: control, a choice at random", None, "%", partial(_lost, part, True), nearly, kind=Kind.CONTROL
        )
        found[f"optimum.{part}.saved"] = _Check(
            f"small cases, {part}: of what a choice at random loses, how much Crux saves (not in the paper)", None, "%",
            partial(_saved, part), some_effect(0.0), kind=Kind.OWN,
        )  # fmt: skip
    return found


def _more(name: str, other: str, lab: _Lab) -> Measured:
    """By how many per cent GPU use is higher."""
    pairs = zip(lab.use(name), lab.use(other), strict=True)
    return Measured.over_seeds([100.0 * (a / b - 1.0) for a, b in pairs])


def _starved(lab: _Lab) -> Measured:
    """The least part of its time in which any job computes, at the worst moment of each seed."""
    return Measured.over_seeds([100.0 * min(m["least"] for m in each) for each in lab.moments("full")])


def _ratio(name: str, other: str, lab: _Lab) -> Measured:
    return Measured.over_seeds([a / b for a, b in zip(lab.use(name), lab.use(other), strict=True)])


def _trace() -> dict[str, _Check]:
    clos = PUBLISHED["clos"]
    found: dict[str, _Check] = {}
    for other in ("sincronia", "taccl", "cassini"):
        late = other == "cassini"
        found[f"trace.full-over-{other}"] = _Check(
            f"trace: GPU use, Crux over {other} ({clos['least']:g} to {clos['most']:g} % on a Clos)", clos["least"],
            "%", partial(_more, "full", other), bounded(0.0), slow=late,
        )  # fmt: skip
        found[f"trace.pa-over-{other}"] = _Check(
            f"trace: GPU use, Crux's priorities alone over {other}", PUBLISHED["day-1"][other], "%",
            partial(_more, "pa", other), on_that_side(0.0), slow=late,
        )  # fmt: skip
    found["trace.ps-pa-over-pa"] = _Check(
        "trace: GPU use, with Crux's paths too over its priorities alone (printed for the busiest hours)",
        clos["paths"], "%", partial(_more, "ps-pa", "pa"), on_that_side(0.0),
    )  # fmt: skip
    found["trace.full-over-ps-pa"] = _Check(
        "trace: GPU use, eight levels over as many as there are jobs (nearly no loss)", None, "x",
        partial(_ratio, "full", "ps-pa"), similar(1.0),
    )  # fmt: skip
    found["trace.starves"] = _Check(
        "trace: the least part of its time in which any job computes with Crux (none starves)", None, "%", _starved,
        some_effect(0.0),
    )  # fmt: skip
    for name, words in (
        ("full", "Crux"),
        ("ps", "Crux's paths alone"),
        ("spray", "all paths in equal parts, nobody first"),
    ):
        found[f"trace.{name}-over-none"] = _Check(
            f"trace: GPU use, {words} over hashed paths and fair shares: control", None, "%",
            partial(_more, name, "none"), nearly, kind=Kind.CONTROL,
        )  # fmt: skip
    return found


CLAIMS: dict[str, _Check] = headed(PAPER, {**_examples(), **_optimum(), **_trace()})


def reproduce(request: Request) -> Reproduction:
    """Check the claims that were asked for, all by default. Without the trace those about it are left out."""
    names, notes = chosen(request, CLAIMS)
    if not trace.has_trace():
        left = [name for name in names if name.startswith("trace.")]
        names = [name for name in names if name not in left]
        notes += [f"without {trace.TRACE} under WEFT_TRACES, so without trace.*."] if left else []
    lab = _Lab(request)
    claims = []
    for name in names:
        command = f"weft reproduce {PAPER} --claim {name} --seeds {len(lab.seeds)} --seed {request.seed}"
        measured = CLAIMS[name].measure(lab)
        told = f"{command}{' --quick' * request.quick} --json"
        claims.append(judge(name, CLAIMS[name], measured, PAPER, told, lab.seeds))
    if request.quick:
        notes.append(f"quick: {QUICK_CASES} of {CASES} small cases, {trace.QUICK_MOMENTS} of {trace.MOMENTS} moments.")
    return Reproduction(PAPER, tuple(claims), (*NOTES, *notes))
