"""Pictures of the Titan reproduction: curves over time, and used machines against bytes across machines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.papers.titan_runs import TraceRun
from weft.results.machines import machine_use, profit_rate
from weft.results.series import thin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["curves", "pareto"]


def curves(runs: Mapping[str, TraceRun]) -> Figure:
    """Used machines, fragmentation and profit rate over time, a line for each placer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    axes = figure.subplots(1, 3)
    for name, found in runs.items():
        use = machine_use(found.run)
        for ax, steps in zip(axes, (use.used, use.fragmentation, profit_rate(found.run, use)), strict=True):
            shown = thin(steps, 400)
            ax.step(shown.time_s / 86400.0, shown.value, where="post", label=name, linewidth=0.8)
    for ax, title in zip(axes, ("used machines", "fragmentation rate", "profit rate"), strict=True):
        ax.set_title(title)
        ax.set_xlabel("days")
    axes[0].legend(fontsize="small")
    return figure


def pareto(runs: Mapping[str, TraceRun]) -> Figure:
    """Each placer a point: mean used machines against mean bytes across machines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    ax = figure.subplots()
    for name, found in runs.items():
        ax.plot(found.used, found.overhead_gb, "o")
        ax.annotate(name, (found.used, found.overhead_gb), textcoords="offset points", xytext=(5, 5))
    ax.set_xlabel("mean used machines")
    ax.set_ylabel("bytes across machines in an iteration of all jobs (GB)")
    return figure
