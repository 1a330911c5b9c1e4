"""When jobs communicated: a panel for each phase of a trial, with a row of bars for each job's first iterations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from weft.errors import InputError
from weft.results.files import refuse_unwritable
from weft_live.testbed.jobs import Timing

_SHOWN = 10  # iterations


def refuse_picture(path: Path) -> None:
    """Raise if no picture can be written there, or none of that kind."""
    from matplotlib.figure import Figure

    kinds = Figure().canvas.get_supported_filetypes()
    if path.suffix.removeprefix(".").lower() not in kinds:
        raise InputError(f"{path}: pictures are {', '.join(sorted(kinds))}; name a file such as {path.stem}.png")
    refuse_unwritable(path, "picture")


def draw(phases: Mapping[str, Mapping[str, Timing]], path: Path) -> None:
    """Write the picture; its kind follows from the name. All panels have the same time axis. Jobs alone ran one after
    another, so each of them begins at 0; the others begin at 0 when the first of them did."""
    from matplotlib.figure import Figure

    rows = max(len(timings) for timings in phases.values())
    figure = Figure(figsize=(8, 0.5 + (0.45 + 0.4 * rows) * len(phases)), layout="constrained")
    panels = figure.subplots(len(phases), sharex=True, squeeze=False)[:, 0]
    last = 0.0
    for axes, (phase, timings) in zip(panels, phases.items(), strict=True):
        first = min(float(timing.rows[0, 0]) for timing in timings.values())
        for n, timing in enumerate(timings.values()):
            begin = float(timing.rows[0, 0]) if phase == "alone" else first
            shown = timing.rows[:_SHOWN]
            bars = [(1e3 * (a - begin), 1e3 * (b - a)) for a, b in shown[:, 1:3]]
            axes.broken_barh(bars, (n - 0.35, 0.7), color=f"C{n}")
            last = max(last, 1e3 * float(shown[-1, 3] - begin))
        axes.set_yticks(range(len(timings)), list(timings))
        axes.set_ylim(rows - 0.5, -0.5)
        axes.set_title(f"communication, {phase}", fontsize=10, loc="left")
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    panels[-1].set_xlim(0, last)
    panels[-1].set_xlabel("ms")
    figure.savefig(path, dpi=110)
