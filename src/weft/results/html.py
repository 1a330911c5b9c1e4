"""Small pieces of HTML: escaped text, tables from grids, and the summary that notebooks show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from weft.results.tables import Cell, Grid, facts, run_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Nothing may be fetched, whatever a job's name or a reason contains.
_WORDS = ' class="words"'
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: str) -> str:
    """A whole page around HTML, with its style inside."""
    css = (files("weft.results") / "report.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} · weft</title>\n<style>\n{css}</style>\n</head>\n<body>\n<main>\n"
        f"{body}\n</main>\n</body>\n</html>\n"
    )


def grid_table(grid: Grid) -> str:
    """A grid as a table; a cell's finer print goes below its value."""
    words = [
        title in grid.wordy or all(row[i].text[:1].isalpha() for row in grid.rows)
        for i, title in enumerate(grid.titles)
    ]
    heads = "".join(
        f"<th{_WORDS * left}>{escape(title)}{f' <small>{escape(unit)}</small>' if unit else ''}</th>"
        for title, unit, left in zip(grid.titles, grid.units, words, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(_cell(cell, "td" if i else "th", left) for i, (cell, left) in enumerate(zip(row, words, strict=True)))
        + "</tr>"
        for row in grid.rows
    )
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def plain_table(titles: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table of cells that are HTML already."""
    heads = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def definition_list(pairs: Sequence[tuple[str, str]], kind: str = "") -> str:
    """Names and words, side by side; of kind `lines`, a pair in each line."""
    return (
        f'<dl class="{kind}">'
        + "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(w)}</dd></div>" for n, w in pairs)
        + "</dl>"
    )


def folded(summary: str, text: str) -> str:
    """Plain text that a click unfolds; nothing if there is none."""
    return f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>" if text else ""


def what_was_run(command: str, facts: str = "", more: str = "") -> str:
    """The last section of a report: facts about the runs, the command that made them, and more."""
    inside = facts + (f"<pre>{escape(command)}</pre>" if command else "") + more
    return f'<h2>What was run</h2><section class="card">{inside}</section>' if inside else ""


def picture_card(figure: Figure, name: str, caption: str = "") -> str:
    """A wide picture on a card, with a caption below it; `name` keeps its ids apart from those of others."""
    from weft.results.pictures.style import inline_svg

    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<section class="card"><figure class="wide">{inline_svg(figure, name)}{below}</figure></section>'


def notebook_summary(summary: Mapping[str, Any]) -> str:
    """One run's numbers without any style of its own: it takes the notebook's."""
    title = f"<p><b>{escape(summary['stack'])}</b> on {escape(summary['scenario'])}, seed {summary['seed']}</p>"
    single = "".join(f"<tr><th>{escape(name)}</th><td>{escape(words)}</td></tr>" for name, words in facts(summary))
    return f"<div>{title}{grid_table(run_grid(summary))}<table><tbody>{single}</tbody></table></div>"


def _cell(cell: Cell, tag: str, left: bool = False) -> str:
    classes = " ".join(filter(None, ("words" * left, cell.tone)))
    tone = f' class="{classes}"' if classes else ""
    small = f"<small>{escape(cell.small)}</small>" if cell.small else ""
    return f"<{tag}{tone}>{escape(cell.text)}{small}</{tag}>"
