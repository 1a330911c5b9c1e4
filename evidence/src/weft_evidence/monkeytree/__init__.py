"""MonkeyTree (Zabreyko, Wang and Ghobadi, 2026): Figure 6, slowdowns on 1,024 GPUs by load and system.

The readings are those of docs/papers/monkeytree/README.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from weft_evidence.checks import (
    LabCheck,
    Rule,
    chosen,
    compared,
    headed,
    in_place,
    judge,
    near,
    nearly,
    on_that_side,
    some_effect,
)
from weft_evidence.claims import Kind, Measured, Reproduction, Request, published
from weft_evidence.monkeytree.jobs import gpu_s, mean
from weft_evidence.monkeytree.runs import JOBS, LOADS, QUICK_JOBS, SYSTEMS, Sweep

TITLE = "MonkeyTree: near-minimal congestion for multi-tenant training via migration (2026)"

PAPER = "monkeytree"
PUBLISHED = published(PAPER)
WORST_FIRST = ("ecmp", "crux-released", "perfect", "sglb", "monkeytree")  # as published at a load of 1.0
NOTES = (
    "Jobs and arrivals are those of the released generator, with its seeds. All systems have the same queue, best fit "
    "and first GPUs; only MonkeyTree moves jobs.",
    '"crux-released" is what the released program calls Crux. Crux as published is a control (control.crux).',
    "A slowdown is (end - start) over the iterations alone, a pipeline's bubble among them; Figure 6 starts at 1.000, "
    "which the released formula of an ideal does not.",
)

_Check = LabCheck[Sweep]


def _claim(number: str, load: float, system: str, value: float) -> _Check:
    rule = near(1.0) if value < 1.01 else on_that_side(1.0)
    return _Check(
        f"load {load}: {number} slowdown, {system}", value, "x", lambda lab: lab.pooled(load, system, number),
        _none if value == 1.0 else rule, slow=load != 1.0,
    )  # fmt: skip


def _one(value: float, measured: Measured) -> str:
    """No slowdown at all, to the last printed digit."""
    return "direction" if measured.value is not None and measured.value < 1.0015 else "no"


_none = Rule(_one, Kind.DIRECTION)  # type: ignore[arg-type]


def _figure_6() -> dict[str, _Check]:
    found = {}
    for key, row in PUBLISHED.items():
        number, _, load = key.partition(".")
        for system, value in row.items():
            found[f"figure-6.{number}.{load}.{system}"] = _claim(number, float(load), system, value)
    return found


def _order(load: float, number: str, systems: Sequence[str], lab: Sweep) -> Measured:
    """Pairs of systems in order, the worse first."""
    lab.need([(load, name) for name in systems])
    pairs = [(a, b) for i, a in enumerate(systems) for b in systems[i + 1 :]]
    found = [compared(lab.numbers(load, b, number), lab.numbers(load, a, number)) for a, b in pairs]
    return Measured(
        float(sum(difference < 0.0 for difference, _ in found)),
        (float(sum(side < 0 for _, side in found)), float(sum(side <= 0 for _, side in found))),
    )


def _orders() -> dict[str, _Check]:
    n = len(WORST_FIRST) * (len(WORST_FIRST) - 1) // 2
    found = {
        f"figure-6.order.{number}.{load}": _Check(
            f"load {load}: {number} slowdown, ECMP > their Crux > routing only > SGLB > MonkeyTree (all {n} pairs)",
            float(n), "pairs", partial(_order, load, number, WORST_FIRST), in_place, slow=load != 1.0,
        )
        for load in (0.9, 1.0)
        for number in ("mean", "p99")
    }  # fmt: skip
    for routes in ("ecmp", "crux-released", "sglb", "perfect"):
        other = "monkeytree" if routes == "perfect" else f"monkeytree+{routes}"
        words = f"load 1.0: mean slowdown without MonkeyTree's moves over that with them, {routes}"
        value = PUBLISHED["mean.1.0"][routes] / PUBLISHED["mean.1.0"][other]
        found[f"moves.{routes}"] = _Check(words, value, "x", partial(_over, 1.0, routes, other), on_that_side(1.0))
    return found


def _over(load: float, system: str, other: str, lab: Sweep) -> Measured:
    lab.need([(load, system), (load, other)])
    pairs = zip(lab.numbers(load, system, "mean"), lab.numbers(load, other, "mean"), strict=True)
    return Measured.over_seeds([a / b for a, b in pairs], least=0.0)


def _unjudged(what: str, unit: str, measure: Callable[[Sweep], Measured], slow: bool = False) -> _Check:
    return _Check(what, None, unit, measure, nearly, slow=slow, kind=Kind.CONTROL)


def _moves(lab: Sweep) -> Measured:
    return Measured.over_seeds(lab.numbers(1.0, "monkeytree", "moves"), least=0.0)


CONTROLS: dict[str, _Check] = {
    "control.spray": _unjudged(
        "load 1.0: mean slowdown if every flow uses all spines in equal parts, nobody moves", "x",
        lambda lab: lab.pooled(1.0, "spray", "mean"),
    ),
    "control.crux": _unjudged(
        "load 1.0: mean slowdown, Crux as published (intensities, k, levels), nobody moves", "x",
        lambda lab: lab.pooled(1.0, "crux", "mean"), slow=True,
    ),
    "control.moves": _unjudged("load 1.0: stops of jobs for moves, in a run", "", _moves),
    "control.true-load": _unjudged(
        "GPU seconds of a mean job alone over those by which the generator makes arrivals", "x",
        lambda lab: Measured(mean(lambda kind, n: n * 550 * kind.alone_s(n)) / gpu_s()),
    ),
}  # fmt: skip
OWN: dict[str, _Check] = {
    "own.crux-levels": _Check(
        "load 1.0: mean slowdown, what is released as Crux over Crux as published", None, "x",
        lambda lab: _over(1.0, "crux-released", "crux", lab), some_effect(1.0), slow=True, kind=Kind.OWN,
    ),
}  # fmt: skip
CLAIMS: dict[str, _Check] = headed(PAPER, {**_figure_6(), **_orders(), **CONTROLS, **OWN})


def reproduce(request: Request) -> Reproduction:
    """Check the claims that were asked for, all by default."""
    names, notes = chosen(request, CLAIMS)
    lab = Sweep(request)
    claims = []
    seeds = lab.repetitions
    for name in names:
        command = f"weft reproduce {PAPER} --claim {name} --seeds {len(seeds)} --seed {request.seed}"
        measured = CLAIMS[name].measure(lab)
        claims.append(
            judge(name, CLAIMS[name], measured, PAPER, f"{command}{' --quick' * request.quick} --json", seeds)
        )
    if request.quick:
        notes.append(f"quick: the first {QUICK_JOBS} jobs of {JOBS}, on a quarter of the ToRs, GPUs and spines.")
    return Reproduction(PAPER, tuple(claims), (*NOTES, *notes))


__all__ = ["CLAIMS", "LOADS", "SYSTEMS", "TITLE", "reproduce"]
