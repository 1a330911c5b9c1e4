"""Titan (Fang et al.): the example of section II, Exp#1 to #7, Figure 8. The readings are in docs/papers/titan.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from weft.policies.place.pattern import bytes_across, kind_of, pattern_of
from weft_evidence.checks import (
    Rule,
    chosen,
    equal,
    headed,
    in_place,
    judge,
    near,
    nearly,
    on_that_side,
    place_of,
)
from weft_evidence.claims import Kind, Measured, Reproduction, Request, Verdict
from weft_evidence.titan.exact import BOUND, FORMS, Score, compare
from weft_evidence.titan.figures import pictures
from weft_evidence.titan.runs import (
    DEALT,
    FREE,
    HD,
    QUICK_EFFORT,
    QUICK_JOBS,
    STACKS,
    Testbed,
    Traces,
    bed_of,
    is_synthetic,
    on_testbed,
    place_on_testbed,
    testbed_words,
)
from weft_evidence.titan.statements import PUBLISHED, STATEMENTS, Check, Part

TITLE = "Non-idle machine-aware worker placement for efficient distributed training in GPU clusters (Titan)"

PAPER = "titan"
STATES, QUICK_STATES = {False: 3000, True: 2500}, {False: 200, True: 60}  # random states; True: tight ones

NOTES = (
    "Means are over the arrivals of jobs, as the paper has them; claims named over-time have means over time.",
    "Order is first come, first served for all placers; Tiresias is its placement by skew. ElasticFlow is compared "
    "twice: with workers in the order of their ranks, and (elasticflow-dealt) dealt out by the collective's pattern.",
    "Profit: one unit for a GPU hour of computing, over the duration and the machines used; the paper does not give "
    "its own price, so only ratios can be compared.",
    "The testbed's background jobs are not given in numbers; ours leave two of eight servers idle. Jobs of the testbed "
    "are simulated with a global batch of 512 on V100 times; only ratios can be compared.",
)
ARRIVALS = "@arrivals"


@dataclass
class _TitanRuns:
    """What has been run so far."""

    request: Request
    traces: Traces = field(init=False)
    scores: dict[bool, Mapping[str, Score]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.traces = Traces(self.request)

    def score(self, name: str, tight: bool) -> Score:
        """Titan against the exact solver on random states."""
        if tight not in self.scores:
            states = QUICK_STATES if self.request.quick else STATES
            self.scores[tight] = compare(states[tight], self.request.seed, tight)
        return self.scores[tight][name]


_Numbers = Mapping[str, Mapping[str, float]]  # at one seed, by placer and by the name of the number


def _check(
    what: str, published: float | None, unit: str, measure: Callable[[_TitanRuns], float], rule: Rule,
    part: Part = Part.EXAMPLE, kind: Kind | None = None,
) -> Check:  # fmt: skip
    """A claim about one number: no seeds are compared. States for the exact solver are drawn, but each counts."""
    return Check(what, published, unit, lambda lab: Measured(measure(lab)), rule, seeded=False, part=part, kind=kind)


def _traced(
    what: str, published: float, unit: str, trace: str, of: Callable[[_Numbers], float], rule: Rule,
    least: float = -math.inf,
) -> Check:  # fmt: skip
    """A claim about the placers on a trace, seed by seed. `least` is the least value there can be."""

    def measure(lab: _TitanRuns) -> Measured:
        return Measured.over_seeds([of(numbers) for numbers in lab.traces.of(trace)], least)

    return Check(f"{trace.replace('-', ' ')}: {what}", published, unit, measure, rule, part=Part.TRACE)


def _numbers(
    claim: str, what: str, published: Mapping[str, float], unit: str, trace: str, metric: str
) -> dict[str, Check]:
    """A claim for each placer: the published number of a metric on a trace."""

    def number(placer: str) -> Callable[[_Numbers], float]:
        return lambda n: n[placer][metric]

    return {
        f"{claim}.{name}": _traced(f"{what}, {name}", value, unit, trace, number(name), nearly, least=0.0)
        for name, value in published.items()
    }


def _savings(claim: str, what: str, published: Mapping[str, float], trace: str, metric: str) -> dict[str, Check]:
    """A claim for each other placer: how much less of a metric Titan needs."""

    def over(placer: str) -> Callable[[_Numbers], float]:
        return lambda n: 100.0 * (1.0 - n["titan"][metric] / max(n[placer][metric], 1e-12))

    return {
        f"{claim}.over-{name}": _traced(f"{what}, Titan under {name}", value, "%", trace, over(name), on_that_side(0.0))
        for name, value in _both(published).items()
    }


def _gains(claim: str, what: str, published: Mapping[str, float], trace: str, metric: str) -> dict[str, Check]:
    """A claim for each other placer: how many times as much of a metric Titan has."""

    def over(placer: str) -> Callable[[_Numbers], float]:
        return lambda n: n["titan"][metric] / max(n[placer][metric], 1e-12)

    return {
        f"{claim}-over-{name}": _traced(
            f"{what}, Titan over {name}", value, "x", trace, over(name), on_that_side(1.0), least=0.0
        )
        for name, value in _both(published).items()
    }


def _both(published: Mapping[str, float]) -> dict[str, float]:
    """What is said of ElasticFlow is compared with it as it is, and with its ranks dealt out."""
    return {**published, **({DEALT: published["elasticflow"]} if "elasticflow" in published else {})}


def _places(claim: str, what: str, published: float, trace: str, metric: str) -> dict[str, Check]:
    """Titan's place among the four, the least first, with either ElasticFlow."""

    def beside(without: str) -> Callable[[_TitanRuns], Measured]:
        def measure(lab: _TitanRuns) -> Measured:
            by_placer = {
                name: [numbers[name][metric] for numbers in lab.traces.of(trace)] for name in STACKS if name != without
            }
            return place_of(by_placer.pop("titan"), list(by_placer.values()))

        return measure

    words = f"{trace.replace('-', ' ')}: {what}"
    return {
        claim: Check(words, published, "place", beside(DEALT), in_place, part=Part.TRACE),
        f"{claim}.{DEALT}": Check(
            f"{words}, beside {DEALT}", published, "place", beside("elasticflow"), in_place, part=Part.TRACE
        ),
    }


def _bed(
    what: str, published: float, unit: str, of: Callable[[Testbed, Testbed], float], model: str, workers: int,
    over: str, side: float,
) -> Check:  # fmt: skip
    def measure(lab: _TitanRuns) -> float:
        bed = bed_of(lab.request)
        return of(on_testbed("titan", model, workers, **bed), on_testbed(over, model, workers, **bed))

    return _check(what, published, unit, measure, on_that_side(side), Part.TESTBED)


def _near(
    claim: str, what: str, published: float, unit: str, model: str, workers: int,
    of: Callable[[Testbed, Testbed], float], same: float,
) -> dict[str, Check]:  # fmt: skip
    """Titan on the testbed beside either ElasticFlow, to which it is close; `same` if there were no difference."""

    def measure(other: str) -> Callable[[_TitanRuns], float]:
        return lambda lab: of(
            *(on_testbed(placer, model, workers, **bed_of(lab.request)) for placer in ("titan", other))
        )

    return {
        f"{claim}-{name}": _check(f"{what} {name}", published, unit, measure(name), near(same), Part.TESTBED)
        for name in ("elasticflow", DEALT)
    }


def _section_ii(placer: str, published: float) -> Check:
    """Machines with 4, 3, 2 and 1 of 4 GPUs free; 4 workers. HiveD's rule and Titan's choice among equals come from
    here; who places all workers on one machine sends nothing."""

    def measure(lab: _TitanRuns) -> float:
        import numpy as np

        from weft.model.profile import Phase, Profile
        from weft.policies.place.hived import fragments_first
        from weft.policies.place.titan import StageLimits, solve

        free = np.array([4, 3, 2, 1])
        kind = kind_of(Profile.from_phases("p", [Phase(1.0), Phase(bytes=1.0)], 4), HD)
        where = [0] * 4
        if placer == "hived":
            shares = fragments_first(free, np.full(4, 4), np.zeros(4, dtype=np.int64), 4)
            where = [machine for machine, count in shares for _ in range(count)]
        elif placer == "titan":
            for machine, ranks in solve(kind, free, free == 4, StageLimits(np.inf, lambda a, b: np.inf)) or ():
                for rank in ranks:
                    where[rank] = machine
        return bytes_across(pattern_of(kind), where)

    kind = Kind.CONSTRUCTION if placer == "elasticflow" else Kind.INPUT
    return _check(f"section II: bytes across machines with {placer}", published, "K", measure, equal, kind=kind)


def _left_idle(workers: int) -> Callable[[_TitanRuns], float]:
    def measure(lab: _TitanRuns) -> float:
        used = {machine for machine, _ in place_on_testbed("titan", "resnet50", workers)}
        return float(sum(FREE[m] == 4 and m not in used for m in range(8)))

    return measure


def _at_least(published: float, measured: Measured) -> Verdict:
    """A published bound has no size that could be reproduced: where it is kept, that is a direction."""
    return "direction" if measured.value is not None and measured.value >= published - 1e-9 else "no"


_AT_LEAST = Rule(_at_least, Kind.DIRECTION)


def _exact(name: str, tight: bool) -> dict[str, Check]:
    """The bounds of the theorems. The paper's algorithm is the printed one; the others are our changes of it."""
    slug = f"exact{'-tight' * tight}.{name.replace(':', '-')}"
    where, kind = "tight states" if tight else "states", None if name == "titan:printed" else Kind.OWN
    return {
        f"{slug}.bound-broken": _check(
            f"{name}: random {where} in which the bound of Theorems 4 and 5 does not hold", 0.0, "states",
            lambda lab: float(lab.score(name, tight).bound_broken), equal,
            Part.STATES, kind or Kind.DIRECTION,
        ),
        f"{slug}.idle-ratio": _check(
            f"{name}: the least C_max - idle machines over C_max - optimum, random {where} (1 - 1/e or more)",
            100.0 * BOUND, "%", lambda lab: 100.0 * lab.score(name, tight).idle_ratio, _AT_LEAST, Part.STATES, kind,
        ),
        f"{slug}.ratio": _check(
            f"{name}: the same for all machines, random {where} (1 - 1/e or more)",
            100.0 * BOUND, "%", lambda lab: 100.0 * lab.score(name, tight).ratio, _AT_LEAST, Part.STATES, kind,
        ),
    }  # fmt: skip


def _times(a: Testbed, b: Testbed) -> float:
    return a.iteration_s / b.iteration_s


def _means(prefix: str = "", when: str = ARRIVALS) -> dict[str, Check]:
    """Exp#1 to #4, averages over arrivals or over time."""
    words = "" if when else " (mean over time)"
    profit = PUBLISHED["profit"]
    rates = {name: profit["titan"] / profit[name] for name in ("elasticflow", "tiresias", "hived")}
    found: dict[str, Check] = {}
    for claim, what, metric, unit, trace, key, less in (
        ("exp-1", "used machines", "used", "machines", "trace-1", "used", "less_used"),
        ("exp-2", "fragmentation", "fragmentation", "%", "trace-2", "fragmentation", "less_fragmentation"),
        ("exp-3", "bytes across machines", "overhead_gb", "GB", "trace-1", "overhead", "less_overhead"),
    ):
        mean = {"used": "mean used machines", "fragmentation": "fragmentation rate"}.get(metric, what)
        found |= _numbers(f"{claim}.{key}", f"{mean}{words}", PUBLISHED[metric], unit, trace, f"{metric}{when}")
        found |= _savings(claim, f"{what}{words}", PUBLISHED[less], trace, f"{metric}{when}")
    found |= _places(
        "exp-3.place", f"Titan's place by bytes across machines, ElasticFlow first{words}", 2.0, "trace-1",
        f"overhead_gb{when}",
    )  # fmt: skip
    found |= _gains("exp-4.rate", f"profit rate{words}", rates, "trace-2", f"profit_rate{when}")
    found |= _gains("exp-4.total", f"total profit{words}", PUBLISHED["total"], "trace-1", f"total_profit{when}")
    return {f"{prefix}{name}": check for name, check in found.items()}


_NONE = Rule(lambda published, measured: "direction" if measured.value == 0.0 else "no", Kind.DIRECTION)
CLAIMS: dict[str, Check] = {
    **{
        f"section-ii.{name}": _section_ii(name, k) for name, k in (("elasticflow", 0.0), ("hived", 1.5), ("titan", 1.0))
    },
    "figure-8.idle": _check(
        "Figure 8: servers left idle by Titan, 12 workers", 1.0, "servers", _left_idle(12), equal, kind=Kind.FITTED
    ),
    "figure-8.none": _check(
        "Figure 8: idle servers that Titan takes, 8 workers (none; not in the text)", None, "servers",
        lambda lab: 2.0 - _left_idle(8)(lab), _NONE, kind=Kind.OWN,
    ),
    **_means(),
    **_means("over-time.", ""),
    **_places("exp-1.machine-hours", "Titan's place by machine hours", 1.0, "trace-1", "machine_hours"),
    **_places("exp-1.machine-hours-2", "Titan's place by machine hours", 1.0, "trace-2", "machine_hours"),
    **{
        f"exp-5.over-{over}": _bed(
            f"VGG-16, 8 workers: machine hours, Titan under {over}", value, "%",
            lambda a, b: 100.0 * (1.0 - a.machine_hours / b.machine_hours), "vgg16", 8, over, 0.0,
        )
        for over, value in _both(PUBLISHED["machine_hours"]).items()
    },
    **_near(
        "exp-6.near", "ResNet-50, 12 workers: throughput, Titan over", 99.3, "%", "resnet50", 12,
        lambda a, b: 100.0 / _times(a, b), 100.0,
    ),
    "exp-6.over-hived": _bed(
        "ResNet-50, 12 workers: throughput, Titan over HiveD", 4389 / 2610, "x", lambda a, b: 1.0 / _times(a, b),
        "resnet50", 12, "hived", 1.0,
    ),
    **_near(
        "exp-7.near", "VGG-16, 8 workers: communication time, Titan over", 8.7 / 8.4, "x", "vgg16", 8,
        lambda a, b: a.comm_s_per_epoch / b.comm_s_per_epoch, 1.0,
    ),
    "exp-7.under-hived": _bed(
        "VGG-16, 8 workers: communication time, HiveD over Titan", 12 / 8.7, "x", lambda a, b: b.comm_s / a.comm_s,
        "vgg16", 8, "hived", 1.0,
    ),
    **_near(
        "figure-12.accuracy", "ResNet-50, 8 workers: time to an accuracy, Titan over", 3486 / 3147, "x", "resnet50", 8,
        _times, 1.0,
    ),
}  # fmt: skip
for _tight in (False, True):
    for _form in FORMS:
        CLAIMS |= _exact(_form, _tight)
CLAIMS = headed(PAPER, CLAIMS | STATEMENTS)


def reproduce(request: Request) -> Reproduction:
    """Check the claims that were asked for, all by default."""
    names, _ = chosen(request, CLAIMS)
    lab = _TitanRuns(request)
    claims = []
    for name in names:
        seeds = f"--seeds {len(lab.traces.seeds)} --seed {request.seed}"
        command = f"weft reproduce {PAPER} --claim {name} {seeds}{' --quick' * request.quick} --json"
        claim = judge(name, CLAIMS[name], CLAIMS[name].measure(lab), PAPER, command, lab.traces.seeds)
        if CLAIMS[name].part is Part.STATES and claim.holds and request.quick:
            claim = replace(claim, verdict="not judged")  # one state refutes a bound; a few that keep it show nothing
        claims.append(replace(claim, what=_labelled(claim.what)))
    quick = (
        (
            f"quick: the first {QUICK_JOBS} jobs of each trace, run.effort {QUICK_EFFORT:g}, 260 states for the exact "
            "solver.",
        )
        if request.quick
        else ()
    )
    notes = (_sources(), *NOTES, *quick, *_words(lab), *dict.fromkeys(lab.traces.notes))
    testbed = any(CLAIMS[name].part is Part.TESTBED for name in names)
    return Reproduction(PAPER, tuple(claims), notes, pictures(lab.traces, request, testbed, _labelled))


def _sources() -> str:
    """Where the jobs of the traces come from."""
    first = "drawn from the published figures of ElasticFlow's (synthetic)" if is_synthetic("trace-1") else (
        "ElasticFlow's as published now (69,351 jobs; the paper says 69,742)"
    )  # fmt: skip
    second = "drawn from the published figures of Acme's (synthetic)" if is_synthetic("trace-2") else "Acme's"
    return f"Trace 1 is {first}, trace 2 is {second}. Seeds draw the models of the jobs."


def _labelled(what: str) -> str:
    """Words about a trace say so where its jobs are drawn, not read."""
    for trace in ("trace-1", "trace-2"):
        for written in (trace, trace.replace("-", " ")):
            if what.startswith(f"{written}:") and is_synthetic(trace):
                return what.replace(written, f"{written} (synthetic)", 1)
    return what


def _words(lab: _TitanRuns) -> list[str]:
    """The comparison with the exact solver, and the placements on the testbed, in words."""
    lines = testbed_words()
    shown = [(tight, name, s) for tight, scores in lab.scores.items() for name, s in scores.items()]
    for tight, name, s in shown:
        lines.append(
            f"{name} on {s.states} random {'tight ' * tight}states, {s.solvable} with a solution: found in "
            f"{100 * s.found:.1f} %, idle machines optimal in {100 * s.idle_optimal:.1f} %, both in "
            f"{100 * s.all_optimal:.1f} %; worst gap {s.worst_idle_gap} idle, {s.worst_gap} in all; "
            f"bound broken in {s.bound_broken}."
        )
    return lines
