"""A sweep (the same stacks at several settings of a scenario) for the terminal and as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Group
from rich.text import Text

from weft.results.display import time_unit
from weft.results.files import write_text
from weft.results.html import grid_table, page, picture_card, what_was_run
from weft.results.pictures.style import (
    DASHES,
    MUTED,
    PALETTE,
    house_style,
    legend_below,
    new_figure,
    tidy_axes,
)
from weft.results.tables import Cell, Grid, comparison_grid, grid_text, interval_words, ratio_cell
from weft.results.words import meanings, sweep_verdict, verdict_card


def sweep_grid(found: Mapping[str, Any]) -> Grid:
    """A row for each setting and stack: mean JCT and its ratio to the first stack at the same setting."""
    points = found["sweep"]
    unit = time_unit(e["metrics"]["jct_mean_s"]["mean"] for point in points for e in point["stacks"])
    rows = []
    for point in points:
        for i, entry in enumerate(point["stacks"]):
            ratio = ratio_cell(entry["ratio_to_first"]["jct_mean_s"], first=i == 0)
            text = f"{ratio.text} {ratio.small}".rstrip()
            mean, tail = entry["metrics"]["jct_mean_s"]["mean"], entry["metrics"]["jct_p99_s"]["mean"]
            rows.append(
                (Cell(point["name"] if i == 0 else ""), Cell(entry["stack"]), Cell(unit.of(mean)), Cell(unit.of(tail)),
                 Cell(text, "", ratio.tone))
            )  # fmt: skip
    return Grid(
        ("setting", "stack", "JCT mean", "JCT p99", "relative JCT"), ("", "", unit.name, unit.name, ""), tuple(rows)
    )


def sweep_table(found: Mapping[str, Any]) -> Group:
    """The sweep for the terminal."""
    title = Text.assemble((found["scenario"], "bold"), f", {interval_words(found['sweep'][0])}")
    first = found["sweep"][0]["stacks"][0]["stack"]
    caption = Text(f"relative JCT: mean JCT over that of {first} at the same setting", style="dim")
    return Group(title, "", grid_text(sweep_grid(found)), "", caption)


@house_style()
def ratio_lines(found: Mapping[str, Any]) -> Figure:
    """The ratio of mean JCT to the first stack's, setting by setting, a line with intervals for each other stack."""
    points = found["sweep"]
    figure, (axes,) = new_figure(11.4, 3.6)
    for i, entry in enumerate(points[0]["stacks"][1:], 1):
        ratios = [point["stacks"][i]["ratio_to_first"]["jct_mean_s"] for point in points]
        at = [k for k, ratio in enumerate(ratios) if ratio["mean"] is not None]
        colour = PALETTE[i % len(PALETTE)]
        means = [ratios[k]["mean"] for k in at]
        axes.plot(at, means, "o", linestyle=DASHES[i % len(DASHES)], color=colour, label=entry["stack"])
        for k in at:
            if ratios[k]["ci95"][0] is not None:
                axes.plot([k, k], ratios[k]["ci95"], color=colour, linewidth=1.2)
    axes.axhline(1.0, color=MUTED, linewidth=1.0)
    axes.set_xticks(range(len(points)), [point["name"].replace(" ", "\n") for point in points])
    axes.set_xlim(-0.5, len(points) - 0.5)
    tidy_axes(axes, f"Mean JCT relative to {points[0]['stacks'][0]['stack']}", y="ratio", grid="y")
    legend_below(figure, axes)
    return figure


def write_report(path: str | Path, found: Mapping[str, Any], command: str = "") -> Path:
    """Write the sweep's report."""
    parts = [
        f'<header><p class="brand">weft</p><h1>{escape(found["scenario"])}</h1>'
        f"<p>{len(found['sweep'])} settings · {escape(interval_words(found['sweep'][0]))}</p></header>",
        verdict_card(sweep_verdict(found)),
        f'<section class="card">{grid_table(sweep_grid(found))}{meanings("JCT", "relative JCT")}</section>',
    ]
    if len(found["sweep"][0]["stacks"]) > 1:
        parts.append(picture_card(ratio_lines(found), "sweep"))
    for point in found["sweep"]:
        table = grid_table(comparison_grid(point))
        parts.append(f'<details class="card"><summary>{escape(point["name"])}</summary>{table}</details>')
    parts.append(what_was_run(command))
    target = Path(path)
    write_text(target, page(found["scenario"], "\n".join(parts)), "report")
    return target
