"""Our own pace against others, on seeds that it was not chosen on: who is faster, and what the cross traffic pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from weft_evidence.flows.runs import ControlRun, FlowRuns, Setting, bed, cloud, compared, others_more_together, saved

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGAINST = ("tcp:cubic", "ccml", "mcs:reacts", "mcs", "fair")
HARD = "shortest:100"  # chosen on seeds 1 to 5: of those tried, the hardest that takes no more from others than mcs
EVEN = "shortest:patient=0.6"  # chosen on seeds 1 to 5: others have as much as beside fair by the end of both runs
OWN = {"shortest": "shortest", "shortest:patient": "shortest-patient", EVEN: "even"}  # our own paces, and claims' names
PUSHES = ("shortest:1", "shortest:2", "shortest:4", "shortest", "shortest:20", "shortest:50", HARD)
GIVES_WAY = ("mcs", "mcs:leaves=15%", "mcs:leaves=40%", "mcs:leaves=70%", "mcs:reacts")  # more and more
OTHERS = ("shortest:patient", EVEN, "flow:leaves=15%", "flow", *GIVES_WAY, "ccml", "tcp:ideal", "fair")


def bed_10(pace: str, held_out: bool = False) -> Setting:
    """The testbed with NICs of 10 Gbit/s."""
    return bed(pace, 10.0, held_out=held_out)


# Where our own pace is looked at: a claim's name, words and setting. It was chosen on the first of them.
WHERE: tuple[tuple[str, str, Callable[..., Setting]], ...] = (
    ("", "6 servers, 25 Gbit/s", bed),
    ("-at-10-gbps", "6 servers, 10 Gbit/s", bed_10),
    ("-in-the-cloud", "12 instances", cloud),
)


def over_others(place: Callable[..., Setting], ours: str) -> tuple[ControlRun, ...]:
    """A pace of our own over each of the others."""
    return tuple(compared(f"over {pace}", place(ours, held_out=True), place(pace, held_out=True)) for pace in AGAINST)


def softer_over_others(place: Callable[..., Setting]) -> tuple[ControlRun, ...]:
    """The same with half the push."""
    return tuple(replace(control, words=f"shortest:4 {control.words}") for control in over_others(place, "shortest:4"))


def frontier_controls() -> tuple[ControlRun, ...]:
    """Every pace over CUBIC: how much faster jobs are, and what it costs the cross traffic."""
    cubic = bed("tcp:cubic", held_out=True)
    return tuple(
        compared(f"{pace} over tcp:cubic", bed(pace, held_out=True), cubic) for pace in (*PUSHES, *OTHERS)
    )  # fmt: skip


def alone_controls() -> tuple[ControlRun, ...]:
    """Our own pace over each of the others where nobody else sends."""
    ours = bed("shortest", alone=True, held_out=True)
    return tuple(
        compared(f"over {pace}, without cross traffic", ours, bed(pace, alone=True, held_out=True))
        for pace in ("tcp:cubic", "ccml", "mcs", "tcp:ideal")
    )


def frontier(lab: FlowRuns) -> Callable[[], Figure] | None:
    """A picture of mean JCT saved over CUBIC against what the cross traffic gets; None if not all of it was run."""
    cubic = bed("tcp:cubic", held_out=True)
    settings = [bed(pace, held_out=True) for pace in (*PUSHES, *OTHERS)]
    if not all(setting in lab.runs for setting in (cubic, *settings)):
        return None
    points = {
        s.pace: (others_more_together(lab, s, cubic).value or 0.0, saved(lab, s, cubic).value or 0.0) for s in settings
    }
    return lambda: draw([points[pace] for pace in PUSHES], {"tcp:cubic": (0.0, 0.0)} | {p: points[p] for p in OTHERS})


_LEFT = ("mcs", "flow:leaves=15%", "ccml")  # paces with another one at their right: their names stand at the left


def draw(ours: Sequence[tuple[float, float]], others: dict[str, tuple[float, float]]) -> Figure:
    """Our pace with more and more push as a line, other paces as points, ours in the colour of the line; `fair` marks
    what others are owed."""
    from weft.results.pictures.style import PALETTE, house_style, new_figure, tidy_axes

    with house_style():
        figure, (axes,) = new_figure(6.4, 4.0, columns=1)
        axes.plot(*zip(*ours, strict=True), color=PALETTE[0], marker="o", markersize=4, linewidth=1.5)
        for pace, (x, y) in zip(PUSHES, ours, strict=True):
            axes.annotate(pace, (x, y), xytext=(5, 5), textcoords="offset points", fontsize=8, color=PALETTE[0])
        for pace, (x, y) in others.items():
            colour = PALETTE[0 if pace in OWN else 1]
            axes.plot([x], [y], color=colour, marker="s", markersize=4, linestyle="none")
            left = pace in _LEFT
            aside, side = ((-5, -3), "right") if left else ((5, -10), "left")
            axes.annotate(pace, (x, y), xytext=aside, textcoords="offset points", fontsize=8, ha=side)
        axes.axvline(others["fair"][0], color="#9aa4b2", linewidth=0.8, linestyle="--")
        x_label = "cross traffic delivered by the end of both runs, over that beside CUBIC (%)"
        tidy_axes(axes, "", x_label, "mean JCT saved over CUBIC (%)", grid="both")
    return figure
