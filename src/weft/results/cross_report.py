"""A ranked cross product for the terminal and as one HTML file: a heat map, the ranking, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from rich.console import Group
from rich.text import Text

from weft.results.cross import MORE_IS_BETTER
from weft.results.display import MISSING, count, number, time_unit
from weft.results.files import write_text
from weft.results.html import definition_list, folded, grid_table, page, picture_card, plain_table, what_was_run
from weft.results.pictures.style import GRID, INK, MUTED, PALETTE, house_style, new_figure, tidy_axes
from weft.results.tables import Cell, Grid, grid_text
from weft.results.words import ranking_verdict, verdict_card

_SHOWN = 20  # rows in the terminal
_MOST_ROWS = 400  # most rows in the report
_COLOURS = "Blue is better than the reference, orange worse; dots were left out."
_WRITTEN = 600  # cells up to which a heat map has its numbers written in


def ranking_table(found: Mapping[str, Any]) -> Group:
    """The best combinations for the terminal, what each layer's policies are worth, and what was left out."""
    entries, seeds = found["combinations"], found["seeds"]
    n = len(seeds)
    title = Text.assemble(
        (found["scenario"], "bold"), f", {count(len(entries))} combinations, {n} seed{'s' if n > 1 else ''}"
    )
    parts: list[Any] = [title, "", grid_text(ranking_grid(found, _SHOWN))]
    if len(entries) > _SHOWN:
        parts.append(Text(f"... and {count(len(entries) - _SHOWN)} more (--json and --report have all)", style="dim"))
    parts += ["", Text(f"over the reference: {found['by']} over that of {found['reference']} at the same seed", "dim")]
    parts += ["", grid_text(_layer_grid(found))]
    if found["skipped"]:
        total = sum(group["count"] for group in found["skipped"])
        parts += ["", Text(f"left out: {count(total)}")]
        parts += [Text(f"  {count(group['count'])}: {group['reason']}", "dim") for group in found["skipped"]]
    return Group(*parts)


def ranking_grid(found: Mapping[str, Any], most: int = _MOST_ROWS) -> Grid:
    """Combinations, best first."""
    by, entries = found["by"], found["combinations"][:most]
    timed = by.endswith("_s")
    unit = time_unit(e["metrics"][by]["mean"] for e in entries)
    rows = []
    for entry in entries:
        mean = entry["metrics"][by]["mean"]
        shown = unit.of(mean) if timed else number(mean)
        small = f"{entry['unfinished']} jobs unfinished" if entry["unfinished"] else ""
        rows.append(
            (
                Cell(entry["stack"], small), Cell(str(entry["rank"])), Cell(shown),
                _ratio(entry["ratio_to_reference"][by], by, entry["stack"] == found["reference"]),
                _ratio(entry["ratio_to_best"], by, entry["rank"] == 1),
            )
        )  # fmt: skip
    return Grid(
        ("combination", "rank", by, "over the reference", "over the best"),
        ("", "", unit.name if timed else "", "", ""), tuple(rows),
    )  # fmt: skip


def _layer_grid(found: Mapping[str, Any]) -> Grid:
    rows = [
        (Cell(f"{layer} {row['policy']}"), Cell(count(row["combinations"])), Cell(f"{row['median']:.3f}"),
         Cell(f"{row['best']:.3f}"))
        for layer, policies in found["layers"].items() for row in policies
    ]  # fmt: skip
    return Grid(("policy", "combinations", "median ratio", "best ratio"), ("",) * 4, tuple(rows))


def _ratio(ratio: Mapping[str, Any], by: str, first: bool) -> Cell:
    mean, (low, high) = ratio["mean"], ratio["ci95"]
    if mean is None or first:
        return Cell(MISSING if mean is None else "1")
    if low is None:
        return Cell(f"{mean:.3f}")
    less, more = high < 1.0, low > 1.0
    good, bad = (more, less) if by in MORE_IS_BETTER else (less, more)
    return Cell(f"{mean:.3f} [{low:.3f}, {high:.3f}]", "", "good" if good else "bad" if bad else "")


@house_style()
def heat_map(found: Mapping[str, Any]) -> Figure:
    """Ratios to the reference: a row for each order and place (or planner), a column for each interleave, pace
    and route.

    Empty cells were left out. Rows and columns are sorted by their median, best in the upper left corner.
    """
    by, entries = found["by"], found["combinations"]
    cells = {
        _corner(entry): ratio
        for entry in entries
        if (ratio := entry["ratio_to_reference"][by]["mean"]) is not None
    }  # fmt: skip
    sign = -1.0 if by in MORE_IS_BETTER else 1.0
    rows, columns = (_sorted(cells, axis, sign) for axis in (0, 1))
    values = np.full((len(rows), len(columns)), np.nan)
    for (row, column), ratio in cells.items():
        values[rows.index(row), columns.index(column)] = ratio
    figure, (axes,) = new_figure(max(6.0, 2.6 + 0.55 * len(columns)), 1.6 + 0.24 * len(rows))
    reach = float(np.nanmax(np.abs(np.log(np.maximum(values, 1e-9))))) if cells else 0.0
    reach = min(max(reach, 0.02), np.log(4.0))
    image = axes.imshow(
        sign * np.log(np.maximum(values, 1e-9)), aspect="auto", interpolation="none", cmap=_two_sided(),
        vmin=-reach, vmax=reach,
    )  # fmt: skip
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    for i, j in np.argwhere(np.isnan(values)):
        axes.text(j, i, "·", ha="center", va="center", fontsize=7, color=MUTED)
    if values.size <= _WRITTEN:
        for i, j in np.argwhere(~np.isnan(values)):
            axes.text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", fontsize=6.5, color=INK)
    over = found["reference"]
    tidy_axes(axes, "\n".join((f"{by} over that of", over, "mean of paired ratios")), grid="")
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.02)
    bar.ax.tick_params(length=0)
    bar.ax.yaxis.set_major_formatter(lambda v, _: f"{np.exp(sign * v):.2f}")
    bar.outline.set_edgecolor(GRID)
    return figure


def _corner(entry: Mapping[str, Any]) -> tuple[str, str]:
    layers = entry["layers"]
    plan = layers.get("planner") or f"{layers['order']}/{layers['place']}"
    route = layers.get("route", "ecmp")
    return plan, f"{layers['interleave']}/{layers['pace']}" + (f"/{route}" if route != "ecmp" else "")


def _sorted(cells: Mapping[tuple[str, str], float], axis: int, sign: float) -> list[str]:
    groups: dict[str, list[float]] = {}
    for key, ratio in cells.items():
        groups.setdefault(key[axis], []).append(ratio)
    return sorted(groups, key=lambda name: (sign * float(np.median(groups[name])), name))


def _two_sided() -> LinearSegmentedColormap:
    """Better is blue, worse is orange, no difference has the page's own colour."""
    good, bad = map(to_rgb, PALETTE[:2])
    stops = [(0.0, (*good, 0.85)), (0.5, (*good, 0.0)), (0.5, (*bad, 0.0)), (1.0, (*bad, 0.85))]
    return LinearSegmentedColormap.from_list("weft-two", stops)


def render(found: Mapping[str, Any], command: str = "", scenario_text: str = "") -> str:
    """The report as HTML."""
    entries, seeds = found["combinations"], found["seeds"]
    head = (
        f'<header><p class="brand">weft</p><h1>{escape(found["scenario"])}</h1><p>{count(len(entries))} combinations '
        f"of order, place, interleave, pace and route · {len(seeds)} seed{'s' if len(seeds) > 1 else ''}</p></header>"
    )
    key = (
        "Ratios are formed at each seed, with 95 % intervals over seeds (Student t). If the interval of a ratio "
        "to the best reaches down to 1, these seeds do not tell the two apart; the best of many is also the luckiest."
        if len(seeds) > 1
        else "One seed: no intervals."
    )
    shown = f" The first {count(_MOST_ROWS)} of {count(len(entries))}." if len(entries) > _MOST_ROWS else ""
    groups = found["skipped"]
    rows = [
        [count(group["count"]), escape(group["reason"]), _listed(group["combinations"])] for group in groups
    ]  # fmt: skip
    left_out = f'<section class="card">{plain_table(("left out", "why", "which"), rows, "log")}</section>'
    run = definition_list([("seeds", ", ".join(map(str, seeds))), ("reference", found["reference"])])
    verdict = verdict_card(ranking_verdict(found))
    body = (
        f"{head}{verdict}{picture_card(heat_map(found), 'heat', _COLOURS)}"
        f'<section class="card">{grid_table(_layer_grid(found))}</section>'
        f'<h2>Ranking</h2><section class="card">{grid_table(ranking_grid(found))}'
        f'<p class="key">{escape(key + shown)}</p>'
        f"</section>{'<h2>Left out</h2>' + left_out if groups else ''}"
        f"{what_was_run(command, run, folded('Scenario file', scenario_text))}"
    )
    return page(found["scenario"], body)


def _listed(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return escape(", ".join(names))
    return f"<details><summary>{escape(names[0])}, ...</summary>{escape(', '.join(names))}</details>"


def write_report(path: str | Path, found: Mapping[str, Any], command: str = "", scenario_text: str = "") -> Path:
    """Write the report of a cross product to `path`."""
    target = Path(path)
    write_text(target, render(found, command, scenario_text), "report")
    return target
