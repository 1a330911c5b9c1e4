"""Pictures of circles on a link, before and after rotation (CASSINI Figures 3 to 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from weft.results.display import duration
from weft.results.pictures.style import GRID, INK, JOB_COLOURS, MUTED, house_style, new_figure, tidy_axes

_POINTS = 1440


@dataclass(frozen=True)
class Ring:
    """A job on the unified circle: pieces (start, end, demand) of its period, and how far it is turned."""

    name: str
    period_s: float
    pieces: tuple[tuple[float, float, float], ...]
    shift_s: float = 0.0

    def demand(self, at_s: float, shifted: bool) -> float:
        """Demand at a moment."""
        phase = (at_s - (self.shift_s if shifted else 0.0)) % self.period_s
        return sum(level for start, end, level in self.pieces if start <= phase < end)


@house_style()
def circles_figure(rings: Sequence[Ring], perimeter_s: float, capacity_gbps: float, score: float) -> Figure:
    """A circle per job, and all of them over each other before and after; below, the summed demand against time."""
    figure, axes = new_figure(7.6, 6.2, 2, 2, subplot_kw={"projection": "polar"})
    peak = max((level for ring in rings for _, _, level in ring.pieces), default=1.0)
    for column, shifted in enumerate((False, True)):
        _overlay(axes[column], rings, perimeter_s, peak, shifted, score)
        axes[2 + column].remove()
        _summed(figure.add_subplot(2, 2, 3 + column), rings, perimeter_s, capacity_gbps, shifted)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, max(1, len(labels))))
    return figure


def _overlay(axes: Any, rings: Sequence[Ring], perimeter_s: float, peak: float, shifted: bool, score: float) -> None:
    width = 0.8 / max(1, len(rings))
    for i, ring in enumerate(rings):
        inner = 1.0 + i * width
        axes.bar(0, width * 0.94, 2 * math.pi, inner, color="none", edgecolor=GRID, linewidth=0.8, align="edge")
        colour, label = JOB_COLOURS[i % len(JOB_COLOURS)], ring.name
        if shifted and ring.shift_s:
            label += f" (shifted by {duration(ring.shift_s)})"
        for turn in range(round(perimeter_s / ring.period_s)):
            for start, end, level in ring.pieces:
                at = (start + turn * ring.period_s + (ring.shift_s if shifted else 0.0)) % perimeter_s
                axes.bar(
                    2 * math.pi * at / perimeter_s, width * 0.94, 2 * math.pi * (end - start) / perimeter_s, inner,
                    color=colour, alpha=0.25 + 0.75 * level / peak, align="edge", linewidth=0, label=label,
                )  # fmt: skip
                label = "_"
    axes.set_ylim(0, 1.85)
    axes.set_yticks([])
    axes.set_xticks([k * math.pi / 2 for k in range(4)], [duration(k * perimeter_s / 4) for k in range(4)])
    axes.tick_params(pad=12)  # else labels of three digits touch the outer ring
    axes.grid(False)
    axes.spines["polar"].set_visible(False)
    axes.set_title(f"after: score {score:.3f}" if shifted else "before", loc="center", pad=14)
    axes.text(0, 0, duration(perimeter_s), ha="center", va="center", color=MUTED)


def _summed(axes: Any, rings: Sequence[Ring], perimeter_s: float, capacity_gbps: float, shifted: bool) -> None:
    times = [perimeter_s * k / _POINTS for k in range(_POINTS)]
    stacked = [[ring.demand(t, shifted) for t in times] for ring in rings]
    axes.stackplot(
        times, *stacked, colors=[JOB_COLOURS[i % len(JOB_COLOURS)] for i in range(len(rings))], step="post", linewidth=0
    )
    axes.axhline(capacity_gbps, color=INK, linewidth=1.0)
    axes.set_xlim(0, perimeter_s)
    axes.set_ylim(0, 1.15 * max(capacity_gbps, max(map(sum, zip(*stacked, strict=True)), default=0.0)))
    axes.locator_params(axis="x", nbins=4)
    axes.xaxis.set_major_formatter(lambda t, _: duration(t) if t > 0 else "0")
    tidy_axes(axes, "", "time on the circle", "demand (Gbit/s)")
