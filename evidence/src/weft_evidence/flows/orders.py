"""Claims of the flow scheduling paper about several paces or models: Figures 8, 9, 10 and 14, and words on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from weft.workload import zoo
from weft_evidence.checks import Values, compared, in_place, on_that_side, similar, some_effect
from weft_evidence.claims import Kind, Measured, published
from weft_evidence.flows import lab as flows_lab
from weft_evidence.flows.runs import MEAN, FlowCheck, FlowRuns, Setting, bed, cloud, faster, model_speed, saved

MODELS = ("vgg19", "gpt2", "vgg16", "resnet50")
BASELINES = ("tcp:cubic", "tcp:reno", "tcp:bbr", "tcp:dctcp", "pcc")
Pair = tuple[Callable[[FlowRuns], Values], Callable[[FlowRuns], Values]]  # the first is to be the larger


def speeds(setting: Setting, model: str, lab: FlowRuns) -> Values:
    """Iterations per second of a model, seed by seed."""
    return [model_speed(run, model) for run in lab.runs[setting]]


def speedups(ours: Setting, theirs: Setting, model: str, lab: FlowRuns) -> Values:
    """How many times as fast a model is, seed by seed; nothing where no job of it ended."""
    both = zip(speeds(ours, model, lab), speeds(theirs, model, lab), strict=True)
    return [a / b if a is not None and b else None for a, b in both]


def larger(pairs: Sequence[Pair], lab: FlowRuns) -> Measured:
    """How many pairs have the larger first, between those for which that is beyond chance and those for which the
    opposite is not. Seeds without a number of either are left out."""
    found = []
    for a, b in pairs:
        both = [(x, y) for x, y in zip(a(lab), b(lab), strict=True) if x is not None and y is not None]
        found.append(compared([x for x, _ in both], [y for _, y in both]) if both else (0.0, 0))
    return Measured(
        float(sum(mean > 0.0 for mean, _ in found)),
        (float(sum(side > 0 for _, side in found)), float(sum(side >= 0 for _, side in found))),
    )


def over_all(model: str, nic_gbps: float) -> tuple[tuple[Setting, ...], list[Pair]]:
    """Figure 9: a model with `flow`, and with each of the baselines."""
    ours, theirs = bed("flow", nic_gbps), [bed(pace, nic_gbps) for pace in BASELINES]
    mine = partial(speeds, ours, model)
    return (ours, *theirs), [(mine, partial(speeds, other, model)) for other in theirs]


def resnet50_least() -> tuple[tuple[Setting, ...], list[Pair]]:
    """Figure 9: what the other models gain over CUBIC, and what ResNet50 gains."""
    both = bed("flow", 10.0), bed("tcp:cubic", 10.0)
    least = partial(speedups, *both, "resnet50")
    return both, [(partial(speedups, *both, model), least) for model in MODELS if model != "resnet50"]


def slower_gains() -> tuple[tuple[Setting, ...], list[Pair]]:
    """Figure 9: what each model gains over CUBIC with slow NICs, and with faster ones."""
    slow, fast = ((bed("flow", nic), bed("tcp:cubic", nic)) for nic in (10.0, 24.0))
    return (*slow, *fast), [(partial(speedups, *slow, model), partial(speedups, *fast, model)) for model in MODELS]


def gpt2_most() -> tuple[tuple[Setting, ...], list[Pair]]:
    """Figure 14(b): what GPT2 gains over CUBIC in the cloud, and what the smaller models gain."""
    both = cloud("flow:host-only"), cloud("tcp:cubic")
    most = partial(speedups, *both, "gpt2")
    return both, [(most, partial(speedups, *both, model)) for model in MODELS if model != "gpt2"]


def times_mean(ours: Setting, theirs: Setting, lab: FlowRuns) -> Measured:
    """The mean JCT over that of another setting at the same seed."""
    return lab.over_seeds(ours, theirs, lambda x, y: MEAN(x) / MEAN(y))


def weakened(lab: FlowRuns) -> Measured:
    """By how much more BBR saves over CUBIC without traffic of others than with it, in points of a percentage."""

    def saved(alone: bool) -> list[float]:
        pairs = zip(lab.runs[cloud("tcp:bbr", alone)], lab.runs[cloud("tcp:cubic", alone)], strict=True)
        return [100.0 * (1.0 - MEAN(x) / MEAN(y)) for x, y in pairs]

    return Measured.over_seeds([a - b for a, b in zip(saved(True), saved(False), strict=True)])


def _slower(model: str, pace: str, loss: float, lab: FlowRuns) -> Measured:
    return Measured(100.0 * (1.0 - flows_lab.speed(model, pace, loss) / flows_lab.speed(model, pace)))


def _over_cubic(model: str, loss: float, lab: FlowRuns) -> Measured:
    return Measured(flows_lab.speed(model, "flow", loss) / flows_lab.speed(model, "tcp:cubic", loss))


def _crowded(pace: str, lab: FlowRuns) -> Measured:
    return Measured(100.0 * flows_lab.two_on_a_nic(pace).crowded)


def _communicating(model: str, lab: FlowRuns) -> Measured:
    compute_s = zoo.profile(model, 2, gpu=flows_lab.GPU).compute_s
    return Measured(1.0 / flows_lab.speed(model, "flow") / compute_s - 1.0)


def _played() -> dict[str, FlowCheck]:
    """What the laboratory measures."""
    vgg, resnet = (f"{model}{flows_lab.TWO_SERVERS}" for model in ("vgg16", "resnet50"))
    more, none = some_effect(0.0), None
    return {
        **{
            f"figure-10.{pace.replace(':', '-')}": FlowCheck(
                f"1 % loss: VGG16 trains slower with {pace} (by more than the 1 % itself; no number given)", none, "%",
                partial(_slower, vgg, pace, 0.01), some_effect(1.0),
            )
            for pace in ("pcc", "pcc:vivace")
        },
        "figure-10.resnet50-over-cubic": FlowCheck(
            "1 % loss: ResNet50 with flow over tcp:cubic (more than 1; drawn, not given)", none, "x",
            partial(_over_cubic, resnet, 0.01), some_effect(1.0),
        ),
        "section-vi-c.bbr-crowded": FlowCheck(
            "VGG19 and ResNet50 on one NIC with tcp:bbr: share of its sending time that it is asked for more than it "
            "has (more than 0; no number given)", none, "%", partial(_crowded, "tcp:bbr"), more,
        ),
        "section-vi-d.resnet50-communicates": FlowCheck(
            'ResNet50 alone at 25 Gbit/s: exposed communication over computing ("much shorter": below half)', none,
            "x", partial(_communicating, resnet), some_effect(0.5, more=False),
        ),
    }  # fmt: skip


def checks() -> dict[str, FlowCheck]:
    """By name."""

    def pairs(what: str, made: tuple[tuple[Setting, ...], list[Pair]]) -> FlowCheck:
        needs, found = made
        what, most = f"{what} (all {len(found)} must be)", float(len(found))
        return FlowCheck(what, most, "pairs", partial(larger, found), in_place, slow=True, needs=needs)

    host, cubic = cloud("flow:host-only"), cloud("tcp:cubic")
    found = _played()
    for place, name, words in ((bed, "figure-8", "6 servers, 25 Gbit/s"), (cloud, "figure-14", "12 instances")):
        for pace in BASELINES[1:4]:
            ours, theirs = place(pace), place("tcp:cubic")
            found[f"{name}.{pace[4:]}-like-cubic"] = FlowCheck(
                f"{words}: average JCT with {pace} over tcp:cubic (similar: within a tenth; no number given)", None,
                "x", partial(times_mean, ours, theirs), similar(1.0), slow=True, needs=(ours, theirs),
                kind=Kind.CONSTRUCTION,  # without random loss the models of these differ little
            )  # fmt: skip
    for nic in (10, 24):
        for model in MODELS:
            found[f"figure-9.{model}-{nic}-over-all"] = pairs(
                f"{nic} Gbit/s: baselines ({', '.join(BASELINES)}) with which {model} is slower than with flow",
                over_all(model, float(nic)),
            )
    found["figure-9.resnet50-least"] = pairs(
        "10 Gbit/s: models that gain more over tcp:cubic than ResNet50", resnet50_least()
    )
    found["figure-9.gain-falls"] = pairs("models that gain more over tcp:cubic at 10 than at 24 Gbit/s", slower_gains())
    found["figure-14.reno-over-cubic"] = FlowCheck(
        "12 instances: tcp:reno saves average JCT over tcp:cubic", published("flows")["figure-14"]["reno"], "%",
        lambda lab: saved(lab, cloud("tcp:reno"), cubic), on_that_side(0.0), slow=True,
        needs=(cloud("tcp:reno"), cubic),
    )  # fmt: skip
    found["figure-14.host-only-over-tcp-reno"] = FlowCheck(
        "12 instances: flow without switches saves average JCT over tcp:reno (more than 0; no number given)", None,
        "%", lambda lab: saved(lab, host, cloud("tcp:reno")), some_effect(0.0), slow=True,
        needs=(host, cloud("tcp:reno")),
    )  # fmt: skip
    alone = tuple(cloud(pace, True) for pace in ("tcp:bbr", "tcp:cubic"))
    found["section-vi-h.bbr-weakened"] = FlowCheck(
        "12 instances: what tcp:bbr saves over tcp:cubic, more without traffic of others (more than 0 points; no "
        "number given)", None, "points", weakened, some_effect(0.0), slow=True,
        needs=(cloud("tcp:bbr"), cubic, *alone),
    )  # fmt: skip
    for model in MODELS:
        if model != "gpt2":
            found[f"figure-14b.{model}"] = FlowCheck(
                f"12 instances: {model} with flow:host-only over tcp:cubic (more than 0; drawn, not given)", None, "%",
                partial(_gain, host, cubic, model), some_effect(0.0), slow=True, needs=(host, cubic),
            )  # fmt: skip
    found["figure-14b.gpt2-most"] = pairs("12 instances: models that gain less than GPT2", gpt2_most())
    return found


def _gain(ours: Setting, theirs: Setting, model: str, lab: FlowRuns) -> Measured:
    return faster(lab, ours, theirs, model)
