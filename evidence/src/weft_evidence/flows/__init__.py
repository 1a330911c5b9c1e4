"""Flow scheduling (Zhao, Wu and Zhu): Figures 1, 7(b), 8 to 11, 14 and 15 and Table I.

The readings are those of docs/papers/flow-scheduling.md. Figures 7 to 9 and Table I are runs of the shipped scenario
`flows` (its NICs at several speeds), Figure 14 of `flows-cloud`, Figure 15 of `flows-tree` (runs.py); the others are
played in lab.py. What is changed in them to find a cause is in controls.py, claims of our own pace are in beyond.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from weft.scenario.shipped import scenario_path
from weft_evidence.checks import (
    Rule,
    bounded,
    chosen,
    equal,
    headed,
    judge,
    nearly,
    no_more,
    on_that_side,
    some_effect,
)
from weft_evidence.claims import Kind, Measured, Picture, Reproduction, Request, published
from weft_evidence.flows import beyond, orders
from weft_evidence.flows import lab as flows_lab
from weft_evidence.flows.controls import (
    DELAY_MS,
    PUSHES,
    SLOTS_MS,
    bed_controls,
    cloud_controls,
    slot,
    slots,
    tree_controls,
)
from weft_evidence.flows.runs import (
    LEAST,
    MEAN,
    MOST,
    P99,
    QUICK_SEEDS,
    SEEDS,
    ControlRun,
    FlowCheck,
    FlowRuns,
    Setting,
    bed,
    cloud,
    compared,
    faster,
    means,
    others,
    played,
    saved,
    tree,
    who_pays,
)
from weft_evidence.settings import policy_of

if TYPE_CHECKING:
    from weft.results.run import RunResult

TITLE = "Dynamic flow scheduling for DNN training workloads in data centers"
PAPER = "flows"
TCP = ("tcp:cubic", "tcp:reno", "tcp:bbr", "tcp:dctcp")
RESILIENT = ("tcp:bbr", "tcp:dctcp", "tcp:dctcp-ecn")  # the second by RFC 8257, the third as in older kernels
PS = flows_lab.TWO_SERVERS
PUBLISHED = published("flows")

_A_SAVING = on_that_side(0.0)
_MORE_THAN_NOTHING = some_effect(0.0)  # the paper gives no number, or one that our copy does not show


def _saving(
    what: str, published: float | None, a: Setting, b: Setting, metric: Callable[[RunResult], float] = MEAN,
    rule: Rule = _A_SAVING, controls: tuple[ControlRun, ...] = (),
) -> FlowCheck:  # fmt: skip
    """That a metric is smaller than in another setting at the same seed, by so many percent."""
    return FlowCheck(what, published, "%", lambda lab: saved(lab, a, b, metric), rule, needs=(a, b), controls=controls)


def _faster(
    what: str, published: float | None, model: str, a: Setting, b: Setting, slow: bool = False,
    changed: tuple[tuple[str, Setting], ...] = (), alone: tuple[Setting, Setting] | None = None,
) -> FlowCheck:  # fmt: skip
    """By how much a model trains faster than in another setting at the same seed; also with things changed, and both
    without the traffic of others."""
    speed = partial(faster, model=model)
    without = (compared("without cross traffic", *alone, speed),) if alone else ()
    return FlowCheck(
        what, published, "%", lambda lab: speed(lab, a, b), _MORE_THAN_NOTHING if published is None else _A_SAVING,
        slow=slow, needs=(a, b),
        controls=(*without, *(compared(words, other, b, speed) for words, other in changed)),
    )  # fmt: skip


def _played(
    what: str, published: float | None, unit: str, measure: Callable[[], float], rule: Rule,
    controls: tuple[ControlRun, ...] = (), kind: Kind | None = None,
) -> FlowCheck:  # fmt: skip
    return FlowCheck(what, published, unit, lambda lab: Measured(measure()), rule, controls=controls, kind=kind)


def _best_slot(lab: FlowRuns) -> Measured:
    """The slot with the least mean JCT, and from which to which slot that may be chance."""
    found = {ms: lab.mean_s(slot(ms)) for ms in SLOTS_MS}
    best = min(found, key=found.__getitem__)
    ahead = {ms: saved(lab, slot(best), slot(ms)).ci95[0] for ms in SLOTS_MS if ms != best}
    perhaps = [best, *(ms for ms, least in ahead.items() if least is None or least <= 0.0)]
    return Measured(float(best), (float(min(perhaps)), float(max(perhaps))))


def _lossy(
    what: str, published: float | None, unit: str, of: Callable[[Callable[[str, float], float]], float], rule: Rule
) -> FlowCheck:  # fmt: skip
    """Figure 10: one VGG16 job over parameter servers on 25 Gbit/s; `of` is given its speed by pace and loss."""

    def measure(lab: FlowRuns) -> Measured:
        return Measured(
            of(lambda pace, loss: flows_lab.speed(f"vgg16{PS}", policy_of(lab.request, "pace", pace), loss))
        )

    return FlowCheck(what, published, unit, measure, rule)


def _slower(pace: str, loss: float) -> Callable[[Callable[[str, float], float]], float]:
    return lambda speed: 100.0 * (1.0 - speed(pace, loss) / speed(pace, 0.0))


def _loss_claims() -> dict[str, FlowCheck]:
    """Figure 10."""
    return {
        **{
            f"figure-10.{pace.removeprefix('tcp:')}": _lossy(
                f"0.2 % loss: VGG16 trains slower with {pace}", PUBLISHED["figure-10"]["tcp"], "%",
                _slower(pace, 0.002), nearly,
            )
            for pace in TCP[:2]
        },
        "figure-10.flow": _lossy(
            "1 % loss: VGG16 trains slower with flow (direction: no more than published and a tenth)",
            PUBLISHED["figure-10"]["flow"], "%", _slower("flow", 0.01), no_more(1.1),
        ),
        "figure-10.over-cubic": _lossy(
            "1 % loss: VGG16 with flow over tcp:cubic", PUBLISHED["figure-10"]["over-cubic"], "x",
            lambda speed: speed("flow", 0.01) / speed("tcp:cubic", 0.01), on_that_side(1.0),
        ),
        **{
            f"figure-10.{pace.removeprefix('tcp:')}-holds-better": _lossy(
                f"0.2 % loss: VGG16 with {pace} over tcp:cubic (by more than 1 %; no number given)", None, "x",
                lambda speed, pace=pace: speed(pace, 0.002) / speed("tcp:cubic", 0.002),  # type: ignore[misc]
                some_effect(1.01),
            )
            for pace in RESILIENT
        },
    }  # fmt: skip


def _meeting_claims() -> dict[str, FlowCheck]:
    """Figures 1 and 11: who sends when on one NIC."""
    two, beside = flows_lab.two_on_a_nic, flows_lab.beside_foreign

    def apart(pace: str, nic: float = flows_lab.NIC_GBPS) -> float:
        return 100.0 * (1.0 - two(pace, nic_gbps=nic).both / two("tcp:cubic", nic_gbps=nic).both)

    def quicker(pace: str, nic: float = flows_lab.NIC_GBPS) -> float:
        ours, theirs = (sum(two(p, nic_gbps=nic).iteration_s) for p in (pace, "tcp:cubic"))
        return 100.0 * (1.0 - ours / theirs)

    return {
        "figure-1.crowded": _played(
            "VGG19 and ResNet50 on one NIC with tcp:cubic: share of its sending time that it is asked for more than it "
            "has (more than 0; drawn, not given)", None, "%",
            lambda: 100.0 * two("tcp:cubic").crowded, _MORE_THAN_NOTHING,
        ),
        "figure-11a.crowded": _played(
            "the same with flow (a plan is a limit, so it is 0)", None, "%", lambda: 100.0 * two("flow").crowded,
            nearly, kind=Kind.CONSTRUCTION,
        ),
        "figure-11a.both": _played(
            "share of the sending time in which both jobs send, flow under tcp:cubic (drawn, not given)", None, "%",
            lambda: apart("flow"), _MORE_THAN_NOTHING,
            (
                played("slots of 10 ms", lambda: apart("flow:slot=10ms")),
                played("NICs of 10 Gbit/s", lambda: apart("flow", 10.0)),
            ),
        ),
        "figure-11a.speed": _played(
            "mean iteration of the two, flow under tcp:cubic (no number given)", None, "%",
            lambda: quicker("flow"), _MORE_THAN_NOTHING,
            (
                played("slots of 10 ms", lambda: quicker("flow:slot=10ms")),
                played("NICs of 10 Gbit/s", lambda: quicker("flow", 10.0)),
                played("NICs of 10 Gbit/s, slots of 10 ms", lambda: quicker("flow:slot=10ms", 10.0)),
                played("NICs of 10 Gbit/s, shortest instead", lambda: quicker("shortest", 10.0)),
                played("shortest instead", lambda: quicker("shortest")),
            ),
        ),
        "figure-11b.share": _played(
            "a foreign TCP flow beside VGG19: its share of the NIC while VGG19 has bytes to send (friendly: even, or a "
            "tenth less; no number given)",
            None, "%", lambda: 100.0 * beside("flow"), some_effect(45.0),
            tuple(
                played(
                    f"if foreign TCP keeps {x} % of its share",
                    lambda x=x: 100.0 * beside(f"flow:leaves={x}%"),  # type: ignore[misc]
                )
                for x in PUSHES
            ),
        ),
    }  # fmt: skip


DECISIONS = "figure-15.latency-p90"  # the one that measures what acts on real clusters

CLAIMS: dict[str, FlowCheck] = {
    **_meeting_claims(),
    "figure-7b.best-slot": FlowCheck(
        f"slots of {', '.join(map(str, SLOTS_MS))} ms, answers {DELAY_MS} ms late: the one with the least mean JCT "
        "(reproduced: the published one, and surely no other)", PUBLISHED["figure-7"]["slot"], "ms", _best_slot, equal,
        needs=tuple(map(slot, SLOTS_MS)),
        controls=(
            compared("20 ms over 60 ms", slot(20), slot(60)),
            slots("a host sends nothing until it has its answers", f"pauses,delay={DELAY_MS}ms"),
            slots("... and plans 1.6 times the volume", f"pauses,volume=1.6,delay={DELAY_MS}ms", pace="flow-prototype"),
            slots("answers three times as late", f"delay={3 * DELAY_MS:g}ms"),
            slots("senders that react to loss", f"delay={DELAY_MS}ms,leaves=100%"),
            slots("without cross traffic", f"delay={DELAY_MS}ms", alone=True),
        ),
    ),
    **{
        f"figure-8.saving-over-{pace.replace(':', '-')}": replace(
            _saving(
                f"6 servers, 25 Gbit/s: flow saves average JCT over {pace} ({words})", published, bed("flow"),
                bed(pace), rule=rule, controls=bed_controls(pace) if pace == "tcp:cubic" else (),
            ),
            slow=pace not in ("tcp:cubic", "pcc"),
            kind=Kind.CONTROL if pace in TCP[1:] else None,  # nearly the same model as CUBIC
        )
        for paces, published, words, rule in (
            (TCP, PUBLISHED["figure-8"]["saving"], "at least", bounded(0.0)),
            (("pcc", "pcc:vivace"), None, "drawn, not given", _MORE_THAN_NOTHING),
        )
        for pace in paces
    },
    "figure-8.10-gbps": _saving(
        "6 servers, 10 Gbit/s: flow saves average JCT over tcp:cubic (at least)",
        PUBLISHED["figure-8"]["saving"], bed("flow", 10.0), bed("tcp:cubic", 10.0), rule=bounded(0.0),
    ),
    **{
        f"table-1.{name}": _saving(
            f"6 servers, 25 Gbit/s: {words} of flow under that of tcp:cubic; no number legible", None, bed("flow"),
            bed("tcp:cubic"), metric, _MORE_THAN_NOTHING,
            tuple(
                compared(words, bed(pace, alone=alone), bed("tcp:cubic", alone=alone), partial(saved, metric=metric))
                for words, pace, alone in (
                    ("without cross traffic", "flow", True), ("slots of 10 ms", "flow:slot=10ms", False),
                    ("what nobody has planned for may be used", "flow:fill", False),
                )
            ),
        )
        for name, words, metric in (
            ("p99", "99th percentile JCT", P99), ("max", "longest JCT", MOST), ("min", "shortest JCT", LEAST)
        )
    },
    **{
        f"figure-9.vgg19-{nic}": _faster(
            f"{nic} Gbit/s: VGG19 with flow over tcp:cubic", PUBLISHED["figure-9"][str(nic)], "vgg19",
            bed("flow", float(nic)), bed("tcp:cubic", float(nic)), slow=nic == 24,
        )
        for nic in (10, 24)
    },
    "figure-9.resnet50-10": _faster(
        "10 Gbit/s: ResNet50 with flow over tcp:cubic; a small gain, no number given", None, "resnet50",
        bed("flow", 10.0), bed("tcp:cubic", 10.0),
        changed=(
            ("slots of 10 ms", bed("flow:slot=10ms", 10.0)),
            ("what nobody has planned for may be used", bed("flow:fill", 10.0)),
        ),
    ),
    **_loss_claims(),
    "figure-14.host-only-over-tcp-cubic": _saving(
        "12 instances: flow without switches saves average JCT over tcp:cubic", PUBLISHED["figure-14"]["saving"],
        cloud("flow:host-only"), cloud("tcp:cubic"), controls=cloud_controls(),
    ),
    "figure-14b.gpt2": _faster(
        "12 instances: GPT2 with flow:host-only over tcp:cubic", PUBLISHED["figure-14"]["gpt2"], "gpt2",
        cloud("flow:host-only"), cloud("tcp:cubic"), alone=(cloud("flow:host-only", True), cloud("tcp:cubic", True)),
    ),
    **{
        f"figure-15.saving-over-{pace}": _saving(
            f"a tenth of the three-tier tree: flow saves average JCT over {pace}", PUBLISHED["figure-15"][pace],
            tree("flow", sliced=True), tree(pace, sliced=True),
            controls=tree_controls(pace),
        )
        for pace in ("mcs", "ccml")
    },
    **{
        f"beyond.{own}{name}": replace(
            _saving(
                f"{words}, seeds from 6 on: {pace}, our own pace, saves average JCT over tcp:cubic (more than 0)", None,
                place(pace, held_out=True), place("tcp:cubic", held_out=True), rule=_MORE_THAN_NOTHING,
                controls=(
                    *beyond.over_others(place, pace),
                    *(beyond.softer_over_others(place) if pace == "shortest" else ()),
                    *(beyond.alone_controls() if (pace, name) == ("shortest", "") else ()),
                ),
            ),
            slow=True,
            kind=Kind.OWN,
        )
        for pace, own in beyond.OWN.items()
        for name, words, place in beyond.WHERE
    },
    **{
        f"beyond.frontier{name}": replace(
            _saving(
                f"{words}, seeds from 6 on: our own pace, pushing as hard as mcs ({beyond.HARD}), saves average JCT "
                "over it (more than 0)", None, place(beyond.HARD, held_out=True), place("mcs", held_out=True),
                rule=_MORE_THAN_NOTHING, controls=beyond.frontier_controls() if not name else (),
            ),
            slow=True,
            kind=Kind.OWN,
        )
        for name, words, place in beyond.WHERE
    },
    DECISIONS: FlowCheck(
        "decisions of a host for its 16 flows in a slot: 90 % take no longer than this (direction: no more than "
        "published)", PUBLISHED["figure-15"]["decisions"], "ms",
        lambda lab: Measured(float(np.percentile(flows_lab.decision_ms(100 if lab.quick else 1000), 90))),
        no_more(),
    ),
}  # fmt: skip
CLAIMS = headed(PAPER, CLAIMS | orders.checks())

NOTES = (
    "The paper's job set was never published; ours is drawn anew for each seed.",
    "The TCP models are fluid: they have slow start, finite buffers and the loss that follows, but no timeouts, bursts "
    "or headers, so they waste less than real ones do. tcp:ideal has none of it.",
)


def reproduce(request: Request) -> Reproduction:
    """Check the claims that were asked for, all by default."""
    names, notes = chosen(request, CLAIMS)
    if DECISIONS in names and find_spec("weft_live") is None:
        names.remove(DECISIONS)
        notes.append(f"{DECISIONS} is left out: it measures weft-live, which is not installed (weft-evidence[real]).")
    needed = [setting for name in names for setting in CLAIMS[name].needs]
    if not request.quick:
        needed += [setting for name in names for control in CLAIMS[name].controls for setting in control.needs]
    lab = FlowRuns(request, needed)
    if request.quick and request.seeds is None:
        notes.append(f"quick: {QUICK_SEEDS} seeds instead of {SEEDS}, and slices of the scenarios.")
    if request.seeds and any(setting.held_out for setting in lab.runs) and len(lab.held_out) != request.seeds:
        notes.append(f"Our own pace runs at seeds {lab.held_out[0]} to {lab.held_out[-1]}, whatever --seeds asks for.")
    claims = []
    asked = f"--seeds {len(lab.seeds)} --seed {lab.seeds[0]}{' --quick' * request.quick}"
    for name in names:
        check = CLAIMS[name]
        seeds = lab.seeds_of(check.needs[0]) if check.needs else []
        command = f"weft reproduce {PAPER} --claim {name} {asked} --json"
        where = str(scenario_path(check.needs[0].scenario)) if check.needs else PAPER
        beside = len(check.needs) == 2 and lab.runs[check.needs[0]][0].foreign_bytes_per_s is not None
        pay = others(lab, *check.needs) if beside else None
        claims.append(judge(name, check, check.measure(lab), where, command, seeds, pay))
        if pay is not None:
            notes.append(f"{name}: what cross traffic gets changes by {who_pays(*pay)}.")
        if not request.quick:
            notes += [f"{name}, {control.words}: {control.shows(lab)}." for control in check.controls]
    return Reproduction(PAPER, tuple(claims), (*NOTES, *notes, *means(lab)), pictures(lab))


def pictures(lab: FlowRuns) -> tuple[Picture, ...]:
    """Figures 8 and 15(a), and the frontier of our own paces, as far as they were run."""
    from weft_evidence.report import figure_row

    found = []
    drawn_of = ("flows", False, "Figure 8: 6 servers"), ("flows-tree", True, "Figure 15(a): a tenth of the tree")
    for scenario, sliced, title in drawn_of:
        groups = {
            setting.pace: runs
            for setting, runs in lab.runs.items()
            if setting == Setting(scenario, setting.stack, sliced=sliced) and "flow:" not in setting.stack
        }
        if len(groups) > 1:
            found.append(Picture(title, lambda groups=groups: figure_row(groups)))  # type: ignore[misc]
    drawn = beyond.frontier(lab)
    if drawn is not None:
        found.append(Picture("What jobs gain, and what the cross traffic pays: seeds from 6 on", drawn))
    return tuple(found)
