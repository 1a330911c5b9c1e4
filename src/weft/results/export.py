"""Results leave: tables as Parquet, CSV, pandas and LaTeX, figures as PDF and SVG, all in one folder.

comparison.write("out")       jobs, iterations and metrics (.parquet, .csv), table.tex, comparison.json, figures
comparison.table()            one row for each stack and metric, as a polars frame
comparison.to_latex()         the table for a paper, with intervals
comparison.plot("jct")        a matplotlib figure
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from weft.errors import InputError
from weft.results.files import refuse_unwritable_folder, write_text
from weft.results.tables import Cell, Grid, comparison_grid

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from weft.results.run import RunResult

FIGURES = ("jct", "iterations", "ratios", "load")
_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    letter: f"\\{letter}" for letter in "&%$#_{}"
}


def metrics_frame(comparison: Mapping[str, Any]) -> pl.DataFrame:
    """One row for each stack and metric: mean and interval, and the same of the ratio to the first stack."""
    rows = []
    for entry in comparison["stacks"]:
        for metric, value in entry["metrics"].items():
            ratio = entry["ratio_to_first"][metric]
            rows.append((entry["stack"], metric, value["mean"], *value["ci95"], ratio["mean"], *ratio["ci95"]))
    names = ("mean", "low", "high", "ratio", "ratio_low", "ratio_high")
    schema = {"stack": pl.String, "metric": pl.String, **dict.fromkeys(names, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def as_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """A frame for pandas, which must be installed; pyarrow need not be."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("to_pandas needs pandas; install it, or use the polars frames as they are") from None
    return pd.DataFrame({name: frame[name].to_list() for name in frame.columns})


def latex(grid: Grid, caption: str = "", label: str = "") -> str:
    """A grid as a LaTeX table (booktabs); intervals stand in small print beside the numbers."""
    heads = [_escaped(t) + (rf" ({_escaped(u)})" if u else "") for t, u in zip(grid.titles, grid.units, strict=True)]
    lines = [
        " & ".join(
            _escaped(cell.text) + (rf" {{\scriptsize {_escaped(cell.small)}}}" * bool(cell.small)) for cell in row
        )
        for row in grid.rows
    ]
    table = [
        r"\begin{table}", r"\centering",
        *([rf"\caption{{{_escaped(caption)}}}"] if caption else []), *([rf"\label{{{label}}}"] if label else []),
        rf"\begin{{tabular}}{{l{'r' * (len(grid.titles) - 1)}}}", r"\toprule", " & ".join(heads) + r" \\", r"\midrule",
        *(rf"{line} \\" for line in lines), r"\bottomrule", r"\end{tabular}", r"\end{table}",
    ]  # fmt: skip
    return "\n".join(table) + "\n"


def figure(what: str, runs: Sequence[RunResult], comparison: Mapping[str, Any]) -> Figure:
    """One of the figures of a comparison's report."""
    from weft.results.pictures import plots

    if what not in FIGURES:
        raise InputError(f"there is no figure {what!r}; there are {', '.join(FIGURES)}")
    if what == "ratios":
        return plots.ratio_intervals(comparison)
    draw = {"jct": plots.jct_cdf, "iterations": plots.iteration_cdf, "load": plots.load_over_time}[what]
    return draw(runs)


def write(folder: str | Path, runs: Sequence[RunResult], comparison: Mapping[str, Any]) -> Path:
    """Write everything about a comparison into a folder: tables, the LaTeX table, all figures, and the JSON."""
    from weft.results.pictures.style import save_picture

    folder = Path(folder)
    refuse_unwritable_folder(folder)
    whose = [(pl.lit(run.stack).alias("stack"), pl.lit(run.seed).alias("seed")) for run in runs]
    frames = {
        "jobs": pl.concat(run.jobs.select(*who, pl.all()) for run, who in zip(runs, whose, strict=True)),
        "iterations": pl.concat(run.iterations.select(*who, pl.all()) for run, who in zip(runs, whose, strict=True)),
        "metrics": metrics_frame(comparison),
    }
    for name, frame in frames.items():
        frame.write_parquet(folder / f"{name}.parquet")
        frame.write_csv(folder / f"{name}.csv")
    write_text(folder / "comparison.json", json.dumps(comparison, indent=2) + "\n", "comparison")
    write_text(folder / "table.tex", latex(comparison_grid(comparison), comparison["scenario"]), "table")
    for what in FIGURES:
        if what != "ratios" or len(comparison["stacks"]) > 1:
            drawn = figure(what, runs, comparison)
            for suffix in ("pdf", "svg"):
                save_picture(drawn, folder / f"{what}.{suffix}")
    return folder


def _cell(cell: Cell) -> str:
    return _escaped(cell.text) + (rf" {{\scriptsize {_escaped(cell.small)}}}" if cell.small else "")


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
