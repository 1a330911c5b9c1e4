"""`weft replay`: the physics alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli.common import JsonOption, notice, plain_table, print_json, progress, stdout


def replay(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS.json", help="Links, and jobs as cycles of phases.")],
    no_skip: Annotated[
        bool, typer.Option("--no-skip", help="Simulate every iteration, even where they repeat.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Run given jobs over given links, without a scheduler.

    For what-if questions and tests. The phases of a job repeat; compute and transfer of one phase run side by side.
    Every flow carries `bytes`, and `flows` says how many of them cross each link. docs/scenario.md describes all keys.

    Example: weft replay examples/two-jobs.json --json
    """
    from weft import api

    with progress("replaying"):
        result = api.replay(jobs, skip=not no_skip, on_compile=notice)
    _point_out(result["links"])
    if json:
        print_json(result)
        return
    console = stdout()
    console.print(_jobs(result["jobs"]))
    console.print()
    console.print(_links(result["links"]))
    how = "exact" if result["exact"] else "estimated"
    console.print(
        f"\nmakespan {result['makespan_s']:.6g} s, {result['iterations']} iterations, {result['events']} events, {how},"
        f" {result['wall_s']:.3g} s of wall time"
    )


def _point_out(links: dict[str, Any]) -> None:
    """Point out links that carried more than they can, which sharing models other than max-min allow."""
    name, used = max(
        ((n, link["utilisation"] or 0.0) for n, link in links.items()), key=lambda x: x[1], default=("", 0)
    )
    if used > 1.0 + 1e-9:
        notice(
            f"note: link {name} carried {used:.3g} times what it can: ideal and k-way sharing ignore gbps; "
            "use max-min, or a larger b_s_per_byte"
        )


def _jobs(jobs: dict[str, Any]) -> Any:
    table = plain_table("job", ">start s", ">finish s", ">iteration: mean s", ">p50 s", ">p99 s", ">max s")
    for name, job in jobs.items():
        iteration = job["iteration_s"]
        cells = [job["start_s"], job["finish_s"], *(iteration[k] for k in ("mean", "p50", "p99", "max"))]
        table.add_row(name, *("-" if c is None else f"{c:.6g}" for c in cells))
    return table


def _links(links: dict[str, Any]) -> Any:
    table = plain_table("link", ">bytes", ">busy s", ">utilisation")
    for name, link in links.items():
        used = link["utilisation"]
        table.add_row(name, f"{link['bytes']:.6g}", f"{link['busy_s']:.6g}", "-" if used is None else f"{used:.1%}")
    return table
