"""Advice for the terminal and as one HTML file, which opens with the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.console import Group
from rich.text import Text

from weft.results.display import count, duration, number, percent
from weft.results.files import write_text
from weft.results.html import definition_list, grid_table, page, picture_card, what_was_run
from weft.results.pictures.style import MUTED, PALETTE, house_style, new_figure, tidy_axes
from weft.results.tables import Cell, Grid, grid_text, ratio_cell

_SHOWN = 20


def advice_text(found: Mapping[str, Any]) -> Group:
    """The advice for the terminal: verdict, what was understood, the replay, the race, what-ifs."""
    parts: list[Any] = [Text(sentence, style="bold" if i == 0 else "") for i, sentence in enumerate(found["verdict"])]
    if found["race"]["recommended"] != found["race"]["reference"]:
        parts.append(
            Text(f"To run it: weft serve --stack '{found['race']['recommended']}' (docs/live.md, docs/slurm.md).")
        )
    parts += ["", Text("What was understood", style="bold")]
    parts.append(Text(understood_text(found["understood"])))
    parts += ["", Text("What happened, simulated", style="bold")]
    parts += [Text(f"  {sentence}") for sentence in found["replay"]["sentences"]]
    parts += [
        "",
        Text("The race", style="bold"),
        grid_text(race_grid(found, _SHOWN), ("slowdown p99", "wait mean", "JCT p99")),
        "",
        Text(_key(found), style="dim"),
    ]
    if found["what_if"]:
        parts += ["", Text("What if", style="bold"), grid_text(what_if_grid(found))]
    return Group(*parts)


def understood_text(facts: Mapping[str, Any]) -> str:
    """What was understood, a line each."""
    return "\n".join(f"  {name}: {words}" for name, words in understood(facts))


def understood(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was read and what was assumed, as names and words."""
    first, second = facts["load_by_half"]
    damaged = f" ({facts['first_damaged']})" if facts["first_damaged"] else ""
    by_day = "" if first is None else (  # a log of less than two days has none
        f"; by when jobs ran (or came), {percent(first)} in the first half, {percent(second)} in the second and "
        f"{percent(max(facts['load_by_day']))} on the busiest day"
    )  # fmt: skip
    lines = [
        ("log", f"{facts['file']} ({facts['format']}): {count(facts['jobs'])} jobs of {count(facts['rows'])} rows "
         f"over {number(facts['days'])} days; {count(facts['damaged'])} damaged{damaged}, "
         f"{count(facts['left_out'])} left out"),
        ("cluster", f"{count(facts['cluster_gpus'])} GPUs; all jobs together ask for {percent(facts['load'])} of what "
         f"these have from the first submission to the last{by_day}"),
    ]  # fmt: skip
    if facts["columns"]:
        columns = ", ".join(f"{field}={column}" for field, column in facts["columns"].items())
        lines.insert(1, ("columns", f"{columns} (other ones: --map)"))
    if facts["assumed"]:
        lines.append(("assumed", ", ".join(facts["assumed"]) + " (change with --cluster or flags)"))
    if facts["what_if"]:
        lines.append(("what if", "; ".join(f"{text} is {size}" for text, size in facts["what_if"].items())))
    if facts["unknown"]:
        lines.append(("unknown", "; ".join(facts["unknown"])))
    return lines


def race_grid(found: Mapping[str, Any], most: int = 100) -> Grid:
    """Stacks, best first."""
    rows = []
    for entry in found["race"]["stacks"][:most]:
        ran = count(entry["windows"]) + ", then out" * bool(entry["dropped"])
        reference = entry["stack"] == found["race"]["reference"]
        mean, tail = (ratio_cell(entry[key], reference) for key in ("over_today", "p99_over_today"))
        means = entry["means"]
        rows.append(
            (
                Cell(entry["stack"], entry["dropped"]), Cell(ran),
                Cell(f"{mean.text} {mean.small}".rstrip(), "", mean.tone),
                Cell(f"{tail.text} {tail.small}".rstrip(), "", tail.tone), Cell(duration(means["wait_mean_s"])),
                Cell(number(means["slowdown_p99"])), Cell(number(means["preemptions"])),
                Cell("yes" if entry["needs_lengths"] else "no"),
            )
        )  # fmt: skip
    titles = ("stack", "windows", "JCT mean", "JCT p99", "wait mean", "slowdown p99", "stops/job", "lengths")
    return Grid(titles, ("", "", "of today's", "of today's", "", "x", "", ""), tuple(rows))


def what_if_grid(found: Mapping[str, Any]) -> Grid:
    """Changed clusters: each stack's mean JCT over today's stack on today's cluster."""
    rows = []
    for change in found["what_if"]:
        for entry in change["stacks"]:
            cell = ratio_cell(entry["over_today"], first=False)
            words = Cell(f"{cell.text} {cell.small}".rstrip(), "", cell.tone)
            rows.append((Cell(change["change"]), Cell(count(change["gpus"])), Cell(entry["stack"]), words))
    return Grid(("change", "GPUs", "stack", "mean JCT over today's"), ("",) * 4, tuple(rows))


def _key(found: Mapping[str, Any]) -> str:
    race = found["race"]
    return (
        f"{race['windows']} JCT: completion time, over that of {race['reference']} in the same window. Lengths: "
        "whether the stack uses the lengths of jobs. Waits and slowdowns are means over the windows in which the stack "
        "ran. Slowdown: completion time over the time that a job computes, which counts as at least 10 min. A stack "
        "that is out was clearly behind after so many windows, or in the worse half; its mean is over these alone and "
        "may look better than that of stacks which went on."
    )


@house_style()
def race_plot(found: Mapping[str, Any]) -> Figure:
    """Each stack's ratio to today's, with its interval, on a logarithmic axis; left of 1 is better."""
    entries = found["race"]["stacks"]
    figure, (axes,) = new_figure(11.4, 1.0 + 0.26 * len(entries))
    shown = [1.0]
    for i, entry in enumerate(entries):
        mean, (low, high) = entry["over_today"]["mean"], entry["over_today"]["ci95"]
        shown += [value for value in (mean, low, high) if value]
        colour = PALETTE[0] if not entry["dropped"] else MUTED
        if low is not None:
            axes.plot([low, high], [i, i], color=colour, linewidth=1.8)
        axes.plot([mean], [i], "o", color=colour, markersize=5)
    axes.axvline(1.0, color=MUTED, linewidth=1.0)
    axes.set_yticks(range(len(entries)), [entry["stack"] for entry in entries], fontsize=8)
    axes.set_ylim(len(entries) - 0.5, -0.5)
    axes.set_xscale("log", nonpositive="clip")  # twice and half are equally far from 1
    axes.set_xlim(max(min(shown), 0.05) / 1.1, max(*shown, 1.1) * 1.1)
    tidy_axes(axes, f"Mean completion time over that of {found['race']['reference']} (grey: dropped out)", grid="x")
    return figure


@house_style()
def load_plot(found: Mapping[str, Any]) -> Figure:
    """GPU time that jobs take on each day over what the cluster has."""
    load = found["understood"]["load_by_day"]
    figure, (axes,) = new_figure(11.4, 2.6)
    axes.bar(range(len(load)), load, color=PALETTE[0], width=0.8)
    axes.axhline(1.0, color=MUTED, linewidth=1.0)
    axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    tidy_axes(
        axes, "GPU time that jobs take on each day if none has to wait, over what the cluster has", x="day", grid="y"
    )
    return figure


def write_report(path: Path, found: Mapping[str, Any], command: str = "") -> Path:
    """Write the report."""
    first, *others = found["verdict"]
    facts = found["understood"]
    more = "".join(f"<p>{escape(sentence)}</p>" for sentence in others)
    parts = [
        f'<header><p class="brand">weft advise</p><h1>{escape(Path(facts["file"]).name)}</h1></header>',
        f'<section class="card verdict"><p class="lead">{escape(first)}</p>{more}</section>',
        '<h2>What was understood</h2><section class="card">'
        + definition_list(understood(facts), "lines")
        + "</section>",
        picture_card(load_plot(found), "load") if len(facts["load_by_day"]) > 1 else "",
        "<h2>What happened, simulated</h2>",
        '<section class="card">' + "".join(f"<p>{escape(s)}</p>" for s in found["replay"]["sentences"]) + "</section>",
        f'<h2>The race</h2><section class="card">{grid_table(race_grid(found))}<p class="key">{escape(_key(found))}</p>'
        "</section>",
        picture_card(race_plot(found), "race"),
    ]
    if found["what_if"]:
        parts.append(f'<h2>What if</h2><section class="card">{grid_table(what_if_grid(found))}</section>')
    if found["race"]["refused"]:
        items = "".join(f"<li>{escape(name)}: {escape(why)}</li>" for name, why in found["race"]["refused"].items())
        parts.append(f'<h2>Stacks that cannot run here</h2><section class="card"><ul>{items}</ul></section>')
    parts.append(what_was_run(command))
    write_text(path, page("advice", "\n".join(parts)), "report")
    return path
