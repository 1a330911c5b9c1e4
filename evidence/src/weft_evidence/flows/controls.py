"""What was changed in an experiment, one thing at a time, to see where a claim's result comes from."""

from __future__ import annotations

from weft_evidence.flows.runs import ControlRun, Setting, bed, cloud, compared, tree

SLOTS_MS = (20, 40, 60, 80, 100)
DELAY_MS = 6.2  # a negotiation with a switch takes so long, Figure 12(a)
PUSHES = (5, 15, 40, 70, 100)  # percent of its share that a foreign TCP flow keeps beside ours
PROTOTYPE = ("volume=1.6", "no-estimate", "no-estimate,leaves=40%", "no-estimate,leaves=100%", "own-load")
RIVALS = ("tcp:ideal", "mcs", "mcs:reacts", "ccml", "shortest")


def bed_controls(pace: str) -> tuple[ControlRun, ...]:
    """Figure 8 once more: without traffic of others; with senders that leave foreign TCP more; with each thing that the
    prototype does; and what other paces save."""
    over, over_alone = bed(pace), bed(pace, alone=True)
    leaves = [(f"if foreign TCP keeps {x} % of its share", f"flow:leaves={x}%") for x in PUSHES]
    done = [(f"as {option}", f"flow-prototype:{option}") for option in PROTOTYPE]
    done.append(("as quantised", "flow:quantised"))
    return (
        compared("without cross traffic", bed("flow", alone=True), over_alone),
        *(compared(words, bed(other), over) for words, other in (*leaves, *done)),
        *(compared(f"{words}, over flow itself", bed(other), bed("flow")) for words, other in done),
        *(compared(f"{other} instead", bed(other), over) for other in RIVALS),
        *(compared(f"{o} instead, without cross traffic", bed(o, alone=True), over_alone) for o in RIVALS),
        compared("ccml over equal weights, without cross traffic", bed("ccml", alone=True), bed("ccml:1", alone=True)),
    )


def cloud_controls() -> tuple[ControlRun, ...]:
    """Figure 14(a) with one thing changed in the scheduler, and without traffic of others."""
    changed = (("with switches", "flow"), ("with slots of 10 ms", "flow:host-only,slot=10ms"),
               ("if what nobody has planned for may be used", "flow:host-only,fill"))  # fmt: skip
    return (
        compared("without cross traffic", cloud("flow:host-only", True), cloud("tcp:cubic", True)),
        *(compared(words, cloud(pace), cloud("tcp:cubic")) for words, pace in changed),
        *(
            compared(f"{words}, without cross traffic", cloud(pace, True), cloud("tcp:cubic", True))
            for words, pace in changed
        ),
    )


def tree_controls(rival: str) -> tuple[ControlRun, ...]:
    """Figure 15 with one thing changed at a time, and once on the whole tree."""
    changed = (("what nobody has planned for may be used", "flow:fill"), ("slots of 10 ms", "flow:slot=10ms"),
               ("no switches", "flow:host-only"), ("rates change at slots only", "flow:quantised"),
               ("equal shares instead", "fair-flows"), ("shortest instead", "shortest"))  # fmt: skip
    return (
        compared("the whole tree, one seed", tree("flow"), tree(rival)),
        *(compared(words, tree(pace, sliced=True), tree(rival, sliced=True)) for words, pace in changed),
    )


def slot(ms: int, more: str = f"delay={DELAY_MS}ms", alone: bool = False, pace: str = "flow") -> Setting:
    """The testbed under `flow` with slots of that length."""
    return bed(f"{pace}:{f'slot={ms}ms,' if ms != 60 else ''}{more}", alone=alone)


def slots(words: str, more: str, alone: bool = False, pace: str = "flow") -> ControlRun:
    """Figure 7(b) with one thing changed: mean JCT by the length of a slot."""
    settings = {ms: slot(ms, more, alone, pace) for ms in SLOTS_MS}
    return ControlRun(
        words, tuple(settings.values()),
        lambda lab: ", ".join(f"{ms} ms {lab.mean_s(setting):.1f} s" for ms, setting in settings.items()),
    )  # fmt: skip
