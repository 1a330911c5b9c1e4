"""Tables for the terminal. Their contents (`Grid`) are made first and serve the HTML report too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from weft.results.display import MISSING, count, duration, number, percent, time_unit

_DISTRIBUTIONS = {
    "jct_s": "JCT",
    "queueing_s": "queueing",
    "comm_s": "exposed comm.",
    "iteration_s": "iteration",
}
_STYLES = {"good": "green", "fair": "yellow", "bad": "red", "": ""}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its words, a finer-print addition (an interval), and whether it is good news, fair or bad."""

    text: str
    small: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Grid:
    """A table's contents: column titles with their units, and rows. The first column names the row; columns of which
    every cell begins with a letter hold words, and so do those that are named."""

    titles: tuple[str, ...]
    units: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    wordy: tuple[str, ...] = ()


_LEAST_ASKED = ("JCT median", "makespan", "JCT p95", "exposed comm.", "GPU util.")  # left out in a narrow terminal


def run_grid(summary: Mapping[str, Any]) -> Grid:
    """Distributions of one run; each row has its own unit."""
    keys = ("mean", "median", "p95", "p99")
    rows = []
    for name, words in _DISTRIBUTIONS.items():
        values = [summary[name][k] for k in keys]
        unit = time_unit(values)
        rows.append((Cell(f"{words} ({unit.name})"), *(Cell(unit.of(v)) for v in values)))
    return Grid(("", *keys), ("",) * 5, tuple(rows))


def facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The single numbers of one run, as words."""
    others = summary["foreign_gbps"]
    return [
        ("jobs finished", f"{count(summary['finished'])} of {count(summary['jobs'])}"),
        ("makespan", duration(summary["makespan_s"])),
        (
            "GPU utilisation",
            f"{percent(summary['gpu_utilisation'])} of all GPU time was computing",
        ),
        *([] if others is None else [("goodput of others", f"{number(others)} Gbit/s")]),
        ("preemptions", count(summary["preemptions"])),
        ("iterations", count(summary["iterations"])),
        ("engine", f"{count(summary['events'])} events, {'exact' if summary['exact'] else 'estimated'}"),
        ("took", duration(summary["wall_s"])),
    ]


def comparison_grid(comparison: Mapping[str, Any]) -> Grid:
    """Stacks side by side: one row each, one time unit per group of columns that are compared with each other."""
    stacks = comparison["stacks"]
    groups = (
        (
            ("jct_mean_s", "JCT mean"),
            ("jct_median_s", "JCT median"),
            ("jct_p95_s", "JCT p95"),
            ("jct_p99_s", "JCT p99"),
        ),
        (("makespan_s", "makespan"),),
        (("queueing_mean_s", "queue mean"),),
        (("comm_mean_s", "exposed comm."),),
    )
    titles, units = ["stack"], [""]
    rows = [[Cell(entry["stack"])] for entry in stacks]
    for group in groups:
        unit = time_unit(entry["metrics"][name]["mean"] for entry in stacks for name, _ in group)
        for name, title in group:
            titles.append(title)
            units.append(unit.name)
            for row, entry in zip(rows, stacks, strict=True):
                metric = entry["metrics"][name]
                row.append(Cell(unit.of(metric["mean"]), _interval(metric["ci95"], unit.seconds)))
    if all(entry["metrics"]["foreign_gbps"]["mean"] is not None for entry in stacks):
        titles.append("goodput of others")
        units.append("Gbit/s")
        for row, entry in zip(rows, stacks, strict=True):
            got = entry["metrics"]["foreign_gbps"]
            row.append(Cell(number(got["mean"]), _interval(got["ci95"], 1.0)))
    titles += ["GPU util.", f"mean JCT relative to {stacks[0]['stack']}"]
    units += ["%", ""]
    for row, entry in zip(rows, stacks, strict=True):
        used = entry["metrics"]["gpu_utilisation"]
        row.append(Cell(number(_times(used["mean"], 100.0)), _interval(used["ci95"], 0.01)))
        row.append(ratio_cell(entry["ratio_to_first"]["jct_mean_s"], first=entry is stacks[0]))
    return Grid(tuple(titles), tuple(units), tuple(tuple(row) for row in rows))


def run_table(summary: Mapping[str, Any]) -> Group:
    """One run for the terminal: its distributions, then its single numbers."""
    title = Text.assemble((summary["stack"], "bold"), f" on {summary['scenario']}, seed {summary['seed']}")
    numbers = Table.grid(padding=(0, 2))
    for name, words in facts(summary):
        numbers.add_row(Text(name, style="dim"), words)
    grid = run_grid(summary)
    return Group(title, "", Fitting((_rich(grid), _blocks(grid))), "", numbers)


def comparison_table(comparison: Mapping[str, Any]) -> Group:
    """The result of `compare` for the terminal: a wide table, a transposed one, one with fewer columns or a block per
    stack, whichever fits."""
    grid = _with_ratio_interval(comparison_grid(comparison))
    title = Text.assemble((comparison["scenario"], "bold"), f", {interval_words(comparison)}")
    short = replace(grid, titles=(*grid.titles[:-1], "relative JCT"))
    first = comparison["stacks"][0]["stack"]
    caption = Text(f"relative JCT: mean JCT over that of {first} at the same seed", style="dim")
    fewer = [_without(short, _LEAST_ASKED[: i + 1]) for i in range(len(_LEAST_ASKED))]
    table = Fitting((_rich(short), _rich(_turned(grid)), *fewer, _blocks(grid)))
    bound = [Text(words, style="dim")] if (words := bound_words(comparison)) else []
    return Group(title, "", table, "", caption, *bound)


def bound_words(comparison: Mapping[str, Any]) -> str:
    """How far each stack's mean completion time is above what no scheduler can go below."""
    least = (comparison.get("bound") or {}).get("jct_mean_s")
    if not least:
        return ""
    means = [(entry["stack"], entry["metrics"]["jct_mean_s"]["mean"]) for entry in comparison["stacks"]]
    above = ", ".join(f"{stack} {100 * (mean / least - 1):.0f} %" for stack, mean in means if mean is not None)
    return (
        f"bound: no scheduler gets the mean JCT below {duration(least)}; at most above the best: {above}"
        if above
        else ""
    )


@dataclass(frozen=True)
class Fitting:
    """The first of several layouts that fits the terminal without cutting a cell; the last if none does."""

    layouts: tuple[RenderableType, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unbounded = options.update(width=10_000)
        for layout in self.layouts[:-1]:
            if Measurement.get(console, unbounded, layout).maximum <= options.max_width:
                yield layout
                return
        yield self.layouts[-1]


def grid_text(grid: Grid, least_asked: Sequence[str] = ()) -> RenderableType:
    """A grid for the terminal: a table, one without the columns that are asked for least, or a block per row, whichever
    fits."""
    fewer = (_without(grid, least_asked[: i + 1]) for i in range(len(least_asked)))
    return Fitting((_rich(grid), *fewer, _blocks(grid)))


def _rich(grid: Grid) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for i, (title, unit) in enumerate(zip(grid.titles, grid.units, strict=True)):
        head = Text("\n".join(filter(None, (*title.split(" "), unit))) if unit else title, style="bold")
        table.add_column(head, justify="left" if i == 0 else "right", no_wrap=True, vertical="bottom")
    for row in grid.rows:
        table.add_row(*(Text(cell.text, style=_STYLES[cell.tone]) for cell in row))
    return table


def _blocks(grid: Grid) -> Group:
    lines = []
    for row in grid.rows:
        lines.append(Text(row[0].text, style="bold", overflow="fold"))
        for (title, unit), cell in zip(_labels(grid), row[1:], strict=True):
            lines.append(Text(f"  {title}: {cell.text} {unit}".rstrip(), style=_STYLES[cell.tone], overflow="fold"))
    return Group(*lines)


def _with_ratio_interval(grid: Grid) -> Grid:
    """In a terminal only the ratio shows its interval: it is the one that answers the question."""
    rows = tuple((*row[:-1], Cell(f"{row[-1].text} {row[-1].small}".rstrip(), "", row[-1].tone)) for row in grid.rows)
    return replace(grid, rows=rows)


def _without(grid: Grid, columns: Sequence[str]) -> Group:
    """The table without these columns, and a line that says so."""
    kept = [i for i, title in enumerate(grid.titles) if title not in columns]
    rows = tuple(tuple(row[i] for i in kept) for row in grid.rows)
    narrow = Grid(tuple(grid.titles[i] for i in kept), tuple(grid.units[i] for i in kept), rows)
    return Group(_rich(narrow), Text(f"\nno room for {', '.join(columns)} (see --json or --report)", style="dim"))


def _turned(grid: Grid) -> Grid:
    titles = ("", *(row[0].text for row in grid.rows))
    labels = [f"{title} ({unit})" if unit else title for title, unit in _labels(grid)]
    labels[-1] = "relative JCT"
    rows = tuple((Cell(label), *(row[i + 1] for row in grid.rows)) for i, label in enumerate(labels))
    return Grid(titles, ("",) * len(titles), rows)


def _labels(grid: Grid) -> list[tuple[str, str]]:
    return list(zip(grid.titles, grid.units, strict=True))[1:]


def ratio_cell(ratio: Mapping[str, Any], first: bool) -> Cell:
    """A ratio with its interval, green or red where that excludes 1."""
    mean, (low, high) = ratio["mean"], ratio["ci95"]
    if mean is None or first:
        return Cell(MISSING if mean is None else "1")
    if low is None:
        return Cell(f"{mean:.3f}")
    digits = 2 if high - low >= 0.02 else 3
    tone = "good" if high < 1.0 else "bad" if low > 1.0 else ""
    return Cell(f"{mean:.{digits}f}", f"[{low:.{digits}f}, {high:.{digits}f}]", tone)


def _interval(ci95: Sequence[float | None], unit: float) -> str:
    low, high = ci95
    return "" if low is None or high is None else f"[{number(low / unit)}, {number(high / unit)}]"


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def interval_words(comparison: Mapping[str, Any]) -> str:
    """What was run and what the intervals are over, in a few words."""
    seeds, intervals = comparison["seeds"], comparison["intervals"]
    if "windows" in intervals:
        return str(intervals["note"])
    if len(seeds) == 1:
        return f"seed {seeds[0]} (one seed: no intervals)"
    return f"{len(seeds)} seeds, 95 % intervals paired by seed"
