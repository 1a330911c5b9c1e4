"""`python -m benchmarks`: how fast is it here?"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from weft.cli.common import JsonOption, exit_code, notice, print_json, stdout
from weft.errors import WeftError


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Benchmarks (default: all).")] = None,
    show: Annotated[bool, typer.Option("--list", help="List the benchmarks and stop.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes: a smoke test, not a measurement.")] = False,
    large: Annotated[
        bool, typer.Option("--large", help="A large size instead, for benchmarks that have one (scale: 15 minutes).")
    ] = False,
    queued: Annotated[int, typer.Option("--queued", min=0, help="slurm: number of jobs in its queue.")] = 0,
    json: JsonOption = False,
) -> None:
    """Measure how fast the engine and its parts are on this machine.

    With one name --json prints its figures; with several, an object per name.

    Example: python -m benchmarks engine --json
    """
    from benchmarks import available, load

    if show:
        if json:
            print_json(available())
        else:
            for name, text in available().items():
                print(f"{name:12s} {text}")
        return
    wanted = names or list(available())
    runs = [(name, load(name, large)) for name in wanted]
    if queued and wanted != ["slurm"]:
        raise typer.BadParameter("--queued is for: python -m benchmarks slurm", param_hint="--queued")
    figures = {name: _with_queue(queued, quick) if queued else run(quick, notice) for name, run in runs}
    if json:
        print_json(figures[wanted[0]] if names and len(wanted) == 1 else figures)
        return
    console = stdout()
    for name, values in figures.items():
        console.print(name, style="bold")
        for key, value in values.items():
            console.print(f"  {key:32s} {_number(value)}")


def _with_queue(queued: int, quick: bool) -> dict[str, Any]:
    from benchmarks.slurm_queue import run

    return run(queued, quick, notice)


def _number(value: float | str | None) -> str:
    if isinstance(value, int | float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"
    return "-" if value is None else value


if __name__ == "__main__":
    try:
        typer.run(bench)
    except WeftError as error:
        sys.exit(exit_code(error))
