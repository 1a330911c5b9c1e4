"""A reproduction as a table for the terminal and as one HTML file, with the pictures that several papers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft.results.compare import mean_and_interval
from weft.results.files import write_text
from weft.results.metrics import finished_jobs, summary
from weft.results.pictures.style import DASHES, MUTED, PALETTE, house_style, hover, legend_below, new_figure, tidy_axes
from weft.results.tables import Cell, Grid
from weft_evidence import title_of
from weft_evidence.causes import why_claims_fail
from weft_evidence.claims import Claim, Reproduction, Verdict
from weft_evidence.constants import cell
from weft_evidence.constants import known as stable_rows
from weft_evidence.headlines import COLUMNS
from weft_evidence.headlines import cells as headline_cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Group
    from rich.table import Table

    from weft.results.run import RunResult


def gpu_shares(run: RunResult) -> npt.NDArray[np.float64]:
    """Busy share of each GPU over the run; jobs divide their GPU seconds evenly over the GPUs they held."""
    busy = np.zeros(run.n_gpus)
    seconds = dict(zip(run.jobs["job_id"], run.jobs["gpu_s"], strict=True))
    held = {job: sum(len(g) * (e - s) for j, s, e, g, _ in run.spans.iter_rows() if j == job) for job in seconds}
    for job, start, end, gpus, _ in run.spans.iter_rows():
        if held[job] > 0:
            busy[gpus] += seconds[job] * (end - start) / held[job]
    makespan_s = summary(run)["makespan_s"] or 1.0
    shares: npt.NDArray[np.float64] = busy / makespan_s
    return shares


@house_style()
def figure_row(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """(a) CDF of JCT, (b) CDF of each GPU's busy share, (c) mean JCT; seeds are pooled in (a) and (b)."""
    figure, (left, middle, right) = new_figure(11.4, 3.4, columns=3)
    for i, (name, runs) in enumerate(groups.items()):
        style = {"color": PALETTE[i % len(PALETTE)], "linestyle": DASHES[i % len(DASHES)]}
        _cdf(left, np.concatenate([finished_jobs(run)["jct_s"].to_numpy() for run in runs]), name, style)
        _cdf(middle, np.concatenate([gpu_shares(run) for run in runs]), name, style)
        found = mean_and_interval([summary(run)["jct_s"]["mean"] for run in runs])
        right.bar(i, found["mean"] or 0.0, color=style["color"], width=0.7)
        low, high = found["ci95"]
        if low is not None:
            right.plot([i, i], [low, high], color="#1b1f24", linewidth=1.4)
    left.set_xscale("log")
    legend_below(figure, left)
    middle.set_xlim(left=0)
    middle.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
    right.set_xticks(range(len(groups)), list(groups), fontsize=8, rotation=35, ha="right")
    for axes in (left, middle):
        axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
    tidy_axes(left, "(a) Job completion time", "time (s)", "share of jobs", grid="both")
    tidy_axes(middle, "(b) GPU utilisation", "busy share", "share of GPUs", grid="both")
    tidy_axes(right, "(c) Mean JCT", y="time (s)")
    return figure


def _cdf(axes: Axes, values: npt.NDArray[np.float64], name: str, style: Mapping[str, object]) -> None:
    q = np.linspace(0.0, 1.0, 400)
    axes.plot(np.quantile(values, q), q, label=name, linewidth=1.5, **style)  # type: ignore[arg-type]


_STYLES: dict[Verdict, str] = {"reproduced": "green", "direction": "yellow", "no": "red"}  # the rest is dim
_TONES: dict[Verdict, str] = {"reproduced": "good", "direction": "fair", "no": "bad"}
_COLOURS: dict[Verdict, str] = {"reproduced": PALETTE[2], "direction": PALETTE[4], "no": PALETTE[1]}
_LEAST = 0.05  # of the published number; what is less stands at the edge of the picture
WHY = (
    "Why claims fail in the whole run, as far as experiments have shown. The numbers are those behind the verdicts; "
    "docs/papers has the experiments. A run with --quick can also fail because it is short."
)
TITLES = ("claim", "what", "published", "measured", "95 % interval", "unit")
CROSS_TRAFFIC = "cross traffic meanwhile; by the end"
RELEASED = "their code; repaired"
NAME_WIDTH = 20  # characters of a line of a claim's name


def claims_table(result: Reproduction) -> Table:
    """Claims side by side."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in _titles(result):
        right = title in TITLES[2:5]
        table.add_column(
            title,
            justify="right" if right else "left",
            header_style="bold",
            overflow="fold",
            no_wrap=title == TITLES[0],
        )
    for claim, cells_of in zip(result.claims, _rows(result), strict=True):
        name, *cells, verdict = cells_of
        table.add_row(_folded(name), *cells, Text(verdict, style=_STYLES.get(claim.verdict, "dim")))
    return table


def _folded(name: str) -> str:
    """The name of a claim, on several lines if it is long; it breaks after its parts."""
    lines = [""]
    for part in name.replace(".", ".\n").split("\n"):
        if lines[-1] and len(lines[-1]) + len(part) > NAME_WIDTH:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def headline_table(result: Reproduction) -> Table:
    """The headline claims, a line each, for a terminal of 80 columns."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for i, title in enumerate(COLUMNS):
        table.add_column(title, justify="right" if 0 < i < 4 else "left", header_style="bold", no_wrap=True)
    for claim in result.headlines:
        *cells, verdict = headline_cells(result.paper, claim)
        table.add_row(*cells, Text(verdict, style=_STYLES.get(claim.verdict, "dim")))
    return table


def headline_text(result: Reproduction) -> Group:
    """A sentence and the headline claims; what else there is."""
    from rich.console import Group
    from rich.text import Text

    more = len(result.claims) - len(result.headlines)
    below = [f"{more} more claims, why claims fail, and notes: --all"] if more else []
    below = [*(note for note in result.notes if note.startswith("quick: ")), *below]
    return Group(Text(result.sentence), Text(""), headline_table(result), *(Text(f"\n{line}") for line in below))


def claims_text(result: Reproduction) -> Group:
    """Claims for the terminal, how many have which verdict, why claims fail, and notes."""
    from rich.console import Group
    from rich.text import Text

    first = (Text(result.sentence), Text(""), headline_table(result), Text(""))
    above = first if result.headlines else ()
    below = [Text(line) for line in (result.counts, *result.notes)]
    if why := why_claims_fail(result):
        below.insert(1, Text("\n".join((WHY, *(f"{i}. {words}" for i, words in enumerate(why, 1))))))
    return Group(*above, claims_table(result), *(part for text in below for part in ("", text)))


def write(path: Path, result: Reproduction, command: str = "") -> None:
    """Write the HTML report."""
    write_text(path, render(result, command), "report")


def render(result: Reproduction, command: str = "") -> str:
    """The report as HTML: claims, notes, pictures, and how to check each claim alone."""
    from weft.results.html import folded, grid_table, page, picture_card, what_was_run
    from weft.results.words import verdict_card

    title = title_of(result.paper)
    head = f'<header><p class="brand">weft</p><h1>{escape(title)}</h1><p>claims, published and measured</p></header>'
    notes, why = (
        "".join(f"<li>{escape(line)}</li>" for line in each) for each in (result.notes, why_claims_fail(result))
    )
    whys = f'<section class="card notes"><p>{escape(WHY)}</p><ol>{why}</ol></section>' if why else ""
    pictures = "".join(picture_card(one.draw(), f"p{i}", one.caption) for i, one in enumerate(result.pictures))
    commands = "\n".join(dict.fromkeys(claim.command for claim in result.claims))
    head += verdict_card(result.sentence)
    if result.headlines:
        stable = {one.headline: one for one in stable_rows(result.paper)}
        more = ("stability",) if stable else ()
        first = [
            (*headline_cells(result.paper, claim), *(cell(claim, stable, result.paper) for _ in more))
            for claim in result.headlines
        ]
        table = _grid((*COLUMNS, *more), first, result.headlines, COLUMNS.index("verdict"))
        drawn = picture_card(headline_picture(result), "headlines", _BESIDE) if _beside(result) else ""
        head += f'<section class="card">{grid_table(table)}</section>{drawn}<h2>All claims</h2>'
    titles = _titles(result)
    body = (
        f'{head}<section class="card"><p>{escape(result.counts)}.</p>'
        f"{grid_table(_grid(titles, _rows(result), result.claims, len(titles) - 1))}</section>{whys}"
        f'<section class="card notes"><ul>{notes}</ul></section>{pictures}'
        f"{what_was_run(command, more=folded('Each claim alone', commands))}"
    )
    return page(title, body)


def _grid(titles: Sequence[str], rows: Sequence[Sequence[str]], claims: Sequence[Claim], verdict: int) -> Grid:
    """Rows of claims, with the verdicts in their colours."""
    tones = (_TONES.get(claim.verdict, "") for claim in claims)
    cells = (
        tuple(Cell(text, "", tone if i == verdict else "") for i, text in enumerate(row))
        for row, tone in zip(rows, tones, strict=True)
    )
    return Grid(tuple(titles), ("",) * len(titles), tuple(cells), ("what", "stability"))


_BESIDE = (
    "What was measured here over what the paper publishes, with the 95 % interval: green where the number is "
    "reproduced, yellow where the direction is, red where neither. The line at 1 is the published number."
)


def _beside(result: Reproduction) -> list[tuple[Claim, float, float]]:
    """Headline claims with a published number above 0, that number, and the measured one."""
    pairs = [(claim, claim.published, claim.measured) for claim in result.headlines]
    return [(claim, said, here) for claim, said, here in pairs if said is not None and said > 0 and here is not None]


@house_style()
def headline_picture(result: Reproduction) -> Figure:
    """Every headline claim with a published number: the measured one beside it."""
    rows = _beside(result)
    figure, (axes,) = new_figure(11.4, 0.9 + 0.26 * len(rows))
    axes.set_xscale("log")
    shown = [1.0]
    for y, (claim, published, measured) in enumerate(rows):
        colour = _COLOURS.get(claim.verdict, MUTED)
        low, high = (None if end is None else max(end / published, _LEAST) for end in claim.ci95)
        here = max(measured / published, _LEAST)
        shown += [value for value in (low, here, high) if value is not None]
        if low is not None and high is not None:
            axes.plot([low, high], [y, y], color=colour, linewidth=1.8)
        axes.plot([here], [y], "<" if here == _LEAST else "o", color=colour, markersize=5)
        hover(axes, here, y, f"{claim.headline}: {claim.verdict}")
    axes.axvline(1.0, color=MUTED, linewidth=1.0)
    axes.set_xlim(min(shown) / 1.1, max(*shown, 1.1) * 1.1)
    axes.set_yticks(range(len(rows)), [claim.headline for claim, _, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    tidy_axes(axes, "Headline claims", x="measured here over published", grid="x")
    return figure


def _titles(result: Reproduction) -> tuple[str, ...]:
    """With columns of the cross traffic and of the authors' simulator where there is something in them."""
    some = {
        CROSS_TRAFFIC: any(claim.cross_traffic for claim in result.claims),
        RELEASED: any(claim.released for claim in result.claims),
    }
    return (*TITLES, *(title for title, there in some.items() if there), "verdict")


def _rows(result: Reproduction) -> list[tuple[str, ...]]:
    """The cells of each claim; the verdict of one that fails has the number of its cause."""
    titles = _titles(result)
    numbers = {name: i for i, names in enumerate(why_claims_fail(result).values(), 1) for name in names}
    return [_cells(claim, titles, numbers.get(claim.id)) for claim in result.claims]


def _cells(claim: Claim, titles: Sequence[str], cause: int | None) -> tuple[str, ...]:
    low, high = claim.ci95
    interval = "" if low is None or high is None else f"[{_number(low)}, {_number(high)}]"
    cells = [claim.id, claim.what, _number(claim.published), _number(claim.measured), interval, claim.unit]
    if CROSS_TRAFFIC in titles:
        changes = [found.value for found in claim.cross_traffic or ()]
        cells.append("; ".join("-" if change is None else f"{change:+.1f} %" for change in changes))
    if RELEASED in titles:
        cells.append("; ".join(dict.fromkeys(map(_number, claim.released or ()))))  # one where nothing was repaired
    return (*cells, f"no ({cause})" if cause and claim.verdict == "no" else claim.verdict)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
