"""Pictures of the Titan reproduction: curves over time, and used machines against bytes across machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from weft.results.series import Steps, thin
from weft_evidence.claims import Picture, Request
from weft_evidence.machines import machine_use, profit_rate
from weft_evidence.titan.runs import (
    FEW_JOBS,
    MODELS,
    SHOWN_JOBS,
    SIZES,
    STACKS,
    TraceRun,
    Traces,
    all_placers,
    on_testbed,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def pictures(
    traces: Traces, request: Request, with_testbed: bool, labelled: Callable[[str], str]
) -> tuple[Picture, ...]:
    """Of what has been run."""
    axes = "used machines against bytes across machines"
    shown = []
    if with_testbed:
        shown.append(Picture("testbed: Figures 9 to 11", lambda: testbed(tuple(STACKS))))
    for trace, runs in traces.done.items():
        shown.append(Picture(labelled(f"{trace}: Figures 2 to 7"), lambda runs=runs: curves(runs)))  # type: ignore[misc]
        shown.append(Picture(labelled(f"{trace}: {axes}"), lambda runs=runs: pareto(runs)))  # type: ignore[misc]
    if traces.done:
        for jobs, whom in ((SHOWN_JOBS, "placers"), (FEW_JOBS, "placers, with those that let jobs share GPUs")):
            caption = labelled(f"trace 1: all {whom}, the first {jobs:,} jobs: {axes}")
            shown.append(Picture(caption, lambda jobs=jobs: pareto(all_placers(request, jobs))))  # type: ignore[misc]
    return tuple(shown)


def curves(runs: Mapping[str, TraceRun]) -> Figure:
    """Figures 2 to 7: what is used, wasted, sent and earned over time, a line for each placer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.0), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    titles = (
        "used machines", "machine hours so far", "fragmentation rate", "GB across machines", "profit rate",
        "total profit so far",
    )  # fmt: skip
    for name, found in runs.items():
        use = machine_use(found.run)
        profit = profit_rate(found.run, use)
        across = found.overhead
        gb = Steps(across.time_s, across.value / 1e9) if across else Steps(np.zeros(1), np.zeros(1))
        lines = (use.used, _so_far(use.used), use.fragmentation, gb, profit, _so_far(profit))
        for ax, steps in zip(axes, lines, strict=True):
            shown = thin(steps, 400)
            ax.step(shown.time_s / 86400.0, shown.value, where="post", label=name, linewidth=0.8)
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title)
        ax.set_xlabel("days")
    axes[0].legend(fontsize="small")
    return figure


def _so_far(steps: Steps) -> Steps:
    """The integral up to each time, per hour."""
    grown = np.cumsum(np.diff(steps.time_s) * steps.value[:-1]) / 3600.0
    return Steps(steps.time_s, np.concatenate([[0.0], grown]))


def testbed(placers: Sequence[str]) -> Figure:
    """Figures 9 to 11: machine hours, throughput and communication time against workers, for both models."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.0), layout="constrained")
    axes = figure.subplots(len(MODELS), 3)
    for row, model in zip(axes, MODELS, strict=True):
        for name in placers:
            jobs = [on_testbed(name, model, workers) for workers in SIZES]
            row[0].plot(SIZES, [job.machine_hours for job in jobs], "o-", label=name, linewidth=0.8)
            row[1].plot(SIZES, [job.throughput for job in jobs], "o-", linewidth=0.8)
            row[2].plot(SIZES, [job.comm_s_per_epoch for job in jobs], "o-", linewidth=0.8)
        for ax, title in zip(row, ("machine hours", "images/s", "communication, s per epoch"), strict=True):
            ax.set_title(f"{model}: {title}")
            ax.set_xlabel("workers")
            ax.set_ylim(bottom=0)
    axes[0][0].legend(fontsize="small")
    return figure


def front(runs: Mapping[str, TraceRun]) -> list[str]:
    """Those that no other beats in used machines and bytes across machines at once, the fewest machines first."""
    kept: list[str] = []
    for name in sorted(runs, key=lambda name: (runs[name].number("used"), runs[name].number("overhead_gb"))):
        if not kept or runs[name].number("overhead_gb") < runs[kept[-1]].number("overhead_gb"):
            kept.append(name)
    return kept


def pareto(runs: Mapping[str, TraceRun]) -> Figure:
    """Each placer a point: mean used machines against mean bytes across machines; a line joins the best ones."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    ax = figure.subplots()
    best = front(runs)
    ax.step(
        [runs[n].number("used") for n in best],
        [runs[n].number("overhead_gb") for n in best],
        where="post",
        color="0.6",
        linewidth=1,
    )
    for name in sorted(runs, key=best.__contains__):  # the best over those that do as well
        ax.plot(runs[name].number("used"), runs[name].number("overhead_gb"), "o", color="C0" if name in best else "C1")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.margins(x=0.12)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("mean used machines")
    ax.set_ylabel("GB across machines in an iteration of all jobs")
    points = {
        ", ".join(names): (runs[names[0]].number("used"), runs[names[0]].number("overhead_gb"))
        for names in _side_by_side(runs)
    }
    label_points(ax, points)
    return figure


def _side_by_side(runs: Mapping[str, TraceRun]) -> list[list[str]]:
    """Placers whose points nearly meet, and so have one label."""
    most = max((found.number("overhead_gb") for found in runs.values()), default=1.0) or 1.0
    groups: list[list[str]] = []
    for name in sorted(runs, key=lambda name: runs[name].number("used")):
        for group in groups:
            other = runs[group[0]]
            if (
                runs[name].number("used") < 1.06 * other.number("used")
                and abs(runs[name].number("overhead_gb") - other.number("overhead_gb")) < 0.04 * most
            ):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def label_points(axes: Axes, points: Mapping[str, tuple[float, float]]) -> None:
    """Names beside points, each at the first place where it lies over no other name or point and inside the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    figure = axes.get_figure()
    canvas = FigureCanvasAgg(figure)  # type: ignore[arg-type]
    canvas.draw()  # type: ignore[no-untyped-call]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    taken = [Bbox.from_bounds(x - 4, y - 4, 8, 8) for x, y in axes.transData.transform(list(points.values()))]
    frame = axes.get_window_extent(renderer)
    places = [(dx, dy, side) for dy in (4, -11, 14, -21, 24, -31) for dx, side in ((7, "left"), (-7, "right"))]
    for name, point in points.items():
        for dx, dy, side in places:
            text = axes.annotate(name, point, (dx, dy), textcoords="offset points", fontsize="small", ha=side)
            box = text.get_window_extent(renderer)
            if frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1) and not box.count_overlaps(taken):
                break
            if (dx, dy, side) != places[-1]:
                text.remove()
        taken.append(box)
