"""When jobs communicated: a row of bars for each job, over the first iterations of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.testbed.jobs import Timing

_SHOWN = 10  # iterations


def draw(jobs: Sequence[Timing], title: str, path: Path) -> None:
    """Write the picture; its kind follows from the name."""
    from matplotlib.figure import Figure

    begin = min(float(job.rows[0, 0]) for job in jobs)
    end = min(float(job.rows[:_SHOWN][-1, 3]) for job in jobs)
    figure = Figure(figsize=(8, 0.6 + 0.55 * len(jobs)), layout="constrained")
    axes = figure.subplots()
    for n, job in enumerate(jobs):
        bars = [(1e3 * (a - begin), 1e3 * (b - a)) for a, b in job.rows[:, 1:3] if b > begin and a < end]
        axes.broken_barh(bars, (n - 0.35, 0.7), color=f"C{n}")
    axes.set_yticks(range(len(jobs)), [job.name for job in jobs])
    axes.set_xlim(0, 1e3 * (end - begin))
    axes.set_xlabel("ms")
    axes.set_title(title, fontsize=10, loc="left")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.savefig(path, dpi=110)
