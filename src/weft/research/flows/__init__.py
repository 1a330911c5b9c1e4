"""Flow scheduling (Zhao, Wu and Zhu): Figures 1, 7(b), 8 to 11, 14 and 15 and Table I.

The readings are those of docs/papers/flow-scheduling.md. Figures 7 to 9 and Table I are runs of the shipped scenario
`flows` (its NICs at several speeds), Figure 14 of `flows-cloud`, Figure 15 of `flows-tree`; the others are played in
lab.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.research.checks import LabCheck, Rule, chosen, judge, nearly, on_that_side, some_effect
from weft.research.claims import Measured, Picture, Reproduction, Request
from weft.research.flows import lab as flows_lab
from weft.scenario.shipped import scenario_path

if TYPE_CHECKING:
    from weft.results.run import RunResult

PAPER = "flows"
SEEDS, QUICK_SEEDS = 5, 2
SLOTS_MS = (20, 40, 60, 80, 100)
DELAY_MS = 6.2  # of a negotiation with a switch, Figure 12(a)
TCP = ("tcp:cubic", "tcp:reno", "tcp:bbr", "tcp:dctcp")
PUSHES = (15, 40, 70, 100)  # percent of its share that a foreign TCP flow keeps beside ours
PROTOTYPE = ("volume=1.6", "no-estimate", "own-load", "quantised")
RIVALS = ("tcp:ideal", "mcs", "mcs:reacts", "ccml", "shortest")
RESILIENT = ("tcp:bbr", "tcp:dctcp", "tcp:dctcp-ecn")  # the second by RFC 8257, the third as in older kernels
AGAINST = ("fair", "tcp:ideal", "ccml", "mcs:reacts", "mcs")  # what our own pace is held against, beside CUBIC
PS = flows_lab.TWO_SERVERS
# What a quick run takes of each scenario: fewer and shorter jobs, and a tenth of the tree.
_SLICES: dict[str, dict[str, dict[str, Any]]] = {
    "flows": {"workload": {"jobs": 8, "iterations": [15, 30]}},
    "flows-cloud": {"workload": {"jobs": 16, "iterations": [8, 15]}},
    "flows-tree": {
        "cluster": {"racks": 10, "racks_per_edge": 5},
        "workload": {"jobs": 110, "iterations": [4, 8]},
    },
}


@dataclass(frozen=True)
class Setting:
    """A stack on a shipped scenario, perhaps with other NICs or without traffic of others: runs that claims have in
    common."""

    scenario: str
    stack: str
    nic_gbps: float | None = None
    alone: bool = False

    def changes(self, quick: bool) -> dict[str, dict[str, Any]]:
        """What is other than in the shipped scenario, by table: a slice of it, or other NICs."""
        changes = dict(_SLICES[self.scenario]) if quick else {}
        if self.nic_gbps is not None:
            changes["cluster"] = {**changes.get("cluster", {}), "nic_gbps": self.nic_gbps}
        return changes


class _Lab:
    """Runs of settings at all seeds, done together before the first claim is measured."""

    def __init__(self, request: Request, settings: Sequence[Setting]) -> None:
        from weft import api
        from weft.executors import run_all
        from weft.scenario import Scenario
        from weft.scenario.build import Layers

        self.quick = request.quick
        self.seeds = request.numbers(SEEDS, QUICK_SEEDS)
        self.runs: dict[Setting, list[RunResult]] = {setting: [] for setting in dict.fromkeys(settings)}
        tasks = []
        for setting in self.runs:
            given = Scenario.load(scenario_path(setting.scenario))
            changes = setting.changes(self.quick)
            if changes or setting.alone:
                data = given.model_dump(exclude_unset=True)
                if setting.alone:
                    data.pop("network", None)
                given = Scenario.load({**data, **{table: {**data[table], **new} for table, new in changes.items()}})
            tasks += [api.Task(given, Layers(setting.stack), seed, False) for seed in self.seeds]
        owners = [setting for setting in self.runs for _ in self.seeds]
        tell = request.on_progress or (lambda done, total: None)
        done: dict[int, RunResult] = {}
        if tasks:
            api.compile_kernels(request.on_compile)
        for i, run in run_all(tasks, request.workers, api.run_task) if tasks else ():
            done[i] = run
            tell(len(done), len(tasks))
        for i, setting in enumerate(owners):
            self.runs[setting].append(done[i])

    def over_seeds(self, a: Setting, b: Setting, of: Callable[[RunResult, RunResult], float | None]) -> Measured:
        """A function of two settings' runs at each seed; where it is None (no job of a model) is left out."""
        found = [of(x, y) for x, y in zip(self.runs[a], self.runs[b], strict=True)]
        return Measured.over_seeds([value for value in found if value is not None])


@dataclass(frozen=True)
class _Check(LabCheck[_Lab]):
    """A claim, and the settings it needs runs of. `controls` are the same comparison with one thing changed, in words:
    they show where a result comes from, and are run unless it has to be quick."""

    needs: tuple[Setting, ...] = ()
    controls: tuple[tuple[str, Setting, Setting], ...] = ()


def _jct(statistic: Callable[[Any], Any]) -> Callable[[RunResult], float]:
    return lambda run: float(statistic(run.jobs["jct_s"]))


MEAN, P99, MOST, LEAST = (
    _jct(f) for f in (lambda s: s.mean(), lambda s: s.quantile(0.99, "linear"), lambda s: s.max(), lambda s: s.min())
)  # fmt: skip


_A_SAVING = on_that_side(0.0)


_MORE_THAN_NOTHING = some_effect(0.0)  # the paper gives no number, or one that our copy does not show


def _saved(lab: _Lab, a: Setting, b: Setting, metric: Callable[[RunResult], float] = MEAN) -> Measured:
    """How much smaller a metric is than in another setting at the same seed, in percent."""
    return lab.over_seeds(a, b, lambda x, y: 100.0 * (1.0 - metric(x) / metric(y)))


def _saving(
    what: str, published: float, a: Setting, b: Setting, metric: Callable[[RunResult], float] = MEAN,
    rule: Rule = _A_SAVING, controls: tuple[tuple[str, Setting, Setting], ...] = (),
) -> _Check:  # fmt: skip
    """That a metric is smaller than in another setting at the same seed, by so many percent."""
    return _Check(what, published, "%", lambda lab: _saved(lab, a, b, metric), rule, needs=(a, b), controls=controls)


def model_speed(run: RunResult, model: str) -> float | None:
    """Iterations per second of a model's jobs: each job's own mean, averaged over the jobs that finished."""
    import polars as pl

    mine = run.jobs.filter(pl.col("model").str.starts_with(model) & pl.col("finish_s").is_not_null())
    if mine.is_empty():
        return None
    return float((mine["iterations"] / mine["run_s"]).mean())  # type: ignore[arg-type]


def _faster(what: str, published: float, model: str, a: Setting, b: Setting, slow: bool = False) -> _Check:
    """By how much a model trains faster than in another setting at the same seed, in percent."""

    def of(x: RunResult, y: RunResult) -> float | None:
        mine, other = model_speed(x, model), model_speed(y, model)
        return None if mine is None or other is None else 100.0 * (mine / other - 1.0)

    return _Check(what, published, "%", lambda lab: lab.over_seeds(a, b, of),
                  on_that_side(0.0), slow=slow, needs=(a, b))  # fmt: skip


def _played(what: str, published: float, unit: str, measure: Callable[[], float], rule: Rule) -> _Check:
    return _Check(what, published, unit, lambda lab: Measured(measure()), rule)


def _bed(pace: str, nic_gbps: float | None = None, alone: bool = False) -> Setting:
    return Setting("flows", f"fifo[place=first-fit,pace={pace}]", nic_gbps, alone)


def _cloud(pace: str, alone: bool = False) -> Setting:
    return Setting("flows-cloud", f"fifo[place=random,pace={pace}]", alone=alone)


def _bed_controls(pace: str) -> tuple[tuple[str, Setting, Setting], ...]:
    """Figure 8 once more: without traffic of others; with senders that leave foreign TCP more; with each thing that the
    prototype does; and what other paces save."""
    over = _bed(pace)
    leaves = [(f"if foreign TCP keeps {x} % of its share", f"flow:leaves={x}%") for x in PUSHES]
    done = [(f"as {option}", f"flow:{option}") for option in PROTOTYPE]
    return (
        ("without cross traffic", _bed("flow", alone=True), _bed(pace, alone=True)),
        *((words, _bed(other), over) for words, other in (*leaves, *done)),
        *((f"{other} instead", _bed(other), over) for other in RIVALS),
        *((f"{o} instead, without cross traffic", _bed(o, alone=True), _bed(pace, alone=True)) for o in RIVALS),
    )


def _tree(pace: str) -> Setting:
    return Setting("flows-tree", f"fifo[place=random,pace={pace}]")


def _slot(ms: int) -> Setting:
    return _bed(f"flow:slot={ms}ms,delay={DELAY_MS}ms" if ms != 60 else f"flow:delay={DELAY_MS}ms")


def _best_slot(lab: _Lab) -> Measured:
    means = {ms: float(np.mean([MEAN(run) for run in lab.runs[_slot(ms)]])) for ms in SLOTS_MS}
    return Measured(float(min(means, key=means.__getitem__)))


def _is(published: float, measured: Measured) -> bool:
    return measured.value == published


def _slower(model: str, pace: str, loss: float) -> Callable[[], float]:
    return lambda: 100.0 * (1.0 - flows_lab.speed(model, pace, loss) / flows_lab.speed(model, pace))


def _loss_claims() -> dict[str, _Check]:
    """Figure 10: one VGG16 job over parameter servers on 25 Gbit/s."""
    vgg, lossy = f"vgg16{PS}", flows_lab.speed
    return {
        **{
            f"figure-10.{pace.removeprefix('tcp:')}": _played(
                f"0.2 % loss: VGG16 trains slower with {pace}", 62.0, "%",
                _slower(vgg, pace, 0.002), nearly,
            )
            for pace in TCP[:2]
        },
        "figure-10.flow": _played(
            "1 % loss: VGG16 trains slower with flow (reproduced: no more than published and a tenth)", 4.0, "%",
            _slower(vgg, "flow", 0.01), lambda p, m: m.value is not None and m.value <= 1.1 * p,
        ),
        "figure-10.over-cubic": _played(
            "1 % loss: VGG16 with flow over tcp:cubic", 5.1, "x",
            lambda: lossy(vgg, "flow", 0.01) / lossy(vgg, "tcp:cubic", 0.01), on_that_side(1.0),
        ),
        **{
            f"figure-10.{pace.removeprefix('tcp:')}-holds-better": _played(
                f"0.2 % loss: VGG16 with {pace} over tcp:cubic (no number given)", 1.0, "x",
                lambda pace=pace: lossy(vgg, pace, 0.002) / lossy(vgg, "tcp:cubic", 0.002),  # type: ignore[misc]
                some_effect(1.0 + 1e-9),
            )
            for pace in RESILIENT
        },
    }  # fmt: skip


def _meeting_claims() -> dict[str, _Check]:
    """Figures 1 and 11: who sends when on one NIC."""
    two, beside = flows_lab.two_on_a_nic, flows_lab.beside_foreign
    return {
        "figure-1.crowded": _played(
            "VGG19 and ResNet50 on one NIC with tcp:cubic: share of its sending time that it is asked for more than it "
            "has (more than 0; drawn, not given)", 0.0, "%",
            lambda: 100.0 * two("tcp:cubic").crowded, _MORE_THAN_NOTHING,
        ),
        "figure-11a.crowded": _played(
            "the same with flow (reproduced: 0)", 0.0, "%", lambda: 100.0 * two("flow").crowded, _is
        ),
        "figure-11a.both": _played(
            "share of the sending time in which both jobs send, flow under tcp:cubic (drawn, not given)", 0.0, "%",
            lambda: 100.0 * (1.0 - two("flow").both / two("tcp:cubic").both), _MORE_THAN_NOTHING,
        ),
        "figure-11a.speed": _played(
            "mean iteration of the two, flow under tcp:cubic (no number given)", 0.0, "%",
            lambda: 100.0 * (1.0 - sum(two("flow").iteration_s) / sum(two("tcp:cubic").iteration_s)),
            _MORE_THAN_NOTHING,
        ),
        "figure-11b.share": _played(
            "a foreign TCP flow beside VGG19: its share of the NIC while VGG19 has bytes to send (published: even)",
            50.0, "%", lambda: 100.0 * beside("flow"), nearly,
        ),
    }  # fmt: skip


CLAIMS: dict[str, _Check] = {
    **_meeting_claims(),
    "figure-7b.best-slot": _Check(
        f"slots of {', '.join(map(str, SLOTS_MS))} ms, answers {DELAY_MS} ms late: the one with the least mean JCT "
        "(reproduced: the published one)", 60.0, "ms", _best_slot, _is, needs=tuple(map(_slot, SLOTS_MS)),
    ),
    **{
        f"figure-8.saving-over-{pace.replace(':', '-')}": replace(
            _saving(
                f"6 servers, 25 Gbit/s: flow saves average JCT over {pace}", 15.0, _bed("flow"), _bed(pace),
                controls=_bed_controls(pace) if pace == "tcp:cubic" else (),
            ),
            slow=pace not in ("tcp:cubic", "pcc"),  # nearly the same model as CUBIC
        )
        for pace in (*TCP, "pcc", "pcc:vivace")
    },
    "figure-8.10-gbps": _saving(
        "6 servers, 10 Gbit/s: flow saves average JCT over tcp:cubic", 15.0, _bed("flow", 10.0), _bed("tcp:cubic", 10.0)
    ),
    **{
        f"table-1.{name}": _saving(
            f"6 servers, 25 Gbit/s: {words} of flow under that of tcp:cubic; no number legible", 0.0, _bed("flow"),
            _bed("tcp:cubic"), metric, _MORE_THAN_NOTHING,
        )
        for name, words, metric in (
            ("p99", "99th percentile JCT", P99), ("max", "longest JCT", MOST), ("min", "shortest JCT", LEAST)
        )
    },
    "figure-9.vgg19-10": _faster(
        "10 Gbit/s: VGG19 with flow over tcp:cubic", 22.0, "vgg19", _bed("flow", 10.0), _bed("tcp:cubic", 10.0)
    ),
    "figure-9.vgg19-24": _faster(
        "24 Gbit/s: VGG19 with flow over tcp:cubic", 14.2, "vgg19", _bed("flow", 24.0), _bed("tcp:cubic", 24.0),
        slow=True,
    ),
    "figure-9.resnet50-10": _faster(
        "10 Gbit/s: ResNet50 with flow over tcp:cubic; a small gain, no number given", 1.0, "resnet50",
        _bed("flow", 10.0), _bed("tcp:cubic", 10.0),
    ),
    **_loss_claims(),
    "figure-14.host-only-over-tcp-cubic": _saving(
        "12 instances: flow without switches saves average JCT over tcp:cubic", 8.5, _cloud("flow:host-only"),
        _cloud("tcp:cubic"),
        controls=(("without cross traffic", _cloud("flow:host-only", True), _cloud("tcp:cubic", True)),),
    ),
    "figure-14b.gpt2": _faster(
        "12 instances: GPT2 with flow:host-only over tcp:cubic", 15.0, "gpt2", _cloud("flow:host-only"),
        _cloud("tcp:cubic"),
    ),
    **{
        f"figure-15.saving-over-{pace}": _saving(
            f"three-tier tree: flow saves average JCT over {pace}", published, _tree("flow"), _tree(pace)
        )
        for pace, published in (("mcs", 33.6), ("ccml", 23.3))
    },
    **{
        f"beyond.shortest{name}": replace(
            _saving(
                f"{words}: our own pace saves average JCT over tcp:cubic (more than 0)", 0.0, place("shortest"),
                place("tcp:cubic"), rule=_MORE_THAN_NOTHING,
                controls=tuple((f"over {pace}", place("shortest"), place(pace)) for pace in ("tcp:cubic", *AGAINST)),
            ),
            slow=True,
        )
        for name, words, place in (("", "6 servers, 25 Gbit/s", _bed), ("-in-the-cloud", "12 instances", _cloud))
    },
    "figure-15.latency-p90": _Check(
        "decisions of a host: 90 % take no longer than this (reproduced: no more than published)", 1.5, "ms",
        lambda lab: Measured(float(np.percentile(flows_lab.decision_ms(300 if lab.quick else 3000), 90))),
        lambda p, m: m.value is not None and m.value <= p,
    ),
}  # fmt: skip

NOTES = (
    "The paper's job set was never published; ours is drawn anew for each seed.",
    "The TCP models are fluid: they have slow start, finite buffers and the loss that follows, but no timeouts, bursts "
    "or headers, so they waste less than real ones do. tcp:ideal has none of it.",
)


def reproduce(request: Request) -> Reproduction:
    """Check the claims that were asked for, all by default."""
    names, notes = chosen(request, CLAIMS)
    needed = [setting for name in names for setting in CLAIMS[name].needs]
    if not request.quick:
        needed += [setting for name in names for _, *pair in CLAIMS[name].controls for setting in pair]
    lab = _Lab(request, needed)
    if request.quick and request.seeds is None:
        notes.append(f"quick: {QUICK_SEEDS} seeds instead of {SEEDS}, and slices of the scenarios.")
    claims = []
    for name in names:
        check = CLAIMS[name]
        command = f"weft reproduce {PAPER} --claim {name} --seeds {len(lab.seeds)} --seed {lab.seeds[0]} --json"
        where = str(scenario_path(check.needs[0].scenario)) if check.needs else PAPER
        claims.append(judge(name, check, check.measure(lab), where, command, lab.seeds if check.needs else ()))
        notes += [] if request.quick else [_control(lab, name, *control) for control in check.controls]
    return Reproduction(PAPER, tuple(claims), (*NOTES, *notes, *_words(lab)), _pictures(lab, names))


def _control(lab: _Lab, name: str, words: str, a: Setting, b: Setting) -> str:
    """A claim's comparison with one thing changed, and what the traffic of others gets through in it."""

    def of(x: RunResult, y: RunResult) -> float | None:
        mine, theirs = x.foreign_bytes_per_s, y.foreign_bytes_per_s
        return None if mine is None or not theirs else 100.0 * (mine / theirs - 1.0)

    others = "" if a.alone else f"; cross traffic {_interval(lab.over_seeds(a, b, of), '+')} more"
    return f"{name}, {words}: {_interval(_saved(lab, a, b))}{others}."


def _interval(of: Measured, sign: str = "") -> str:
    low, high = of.ci95
    within = "" if low is None or high is None else f" [{low:{sign}.1f}, {high:{sign}.1f}]"
    return "undefined" if of.value is None else f"{of.value:{sign}.1f}{within} %"


def _words(lab: _Lab) -> list[str]:
    """Means that lie behind the claims: of the jobs, and of who else sends."""
    lines = []
    for setting, runs in lab.runs.items():
        nic = f", {setting.nic_gbps:g} Gbit/s" if setting.nic_gbps is not None else ""
        nic += ", no cross traffic" if setting.alone else ""
        mean = float(np.mean([MEAN(run) for run in runs]))
        got = [run.foreign_bytes_per_s for run in runs if run.foreign_bytes_per_s is not None]
        others = f", cross traffic {8e-9 * float(np.mean(got)):.1f} Gbit/s" if got else ""
        lines.append(f"{setting.scenario}{nic}, {setting.stack}: mean JCT {mean:.1f} s{others}.")
    return lines


def _pictures(lab: _Lab, names: Sequence[str]) -> tuple[Picture, ...]:
    from weft.research.report import figure_row

    found = []
    for scenario, title in (("flows", "Figure 8: 6 servers"), ("flows-tree", "Figure 15(a): three-tier tree")):
        groups = {
            setting.stack.partition("pace=")[2].removesuffix("]"): runs
            for setting, runs in lab.runs.items()
            if setting.scenario == scenario
            and setting.nic_gbps is None
            and not setting.alone
            and "flow:" not in setting.stack
        }
        if len(groups) > 1:
            found.append(Picture(title, lambda groups=groups: figure_row(groups)))  # type: ignore[misc]
    return tuple(found)
