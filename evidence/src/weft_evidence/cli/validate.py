"""`weft validate`: how far is weft from what was measured?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from weft.cli.common import JsonOption, deliver, notice, plain_table, print_json, stdout
from weft.errors import InputError, near
from weft_evidence.measured import Row, as_json, errors, folder_of, load, picture, sets, summary


def validate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="testbed (real TCP), or data by name: mlperf51, straggler, deepshare, nccl."
        ),
    ] = "",
    mine: Annotated[
        Path | None,
        typer.Option("--mine", metavar="FILE", help="Your own measurements instead, and what is to blame."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Folder of the data, in place of WEFT_TRACES/NAME.")
    ] = None,
    what_if: Annotated[
        str,
        typer.Option(
            "--what-if",
            metavar="BY",
            help="Of recorded steps: what one op, stage or dp rank costs; of mlperf51: network.",
        ),
    ] = "",
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw predicted over measured there (svg, png, pdf).")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Of the testbed: fewer cases, under a minute.")] = False,
    json: JsonOption = False,
) -> None:
    """Print what was measured on real machines beside what weft predicts, and how far weft is off.

    `testbed` runs small cases on real TCP here (root). Anything else is data that others measured: nccl comes with
    weft, the rest lies under WEFT_TRACES.

    `--mine` reads TOML with the [cluster] of a scenario and one [[measured]] for each job that ran alone: model, gpus,
    servers, and iteration_s or samples_per_s; or measured = "runs.csv" with these columns. See examples/measured.toml.

    Example: weft validate straggler --data traces/straggler --what-if stage

    Example: weft validate --mine examples/measured.toml
    """
    if mine is not None:
        if name or data or what_if or quick:
            raise InputError("validate --mine: the file says everything; leave out NAME, --data, --what-if and --quick")
        _mine(mine, plot, json)
        return
    if not name:
        known = ", ".join(["testbed", *sorted(sets())])
        raise InputError(f"validate: what is it held against? name one of {known}, or give --mine FILE")
    if name == "testbed":
        if data or plot or what_if:
            raise InputError("validate testbed: it measures here; leave out --data, --plot and --what-if")
        _testbed(quick, json)
        return
    if name not in sets():
        raise InputError(f"validate: there is nothing measured called {name}{near(name, ['testbed', *sets()])}")
    if quick:
        raise InputError(f"validate {name}: --quick is for the testbed; nothing is run here")
    measured = load(name)
    folder = data if data is None and getattr(measured, "OWN", False) else folder_of(name, data)
    if what_if:
        if not hasattr(measured, "what_if"):
            raise InputError(f"validate {name}: there are no recorded steps to ask what if; leave out --what-if")
        deliver(measured.what_if(folder, what_if, notice), json, lambda told: _slowdowns(told, what_if))
        return
    rows = list(measured.rows(folder, notice))
    if plot is not None:
        _draw(measured.TITLE, rows, plot)
    deliver(as_json(name, measured, rows), json, lambda _: _errors(rows))
    for what, figure in () if json else summary(measured, rows).items():
        print(f"{what}: {figure:.3f}")


def _mine(path: Path, plot: Path | None, json: bool) -> None:
    from weft_evidence.measured.mine import Mine, as_json, verdict

    mine = Mine(path)
    rows, blamed = mine.compared(), mine.blamed()
    if plot is not None:
        _draw("Own measurements", rows, plot)
    deliver(as_json(mine, rows, blamed, errors(rows)), json, lambda _: _errors(rows))
    if json:
        return
    table = plain_table("constant", ">times", ">median error then", ">sensitivity")
    for blame in blamed:
        table.add_row(blame.name, f"{blame.factor:.3g}", f"{100 * blame.error:.3g} %", f"{blame.sensitivity:.2f}")
    stdout().print(table)
    to_blame = verdict(mine.misfit(), blamed)
    what = "no single constant is to blame"
    if len(to_blame) == 1:
        what = f"most of it goes if {to_blame[0]} is multiplied as above"
    elif to_blame:
        what = f"these rows cannot tell apart {', '.join(to_blame)}; each explains them alone: measure other sizes, too"
    print(f"median error {100 * mine.error():.3g} %: {what}")


def _draw(title: str, rows: list[Row], plot: Path) -> None:
    from weft.results.pictures.style import save_picture

    save_picture(picture(title, rows), plot)
    notice(f"wrote {plot}")


def _errors(rows: list[Row]) -> Table:
    table = plain_table("what", ">rows", ">median error", ">90th percentile", ">worst", "at")
    for kind, found in errors(rows).items():
        off = [f"{100 * found[key]:.3g} %" for key in ("median", "p90", "worst")]
        table.add_row(kind, str(found["rows"]), *off, found["worst_id"])
    return table


def _slowdowns(found: dict[str, dict[str, float]], by: str) -> Table:
    """By trace what each part costs by itself: the mean step over the ideal one."""
    table = plain_table("trace", by, ">slowdown")
    for trace, parts in found.items():
        for part, slowdown in sorted(parts.items(), key=lambda item: -item[1]):
            table.add_row(trace, part, f"{slowdown:.4f}")
    return table


def _testbed(quick: bool, json: bool) -> None:
    from weft_evidence.real import HOWS
    from weft_evidence.real import validate as run_all
    from weft_live.testbed.build import refuse

    refuse()
    rows, fit = run_all(quick, notice)
    if json:
        print_json({"cases": rows, "goodput": fit.goodput, "noise": fit.noise})
        return
    print(f"{'error of the simulator':50s} {'real ms':>8s}" + "".join(f" {how:>11s}" for how in HOWS))
    for row in rows:
        off = "".join(f" {100 * row[f'{how} error']:10.1f}%" for how in HOWS)
        print(f"{row['case']:50s} {1e3 * row['real_s']:8.1f}{off}")
    means = "".join(f" {100 * sum(abs(row[f'{how} error']) for row in rows) / len(rows):10.1f}%" for how in HOWS)
    print(f"{'mean of all, regardless of the sign':50s} {'':8s}{means}")
    told = ", ".join(f"goodput {100 * good:g} % at a buffer of {buffer} kB" for buffer, good in fit.goodput.items())
    print("The last column has the fluid model with a goodput that was fitted to all cases but the one in its line.")
    print(f"fitted to all of CUBIC's flows: {told}; noise of computing {100 * fit.noise:.2g} %")
