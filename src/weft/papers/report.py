"""A reproduction as a table for the terminal and as one HTML file."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from weft.papers import PAPERS
from weft.papers.claims import Claim, Reproduction
from weft.results.writing import write_text

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["claims_table", "render", "write"]

TITLES = ("claim", "what", "published", "measured", "95 % interval", "unit", "holds")


def claims_table(result: Reproduction) -> Table:
    """Claims side by side."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in TITLES:
        right = title in ("published", "measured", "95 % interval")
        table.add_column(title, justify="right" if right else "left", header_style="bold", overflow="fold")
    for claim in result.claims:
        style = "green" if claim.holds else "red"
        *cells, holds = _cells(claim)
        table.add_row(*cells, Text(holds, style=style))
    return table


def write(path: Path, result: Reproduction, command: str = "") -> None:
    """Write the HTML report."""
    write_text(path, render(result, command), "report")


def render(result: Reproduction, command: str = "") -> str:
    """The report as HTML: claims, notes, pictures, and how to check each claim alone."""
    from weft.results.html import page, plain_table
    from weft.results.style import inline_svg

    title = PAPERS[result.paper][1] if result.paper in PAPERS else result.paper
    held = sum(claim.holds for claim in result.claims)
    head = (
        f'<header><p class="brand">weft</p><h1>{escape(title)}</h1>'
        f"<p>{held} of {len(result.claims)} claims hold here</p></header>"
    )
    rows = [[escape(cell) for cell in _cells(claim)] for claim in result.claims]
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
    pictures = "".join(
        f'<section class="card"><figure class="wide">{inline_svg(picture.draw(), f"p{i}")}'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure></section>"
        for i, picture in enumerate(result.pictures)
    )
    commands = "\n".join(dict.fromkeys(claim.command for claim in result.claims))
    body = (
        f'{head}<section class="card">{plain_table(TITLES, rows, "numbers")}</section>'
        f'<section class="card notes"><ul>{notes}</ul></section>{pictures}'
        f'<h2>What was run</h2><section class="card"><pre>{escape(command)}</pre>'
        f"<details><summary>Each claim alone</summary><pre>{escape(commands)}</pre></details></section>"
    )
    return page(title, body)


def _cells(claim: Claim) -> tuple[str, ...]:
    low, high = claim.ci95
    interval = "" if low is None or high is None else f"[{_number(low)}, {_number(high)}]"
    measured = "-" if claim.measured is None else _number(claim.measured)
    holds = "yes" if claim.holds else "no"
    return (claim.id, claim.what, _number(claim.published), measured, interval, claim.unit, holds)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
