"""What Titan's text states beside the numbers of its experiments: orders of methods, panels of the testbed, the paper's
own workflow, and a stage time that binds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from weft_evidence.checks import (
    LabCheck,
    Rule,
    bounded,
    compared,
    in_place,
    near,
    nearly,
    on_that_side,
    place_of,
    some_effect,
)
from weft_evidence.claims import Kind, Measured, published
from weft_evidence.titan.runs import DEALT, FREE, MODELS, SIZES, STAGED, Testbed, on_testbed, place_on_testbed

PUBLISHED = published("titan")
OTHERS = ("elasticflow", "tiresias", "hived")
_Seeds = Sequence[Mapping[str, Mapping[str, float]]]  # seed by seed, by placer and by the name of the number


class Part(StrEnum):
    """What a claim is checked on."""

    EXAMPLE = "a worked example"
    TESTBED = "the testbed"
    TRACE = "a trace"
    STATES = "random states, beside the exact solver"


@dataclass(frozen=True)
class Check(LabCheck[Any]):
    """A claim, and what it is checked on."""

    part: Part = Part.EXAMPLE


# Traces


def _values(seeds: _Seeds, placer: str, metric: str) -> list[float | None]:
    return [numbers[placer][metric] for numbers in seeds]


def _order(what: str, trace: str, pairs: Sequence[tuple[str, str]], metric: str) -> Check:
    """Pairs with the smaller mean first, between those that are so beyond chance and those that are not the other way
    round."""

    def measure(lab: Any) -> Measured:
        seeds = lab.traces.of(trace)
        found = [compared(_values(seeds, a, metric), _values(seeds, b, metric)) for a, b in pairs]
        return Measured(
            float(sum(mean < 0.0 for mean, _ in found)),
            (float(sum(side < 0 for _, side in found)), float(sum(side <= 0 for _, side in found))),
        )

    words = f"{trace.replace('-', ' ')}: {what} (all {len(pairs)} pairs)"
    return Check(words, float(len(pairs)), "pairs", measure, in_place, part=Part.TRACE)


def _ratio(
    what: str, trace: str, stacks: tuple[str, str], metric: str, number: float | None, rule: Rule,
    percent: bool = False, kind: Kind | None = None,
) -> Check:  # fmt: skip
    """A metric of one placer over that of another, or how much of it is saved in per cent."""
    placer, other = stacks

    def measure(lab: Any) -> Measured:
        seeds = lab.traces.of(trace)
        pairs = zip(_values(seeds, placer, metric), _values(seeds, other, metric), strict=True)
        ratios = [a / max(b, 1e-12) for a, b in pairs if a is not None and b is not None]
        return Measured.over_seeds([100.0 * (1.0 - r) for r in ratios] if percent else ratios)

    unit = "%" if percent else "x"
    words = f"{trace.replace('-', ' ')}: {what}"
    return Check(words, number, unit, measure, rule, part=Part.TRACE, kind=kind)


def _highest(trace: str) -> Check:
    def measure(lab: Any) -> Measured:
        seeds = lab.traces.of(trace)
        mine, *others = (
            _values(seeds, name, "fragmentation@arrivals") for name in ("elasticflow", "titan", *OTHERS[1:])
        )
        return place_of(mine, others, most_first=True)

    words = f"{trace.replace('-', ' ')}: place of ElasticFlow by fragmentation, the highest first"
    return Check(words, 1.0, "place", measure, in_place, part=Part.TRACE)


def _all_pairs(*placers: str) -> list[tuple[str, str]]:
    return [(a, b) for i, a in enumerate(placers) for b in placers[i + 1 :]]


def _gain(lab: Any) -> Measured:
    key = "profit_rate@arrivals"
    return Measured.over_seeds(
        [100.0 * (n["titan"][key] / max(n["hived"][key], 1e-12) - 1.0) for n in lab.traces.of("trace-2")]
    )


_USED, _LOST, _SENT, _RATE = (f"{key}@arrivals" for key in ("used", "fragmentation", "overhead_gb", "profit_rate"))
_BETWEEN = [(a, b) for a in ("titan", "hived") for b in ("elasticflow", "tiresias")]
TRACES: dict[str, Check] = {
    "abstract.profit-rate": Check(
        "trace 2: gain in profit rate over HiveD, the largest of those printed (up to 74.9 %)", 74.9, "%", _gain,
        bounded(0.0), part=Part.TRACE,
    ),
    "section-v.fragmentation": _ratio(
        "fragmentation, Titan under ElasticFlow (as the highlights have it)", "trace-2", ("titan", "elasticflow"),
        _LOST, 38.1, on_that_side(0.0), percent=True,
    ),
    **{
        f"figure-2.order.{trace}": _order(
            "used machines, Titan and HiveD below ElasticFlow and Tiresias", trace, _BETWEEN, _USED
        )
        for trace in ("trace-1", "trace-2")
    },
    "figure-2a.order": _order(
        "used machines, HiveD, Titan, Tiresias, ElasticFlow", "trace-1",
        _all_pairs("hived", "titan", "tiresias", "elasticflow"), _USED,
    ),
    "exp-1.over-hived": _ratio(
        "used machines, Titan over HiveD", "trace-1", ("titan", "hived"), _USED, 1.04, on_that_side(1.0)
    ),
    **{f"figure-4.highest.{trace}": _highest(trace) for trace in ("trace-1", "trace-2")},
    "figure-4b.order": _order(
        "fragmentation, HiveD, Titan, Tiresias, ElasticFlow", "trace-2",
        _all_pairs("hived", "titan", "tiresias", "elasticflow"), _LOST,
    ),
    "figure-5a.order": _order(
        "bytes across machines, ElasticFlow, Titan, Tiresias, HiveD", "trace-1",
        _all_pairs("elasticflow", "titan", "tiresias", "hived"), _SENT,
    ),
    "figure-6b.order": _order(
        "profit rate, HiveD below Tiresias below ElasticFlow below Titan", "trace-2",
        _all_pairs("hived", "tiresias", "elasticflow", "titan"), _RATE,
    ),
}  # fmt: skip


# The paper's own workflow: communication is added to durations, and nobody contends for links.


def _alone() -> dict[str, Check]:
    found: dict[str, Check] = {}
    for claim, what, metric, key in (
        ("exp-1", "used machines", _USED, "less_used"), ("exp-3", "bytes across machines", _SENT, "less_overhead")
    ):  # fmt: skip
        numbers = dict(PUBLISHED[key])
        if "elasticflow" in numbers:
            numbers[DEALT] = numbers["elasticflow"]
        for name, number in numbers.items():
            found[f"alone.{claim}.over-{name}"] = _ratio(
                f"{what}, Titan under {name}", "alone", ("titan", name), metric, number, on_that_side(0.0), percent=True
            )
    for name, number in PUBLISHED["total"].items():
        found[f"alone.exp-4.total-over-{name}"] = _ratio(
            f"total profit, Titan over {name}", "alone", ("titan", name), "total_profit@arrivals", number,
            on_that_side(1.0),
        )  # fmt: skip
    found["alone.figure-2a.order"] = _order(
        "used machines, HiveD, Titan, Tiresias, ElasticFlow", "alone",
        _all_pairs("hived", "titan", "tiresias", "elasticflow"), _USED,
    )  # fmt: skip
    found["alone.figure-5a.order"] = _order(
        "bytes across machines, ElasticFlow, Titan, Tiresias, HiveD", "alone",
        _all_pairs("elasticflow", "titan", "tiresias", "hived"), _SENT,
    )  # fmt: skip
    return found


# Algorithm 1 with a stage so short that it binds


def _staged() -> dict[str, Check]:
    found: dict[str, Check] = {}
    for trace in ("alone", "stage"):
        for metric, words in (("machine_hours", "machine hours"), ("jct", "mean JCT")):
            found[f"{trace}.stage-3ms.{metric.replace('_', '-')}"] = _ratio(
                f"{words}, a stage of 3 ms under one of 1 s (not in the paper)", trace, (STAGED, "titan"), metric, None,
                some_effect(0.0), percent=True, kind=Kind.OWN,
            )  # fmt: skip
    for name, number in PUBLISHED["less_used"].items():
        found[f"alone.stage-3ms.exp-1.over-{name}"] = _ratio(
            f"used machines, Titan with a stage of 3 ms under {name}", "alone", (STAGED, name), _USED, number,
            on_that_side(0.0), percent=True,
        )  # fmt: skip
    for name, number in PUBLISHED["less_overhead"].items():
        found[f"alone.stage-3ms.exp-3.over-{name}"] = _ratio(
            f"bytes across machines, Titan with a stage of 3 ms under {name}", "alone", (STAGED, name), _SENT, number,
            on_that_side(0.0), percent=True,
        )  # fmt: skip
    return found


# The testbed


def _bed(what: str, number: float, unit: str, of: Callable[[], float], rule: Rule, kind: Kind | None = None) -> Check:
    """A claim about one number of the testbed."""
    return Check(what, number, unit, lambda lab: Measured(of()), rule, seeded=False, part=Part.TESTBED, kind=kind)


def _pairs_of(values: Mapping[str, float], *placers: str) -> int:
    return sum(values[a] < values[b] for a, b in _all_pairs(*placers))


def _panel(of: Callable[[Testbed], float], model: str, workers: int) -> dict[str, float]:
    return {name: of(on_testbed(name, model, workers)) for name in ("titan", *OTHERS)}


def _bed_order(what: str, of: Callable[[Testbed], float], model: str, workers: int, *placers: str) -> Check:
    count = len(_all_pairs(*placers))
    return _bed(
        f"{what} (all {count} pairs)", float(count), "pairs",
        lambda: float(_pairs_of(_panel(of, model, workers), *placers)), in_place,
    )  # fmt: skip


def _least(what: str, placer: str, of: Callable[[Testbed], float]) -> Check:
    """How often a placer has the least of the four, on both models and all numbers of workers."""
    cases = [(model, n) for model in MODELS for n in SIZES]

    def count() -> float:
        found = 0
        for model, n in cases:
            values = _panel(of, model, n)
            found += values[placer] <= min(values.values()) * (1.0 + 1e-9)
        return float(found)

    return _bed(f"{what}, both models, 4 to 12 workers (all {len(cases)})", float(len(cases)), "cases", count, in_place)


def _grows() -> float:
    steps = 0
    for name in ("titan", *OTHERS):
        for model in MODELS:
            times = [on_testbed(name, model, n).comm_s_per_epoch for n in SIZES]
            steps += sum(a < b for a, b in pairwise(times))
    return float(steps)


def _idle_taken(placer: str, model: str, workers: int) -> float:
    return float(sum(FREE[machine] == 4 for machine, _ in place_on_testbed(placer, model, workers)))


def _idle_in_all(placer: str) -> float:
    return sum(_idle_taken(placer, model, n) for model in MODELS for n in SIZES)


def _hours(bed: Testbed) -> float:
    return bed.machine_hours


def _slow(bed: Testbed) -> float:
    return bed.iteration_s


def _sent(bed: Testbed) -> float:
    return bed.comm_s_per_epoch


def _numbers(
    claim: str, what: str, key: str, unit: str, of: Callable[[Testbed], float], model: str, workers: int
) -> dict[str, Check]:
    return {
        f"{claim}.{name}": _bed(
            f"{what}, {name} (other GPUs)", value, unit,
            lambda name=name: of(on_testbed(name, model, workers)), nearly, Kind.CONTROL,  # type: ignore[misc]
        )
        for name, value in PUBLISHED[key].items()
    }  # fmt: skip


def _over(other: str, of: Callable[[Testbed], float], model: str) -> float:
    return of(on_testbed("titan", model, 8)) / of(on_testbed(other, model, 8))


_TIMES = PUBLISHED["accuracy_s"]
TESTBED: dict[str, Check] = {
    "figure-9.least": _least("machine hours, Titan least", "titan", _hours),
    **_numbers("figure-9b.hours", "VGG-16, 8 workers: machine hours", "hours", "h", _hours, "vgg16", 8),
    "figure-9b.order": _bed_order(
        "VGG-16, 8 workers: machine hours, Titan, ElasticFlow, Tiresias, HiveD", _hours, "vgg16", 8, "titan", *OTHERS
    ),
    "figure-10.highest": _least("throughput, ElasticFlow highest", "elasticflow", _slow),
    **_numbers(
        "figure-10a.throughput", "ResNet-50, 12 workers: throughput", "throughput", "images/s",
        lambda bed: bed.throughput, "resnet50", 12,
    ),
    "figure-10a.order": _bed_order(
        "ResNet-50, 12 workers: throughput, ElasticFlow, Titan, Tiresias, HiveD", _slow, "resnet50", 12,
        "elasticflow", "titan", "tiresias", "hived",
    ),
    "figure-11.growth": _bed(
        "communication time grows with the number of workers, all placers, both models (all 32 steps)", 32.0, "steps",
        _grows, in_place,
    ),
    "figure-11.least": _least("communication time, ElasticFlow least", "elasticflow", _sent),
    **_numbers(
        "figure-11b.time", "VGG-16, 8 workers: communication time of an epoch", "comm_s", "s", _sent, "vgg16", 8
    ),
    "figure-11b.order": _bed_order(
        "VGG-16, 8 workers: communication time, Tiresias, ElasticFlow, Titan, HiveD", _sent, "vgg16", 8,
        "tiresias", "elasticflow", "titan", "hived",
    ),
    **{
        f"figure-11b.idle.{name}": _bed(
            f"VGG-16, 8 workers: idle servers that {name} takes", 2.0, "servers",
            lambda name=name: _idle_taken(name, "vgg16", 8), in_place, Kind.FITTED,  # type: ignore[misc]
        )
        for name in ("elasticflow", "tiresias")
    },
    "exp-7.near-tiresias": _bed(
        "VGG-16, 8 workers: communication time, Titan over Tiresias", 8.7 / 8.3, "x",
        lambda: _over("tiresias", _sent, "vgg16"), near(1.0),
    ),
    "figure-12.accuracy-tiresias": _bed(
        "ResNet-50, 8 workers: time to an accuracy, Titan over Tiresias", _TIMES["titan"] / _TIMES["tiresias"], "x",
        lambda: _over("tiresias", _slow, "resnet50"), near(1.0),
    ),
    "figure-12.accuracy-hived": _bed(
        "ResNet-50, 8 workers: time to an accuracy, Titan over HiveD", _TIMES["titan"] / _TIMES["hived"], "x",
        lambda: _over("hived", _slow, "resnet50"), on_that_side(1.0),
    ),
    "figure-12a.order": _bed_order(
        "ResNet-50, 8 workers: time to an accuracy, ElasticFlow, Tiresias, Titan, HiveD", _slow, "resnet50", 8,
        "elasticflow", "tiresias", "titan", "hived",
    ),
    "section-v-b.idle": _bed(
        "idle servers taken on the testbed, both models, 4 to 12 workers: how many of the three take more than Titan",
        3.0, "placers", lambda: float(sum(_idle_in_all(name) > _idle_in_all("titan") for name in OTHERS)), in_place,
    ),
}  # fmt: skip
STATEMENTS: dict[str, Check] = {**TRACES, **_alone(), **_staged(), **TESTBED}
