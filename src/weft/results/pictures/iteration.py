"""Pictures of one training iteration: computing and traffic over time, and CASSINI's circle.

The circle rolls the iteration around: its perimeter is the iteration time, coloured arcs are Up phases (the NIC sends),
the rest is Down (CASSINI section 3, Figure 3). On the terminal as text, in files by matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.results.display import Unit, duration, number, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Group
    from rich.text import Text

_COLUMNS = 72
_CIRCLE_ROWS = 17
_LANES = 12  # more lanes than this are not drawn
_LEVELS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Block:
    """A compute task in a lane (a set of workers)."""

    lane: str
    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Rate:
    """A time in which the NIC sent at one rate."""

    start_s: float
    end_s: float
    gbps: float


@dataclass(frozen=True)
class IterationPicture:
    """What there is to draw: computing of all workers, traffic of one worker's NIC."""

    title: str
    iteration_s: float
    nic_gbps: float
    worker: int
    blocks: tuple[Block, ...]
    traffic: tuple[Rate, ...]
    ups: tuple[Rate, ...]  # Up phases with their mean rate

    @property
    def lanes(self) -> tuple[str, ...]:
        """Lanes in the order they first compute."""
        return tuple(dict.fromkeys(b.lane for b in self.blocks))[:_LANES]

    @property
    def up_s(self) -> float:
        """Seconds of Up in one iteration."""
        return sum(u.end_s - u.start_s for u in self.ups)


def draw_iteration(picture: IterationPicture) -> Group:
    """The iteration as text: a row per lane, a row of traffic, the circle."""
    from rich.console import Group
    from rich.text import Text

    unit = time_unit([picture.iteration_s])
    width = max((len(lane) for lane in (*picture.lanes, "sends")), default=5)
    rows = [Text(picture.title, style="bold"), Text()]
    for lane in picture.lanes:
        rows.append(Text(f"{lane:>{width}} ", style="dim") + _lane(picture, lane))
    rows.append(Text(f"{'sends':>{width}} ", style="dim") + _traffic(picture))
    rows.append(Text(" " * (width + 1) + _axis(picture.iteration_s, unit), style="dim"))
    if any(not b.name.startswith(("forward", "lookup")) for b in picture.blocks):
        rows.append(Text(" " * (width + 1)) + _legend(picture))
    return Group(*rows, Text(), *_circle(picture))


@dataclass(frozen=True, slots=True)
class _Look:
    colour: str
    style: str


_FORWARD = _Look("#0072b2", "blue")
_BACKWARD = _Look("#d55e00", "dark_orange")
_OPTIMISER = _Look("#5b6471", "grey50")
_UP = _Look("#009e73", "green")


def _look(name: str) -> _Look:
    if name.startswith(("forward", "lookup")):
        return _FORWARD
    return _OPTIMISER if name.startswith("optimiser") else _BACKWARD


def _lane(picture: IterationPicture, lane: str) -> Text:
    """A lane by columns: the task that fills most of the column, or a thin line where nothing runs."""
    from rich.text import Text

    text = Text()
    step = picture.iteration_s / _COLUMNS
    mine = [b for b in picture.blocks if b.lane == lane]
    for i in range(_COLUMNS):
        best, most = None, 0.0
        for b in mine:
            inside = min(b.end_s, (i + 1) * step) - max(b.start_s, i * step)
            if inside > most:
                best, most = b, inside
        if best is None or most < 0.5 * step:
            text.append("─" if best is None else "╌", style="dim")
        else:
            text.append("█", style=_look(best.name).style)
    return text


def _traffic(picture: IterationPicture) -> Text:
    from rich.text import Text

    text, step = Text(), picture.iteration_s / _COLUMNS
    for i in range(_COLUMNS):
        moved = sum(max(0.0, min(r.end_s, (i + 1) * step) - max(r.start_s, i * step)) * r.gbps for r in picture.traffic)
        share = moved / (step * picture.nic_gbps) if step > 0 else 0.0
        level = min(8, max(1 if moved > 0 else 0, round(8 * share)))
        text.append(_LEVELS[level] if level else "─", style=_UP.style if level else "dim")
    return text


def _axis(iteration_s: float, unit: Unit) -> str:
    """0, the middle and the end, under the columns they belong to."""
    middle, end = unit.of(iteration_s / 2), f"{unit.of(iteration_s)} {unit.name}"
    left = "0" + middle.rjust(_COLUMNS // 2 + len(middle) // 2 - 1)
    return left + end.rjust(_COLUMNS - len(left))


def _legend(picture: IterationPicture) -> Text:
    from rich.text import Text

    text = Text()
    looks = {_look(b.name): b for b in picture.blocks}
    words = {_FORWARD: "forward", _BACKWARD: "backward", _OPTIMISER: "optimiser"}
    for look, word in words.items():
        if look in looks:
            text.append("█ ", style=look.style).append(f"{word}  ")
    text.append("▆ ", style=_UP.style).append(f"NIC of worker {picture.worker}, {number(picture.nic_gbps)} Gbit/s")
    return text


def _circle(picture: IterationPicture) -> list[Text]:
    """The circle, counter-clockwise from the right as in CASSINI's figures, with its numbers beside it."""
    from rich.text import Text

    radius = _CIRCLE_ROWS // 2
    grid = [[(" ", "")] * (4 * radius + 3) for _ in range(_CIRCLE_ROWS)]
    for k in range(32 * radius):
        angle = math.pi * k / (16 * radius)
        column, row = round(2 * radius * math.cos(angle)), round(radius * math.sin(angle))
        turn = math.atan2(row, column / 2) / (2 * math.pi) % 1.0  # where the character lies, not the point that met it
        up = any(u.start_s <= turn * picture.iteration_s < u.end_s for u in picture.ups)
        grid[radius - row][2 * radius + 1 + column] = ("█", _UP.style) if up else ("·", "dim")
    notes = _notes(picture)
    first = max(0, (_CIRCLE_ROWS - len(notes)) // 2)
    rows = []
    for i, cells in enumerate(grid):
        text = Text("  ")
        for char, style in cells:
            text.append(char, style=style)
        if first <= i < first + len(notes):
            text.append("   " + notes[i - first])
        rows.append(text)
    return rows


def _notes(picture: IterationPicture) -> list[str]:
    total, down = picture.iteration_s, picture.iteration_s - picture.up_s
    share = f" ({360 * down / total:.0f}°)" if total > 0 else ""
    notes = [f"circle of {duration(total)}: Down {duration(down)}{share}, Up {duration(picture.up_s)}"]
    for i, up in enumerate(picture.ups[: _CIRCLE_ROWS - 3], 1):
        angle = f"{360 * up.start_s / total:.0f}° to {360 * up.end_s / total:.0f}°"
        notes.append(f"Up {i}: {duration(up.end_s - up.start_s)} at {number(up.gbps)} Gbit/s, {angle}")
    if len(picture.ups) > _CIRCLE_ROWS - 3:
        notes.append(f"... and {len(picture.ups) - _CIRCLE_ROWS + 3} more")
    return notes


def iteration_figure(picture: IterationPicture) -> Figure:
    """Lanes of computing, traffic below on the same time axis, and the circle beside them."""
    from matplotlib.figure import Figure

    from weft.results.pictures.style import house_style, tidy_axes

    unit = time_unit([picture.iteration_s])
    with house_style():
        lanes = picture.lanes
        figure = Figure(figsize=(10.5, 2.6 + 0.28 * len(lanes)), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(2.4, 1), height_ratios=(0.3 + 0.28 * len(lanes), 1.6))
        top = figure.add_subplot(grid[0, 0])
        low = figure.add_subplot(grid[1, 0], sharex=top)
        for row, lane in enumerate(lanes):
            for b in picture.blocks:
                if b.lane == lane and b.end_s > b.start_s:
                    span = (b.start_s / unit.seconds, (b.end_s - b.start_s) / unit.seconds)
                    top.broken_barh([span], (row - 0.4, 0.8), facecolor=_look(b.name).colour, linewidth=0)
        top.set_ylim(len(lanes) - 0.5, -0.5)
        top.set_yticks(range(len(lanes)), lanes)
        top.tick_params(labelbottom=False)
        tidy_axes(top, picture.title, grid="")
        _legend_patches(figure, picture)
        for r in picture.traffic:
            low.fill_between([r.start_s / unit.seconds, r.end_s / unit.seconds], r.gbps, color=_UP.colour, linewidth=0)
        low.axhline(picture.nic_gbps, color="#5b6471", linewidth=0.8, linestyle=(0, (4, 2)))
        low.set_ylim(0, 1.12 * picture.nic_gbps)
        low.set_xlim(0, picture.iteration_s / unit.seconds or 1.0)
        tidy_axes(low, "", f"time ({unit.name})", f"worker {picture.worker} sends (Gbit/s)")
        _polar(figure.add_subplot(grid[:, 1], projection="polar"), picture)
    return figure


def _legend_patches(figure: Figure, picture: IterationPicture) -> None:
    from matplotlib.patches import Patch

    there = {_look(b.name) for b in picture.blocks}
    words = {_FORWARD: "forward", _BACKWARD: "backward", _OPTIMISER: "optimiser"}
    patches = [Patch(color=look.colour, label=word) for look, word in words.items() if look in there]
    figure.legend(handles=patches, loc="outside lower left", ncols=3)


def _polar(axes: Axes, picture: IterationPicture) -> None:
    """The circle as a ring: arcs by rate, a thin line all around."""
    total = picture.iteration_s or 1.0
    turn = 2 * math.pi / total
    for arc in _arcs(picture.traffic):
        strength = 0.35 + 0.65 * min(1.0, arc.gbps / picture.nic_gbps)
        width = (arc.end_s - arc.start_s) * turn
        axes.bar(
            arc.start_s * turn, 0.3, width, bottom=0.7, align="edge", color=_UP.colour, alpha=strength, linewidth=0
        )
    around = [2 * math.pi * k / 180 for k in range(181)]
    axes.plot(around, [0.85] * 181, color="#5b6471", linewidth=0.8)
    axes.set_ylim(0, 1.05)
    axes.set_yticks([])
    axes.set_xticks([0, math.pi / 2, math.pi, 3 * math.pi / 2])
    axes.grid(False)
    axes.spines["polar"].set_visible(False)
    words = f"{duration(picture.iteration_s)}\n{duration(picture.iteration_s - picture.up_s)} Down"
    axes.text(0, 0, f"{words}\n{len(picture.ups)} Up", ha="center", va="center")


def _arcs(traffic: Sequence[Rate]) -> list[Rate]:
    """Neighbouring segments of about the same rate as one arc, so that files stay small."""
    arcs: list[Rate] = []
    for r in traffic:
        last = arcs[-1] if arcs else None
        if last and r.start_s - last.end_s <= 0.0 and abs(r.gbps - last.gbps) <= 0.02 * last.gbps:
            arcs[-1] = Rate(last.start_s, r.end_s, last.gbps)
        else:
            arcs.append(r)
    return arcs
