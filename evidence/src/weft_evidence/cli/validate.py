"""`weft validate`: how far is the simulator from what was measured?"""

from __future__ import annotations

from typing import Annotated

import typer

from weft.cli.common import JsonOption, notice, print_json
from weft.errors import InputError, near

NAMES = ("testbed",)


def validate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to hold it against: testbed (real TCP).")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and iterations, under a minute.")] = False,
    json: JsonOption = False,
) -> None:
    """Run small cases in the simulator and on a testbed of real TCP (root), and print the error of the simulator.

    The last column has the fluid model with a goodput that was fitted to all cases but the one in its line.

    Example: weft validate testbed --quick
    """
    if name not in NAMES:
        raise InputError(f"validate: there is nothing measured called {name}{near(name, list(NAMES))}")
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
        errors = "".join(f" {100 * row[f'{how} error']:10.1f}%" for how in HOWS)
        print(f"{row['case']:50s} {1e3 * row['real_s']:8.1f}{errors}")
    means = "".join(f" {100 * sum(abs(row[f'{how} error']) for row in rows) / len(rows):10.1f}%" for how in HOWS)
    print(f"{'mean of all, regardless of the sign':50s} {'':8s}{means}")
    told = ", ".join(f"goodput {100 * good:g} % at a buffer of {buffer} kB" for buffer, good in fit.goodput.items())
    print(f"fitted to all of CUBIC's flows: {told}; noise of computing {100 * fit.noise:.2g} %")
