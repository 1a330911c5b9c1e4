"""A reproduction as a table for the terminal and as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from weft.research import PAPERS
from weft.research.claims import Claim, Reproduction, Verdict
from weft.results.writing import write_text

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["claims_table", "render", "write"]

_STYLES: dict[Verdict, str] = {"reproduced": "green", "direction": "yellow", "no": "red", "not judged": "dim"}
TITLES = ("claim", "what", "published", "measured", "95 % interval", "unit", "their simulator, repaired", "verdict")


def claims_table(result: Reproduction) -> Table:
    """Claims side by side."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in _titles(result):
        right = title in TITLES[2:5]
        table.add_column(title, justify="right" if right else "left", header_style="bold", overflow="fold")
    for claim in result.claims:
        *cells, verdict = _cells(claim, _titles(result))
        table.add_row(*cells, Text(verdict, style=_STYLES[claim.verdict]))
    return table


def write(path: Path, result: Reproduction, command: str = "") -> None:
    """Write the HTML report."""
    write_text(path, render(result, command), "report")


def render(result: Reproduction, command: str = "") -> str:
    """The report as HTML: claims, notes, pictures, and how to check each claim alone."""
    from weft.results.html import page, plain_table
    from weft.results.pictures.style import inline_svg
    from weft.results.words import verdict_card

    title = PAPERS[result.paper][1] if result.paper in PAPERS else result.paper
    head = f'<header><p class="brand">weft</p><h1>{escape(title)}</h1><p>claims, published and measured</p></header>'
    rows = [[escape(cell) for cell in _cells(claim, _titles(result))] for claim in result.claims]
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
    pictures = "".join(
        f'<section class="card"><figure class="wide">{inline_svg(picture.draw(), f"p{i}")}'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure></section>"
        for i, picture in enumerate(result.pictures)
    )
    commands = "\n".join(dict.fromkeys(claim.command for claim in result.claims))
    head += verdict_card(f"{result.counts}.")
    body = (
        f'{head}<section class="card">{plain_table(_titles(result), rows, "numbers")}</section>'
        f'<section class="card notes"><ul>{notes}</ul></section>{pictures}'
        f'<h2>What was run</h2><section class="card"><pre>{escape(command)}</pre>'
        f"<details><summary>Each claim alone</summary><pre>{escape(commands)}</pre></details></section>"
    )
    return page(title, body)


def _titles(result: Reproduction) -> tuple[str, ...]:
    """Without the column of the authors' simulator where nothing is known of it."""
    return TITLES if any(claim.released for claim in result.claims) else (*TITLES[:-2], TITLES[-1])


def _cells(claim: Claim, titles: Sequence[str]) -> tuple[str, ...]:
    low, high = claim.ci95
    interval = "" if low is None or high is None else f"[{_number(low)}, {_number(high)}]"
    measured = "-" if claim.measured is None else _number(claim.measured)
    cells = [claim.id, claim.what, _number(claim.published), measured, interval, claim.unit]
    if len(titles) == len(TITLES):
        cells.append(", ".join(map(_number, claim.released)) if claim.released else "")
    return (*cells, claim.verdict)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
