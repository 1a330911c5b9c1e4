"""`weft trace`: what is in a trace file, and turning it into another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weft.cli.common import MOST_SEED, JsonOption, notice, print_json, stdout
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.workload.traces.rows import Trace

app = typer.Typer(
    no_args_is_help=True,
    help="Look at job traces of other clusters, convert them, draw samples of them.",
    epilog="Example: weft trace inspect philly_jobs.csv.gz",
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Trace file, gzip or not, or a folder of them.")]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="Format of FILE, if it is not detected (weft trace formats lists them)."),
]
MapOption = Annotated[
    str,
    typer.Option("--map", metavar="FIELD=COLUMN,...", help="Columns of a table: submit=Submit,duration=Runtime:h."),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Stop at the first damaged row instead of skipping it.")]
AttemptsOption = Annotated[
    Literal["all", "last"],
    typer.Option("--attempts", help="Philly JSON: add up all attempts of a job, or take the last."),
]


@app.command("inspect")
def inspect(
    file: FileArgument,
    format: FormatOption = None,
    mapping: MapOption = "",
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw it (svg, png or pdf).")] = None,
    strict: StrictOption = False,
    attempts: AttemptsOption = "all",
    json: JsonOption = False,
) -> None:
    """Say what a trace is: format, span, sizes, durations, implied load, and every kind of row that was not read.

    Example: weft trace inspect cluster04.csv.gz --plot cluster04.svg
    """
    from weft.workload.traces.reading import summary

    trace = _read(file, format, mapping, strict, attempts)
    facts = summary(trace)
    if plot is not None:
        from weft.cli.trace_plot import plot_trace
        from weft.results.pictures.style import save_picture

        save_picture(plot_trace(trace), plot)
        facts["plot"] = str(plot)
    if json:
        print_json(facts)
    else:
        _show(facts)


@app.command("convert")
def convert(
    file: Annotated[Path, typer.Argument(metavar="IN", help="Trace file, gzip or not, or a folder of them.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write: .csv (plain CSV) or .parquet.")],
    format: FormatOption = None,
    mapping: MapOption = "",
    strict: StrictOption = False,
    attempts: AttemptsOption = "all",
    json: JsonOption = False,
) -> None:
    """Write a trace as plain CSV or Parquet, with the one set of columns that all formats are read into.

    Example: weft trace convert cluster_job_log jobs.csv --format philly
    """
    from weft.workload.traces.reading import write

    _refuse_own_input(file, out)
    trace = _read(file, format, mapping, strict, attempts)
    write(trace, out)
    _written(trace, out, json)


@app.command("sample")
def sample(
    file: FileArgument,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many jobs.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="File to write: .csv or .parquet.")],
    seed: Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, help="Seed of the draw.")] = 1,
    format: FormatOption = None,
    mapping: MapOption = "",
    strict: StrictOption = False,
    attempts: AttemptsOption = "all",
    json: JsonOption = False,
) -> None:
    """Draw jobs of a trace at random, without repetition, and keep their times.

    Example: weft trace sample cluster04.csv.gz --jobs 500 --seed 7 -o small.csv
    """
    from weft.workload.traces.reading import sample as draw
    from weft.workload.traces.reading import write

    _refuse_own_input(file, out)
    trace = _read(file, format, mapping, strict, attempts)
    chosen = draw(trace, jobs, seed)
    write(chosen, out)
    _written(trace, out, json, chosen)


@app.command("formats")
def formats(json: JsonOption = False) -> None:
    """List the formats that can be read, in the order in which they are tried.

    Example: weft trace formats
    """
    from weft.workload.traces import FORMATS

    titles = {name: reader.title for name, reader in FORMATS.items()}
    if json:
        print_json(titles)
        return
    for name, title in titles.items():
        print(f"{name:18s} {title}")


def _read(file: Path, format: str | None, mapping: str, strict: bool, attempts: Literal["all", "last"]) -> Trace:
    from weft.workload.traces.columns import parse_map
    from weft.workload.traces.reading import read

    return read(file, format, on_error="fail" if strict else "skip", attempts=attempts, said=parse_map(mapping))


def _refuse_own_input(file: Path, out: Path) -> None:
    """A trace must not be written over the file, or into the folder, that it is read from."""
    if out.exists() and (out.samefile(file) or (file.is_dir() and file.resolve() in out.resolve().parents)):
        raise InputError(f"{out} is what is read; name another file to write")


def _written(trace: Trace, out: Path, json: bool, chosen: Trace | None = None) -> None:
    """Say what became of each row."""
    written = (chosen or trace).frame.height
    facts: dict[str, Any] = {
        "format": trace.format, "rows": trace.n_rows_in, "jobs": trace.frame.height, "damaged": trace.n_damaged,
        "left_out": trace.n_left_out, "written": written, "out": str(out),
    }  # fmt: skip
    if json:
        print_json(facts)
        return
    print(f"{out}: {written:,} jobs of {trace.frame.height:,} ({trace.format}, {_account(facts)})")
    for problem in [p for p in trace.problems if not p.left_out][:5]:
        notice(f"damaged: {problem}")


def _account(facts: dict[str, Any]) -> str:
    return f"{facts['rows']:,} rows, {facts['damaged']:,} damaged, {facts['left_out']:,} left out"


def _show(facts: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in _lines(facts):
        table.add_row(name, Text(value))
    stdout().print(table)


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts as label and text; what is unknown is left away."""
    lines = [("trace", facts["path"]), ("format", f"{facts['format']}: {facts['title']}")]
    lines.append(("rows", f"{_account(facts)}, {facts['jobs']:,} jobs"))
    lines += [("", f"left out: {n:,} x {why}") for why, n in facts["left_out_because"].items()]
    lines += [("", f"damaged: {problem}") for problem in facts["first_damaged"]]
    if facts["span_days"] is not None:
        since = f", from {facts['start']}" if facts["start"] else ""
        lines.append(("span", f"{facts['span_days']:.4g} days{since}"))
    if gpus := facts["gpus"]:
        shares = ", ".join(f"{size}: {n:,} ({100 * n / facts['jobs']:.1f} %)" for size, n in gpus["jobs"].items())
        lines.append(("GPUs per job", f"mean {gpus['mean']:.3g}, max {gpus['max']}; {shares}"))
    for label, key, unit in (("duration", "duration_s", " s"), ("iterations", "iterations", "")):
        if spread := facts[key]:
            parts = (f"{name} {spread[name]:,.0f}{unit}" for name in ("min", "median", "mean", "p95", "p99", "max"))
            known = "" if spread["known"] == facts["jobs"] else f" (of {spread['known']:,} jobs)"
            lines.append((label, ", ".join(parts) + known))
    if facts["load_gpus"] is not None:
        lines.append(("load", f"{facts['load_gpus']:,.0f} GPUs busy on average; {facts['gpu_hours']:,.0f} GPU-hours"))
    for label, key in (("models", "models"), ("VCs", "vcs"), ("status", "status")):
        if facts[key]:
            lines.append((label, ", ".join(f"{name} {n:,}" for name, n in facts[key].items())))
    if facts["unknown_models"]:
        every = facts["unknown_models"] == facts["jobs"]
        words = "no job names its model" if every else f"{facts['unknown_models']:,} jobs do not name their model"
        lines.append(("models" if every else "", f"{words}; a simulation draws it from workload.models"))
    if facts["repeated_ids"]:
        lines.append(("", f"{facts['repeated_ids']:,} jobs have an id that another has; a simulation adds #ROW to it"))
    if facts["users"]:
        lines.append(("users", f"{facts['users']:,}"))
    lines += [("note", note) for note in facts["notes"]]
    if "plot" in facts:
        lines.append(("plot", facts["plot"]))
    return lines
