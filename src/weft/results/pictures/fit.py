"""Picture of an all-reduce fit: timings as points, the fitted model as lines, one colour per number of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from weft.errors import InputError
from weft.results.pictures.style import PALETTE, house_style, new_figure, tidy_axes

__all__ = ["fit_figure", "save_fit_plot"]

Point = tuple[int, float, float]  # jobs at once, message bytes, seconds
SUFFIXES = (".svg", ".png", ".pdf")


@house_style()
def fit_figure(samples: Sequence[Point], fitted: Sequence[Point]) -> Figure:
    """Seconds over jobs at once, one line per message size."""
    figure, (axes,) = new_figure(6.4, 3.8)
    for i, size in enumerate(sorted({m for _, m, _ in samples})):
        colour = PALETTE[i % len(PALETTE)]
        points = sorted((k, t) for k, m, t in samples if m == size)
        line = sorted((k, t) for k, m, t in fitted if m == size)
        axes.plot([k for k, _ in line], [t for _, t in line], color=colour, linewidth=1.2, label=f"{size / 1e6:.3g} MB")
        axes.plot([k for k, _ in points], [t for _, t in points], "o", color=colour, markersize=3.5)
    tidy_axes(axes, "All-reduce under contention", "all-reduces at once (k)", "seconds", "both")
    axes.set_ylim(bottom=0)
    axes.legend(title="message", ncols=2)
    return figure


def save_fit_plot(samples: Sequence[Point], fitted: Sequence[Point], path: Path) -> None:
    """Draw into a file; its ending says which kind."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--plot: {path} must end in {', '.join(SUFFIXES)}")
    plain = {"Date": None} if path.suffix.lower() == ".svg" else None
    try:
        with rc_context({"svg.hashsalt": "weft", "svg.fonttype": "none"}):
            fit_figure(samples, fitted).savefig(path, dpi=150, facecolor="white", metadata=plain)
    except OSError as error:
        raise InputError(f"--plot: {path}: {error.strerror or error}; give a path that can be written") from error
