"""`weft compat`: do these jobs fit on one link?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.common import JsonOption, notice, plain_table, print_json, stdout

if TYPE_CHECKING:
    from weft.policies.interleave.cassini.compat import Compat


def compat(
    jobs: Annotated[Path, typer.Argument(metavar="JOBS.json", help="The link's capacity, and the jobs' circles.")],
    quantum_ms: Annotated[
        float, typer.Option("--quantum-ms", min=1e-6, help="Iteration times are rounded to this.")
    ] = 0.001,
    padding: Annotated[
        float, typer.Option("--padding", min=0.0, max=1.0, help="Largest relative lengthening of an iteration.")
    ] = 0.0,
    grid: Annotated[
        float | None,
        typer.Option(
            "--grid", min=0.05, max=120.0, help="Also solve on the paper's grid, in steps of this many degrees."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw the circles before and after.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Score how compatible jobs are on a link, and find the time-shifts with which they fit best (CASSINI).

    Score 1: with these shifts demand never exceeds capacity. docs/papers/cassini.md describes the file.

    A job may have counters of its link instead of iteration_s and arcs: {"id": "a", "counters": "a.csv"}. Rows of the
    file are time in seconds and bytes so far, while it was alone. Their period is said; a series without is refused.

    Example: weft compat examples/compat.json --plot circles.svg
    """
    from weft.policies.interleave.cassini.circle import Circle
    from weft.policies.interleave.cassini.compat import compat as solve
    from weft.results.files import refuse_unwritable
    from weft.scenario.jobfile import load_compat_file
    from weft.workload.profiles.counters import read_counters

    refuse_unwritable(plot, "picture")
    given = load_compat_file(jobs)
    circles = {
        job.id: Circle(job.iteration_s, tuple((a.start_s, a.length_s, a.gbps) for a in job.arcs))
        for job in given.jobs
        if job.counters is None
    }
    counted = {job.id: read_counters(jobs.parent / job.counters) for job in given.jobs if job.counters is not None}
    circles |= {name: Circle(each.period_s, each.arcs) for name, each in counted.items()}
    circles = {job.id: circles[job.id] for job in given.jobs}
    solve(circles, given.capacity_gbps)  # so that wall_s is without compilation
    found = solve(circles, given.capacity_gbps, quantum_ms / 1e3, padding, grid)
    answer = found.to_dict()
    if counted:
        answer["counters"] = {name: asdict(each) for name, each in counted.items()}
    if json:
        print_json(answer)
    else:
        _print(answer)
    if plot is not None:
        _draw(found, given.capacity_gbps, plot)
        notice(f"wrote {plot}")


def _draw(found: Compat, capacity_gbps: float, plot: Path) -> None:
    from weft.results.pictures.circle import Ring, circles_figure
    from weft.results.pictures.style import save_picture

    each = zip(found.jobs, found.circles, found.periods.periods_s, found.rotation.shifts_s, strict=True)
    rings = [Ring(name, period, circle.pieces, shift) for name, circle, period, shift in each]
    perimeter = found.rotation.perimeter_s if found.periods.fit else max(ring.period_s for ring in rings)
    save_picture(circles_figure(rings, perimeter, capacity_gbps, found.rotation.score), plot)


def _print(answer: dict[str, object]) -> None:
    console = stdout()
    for name, each in answer.get("counters", {}).items():  # type: ignore[attr-defined]
        seen = f"{each['periods']:.1f} periods were counted, autocorrelation {each['autocorrelation']:.2f}"
        console.print(f"{name}: a period of {each['period_s']:.6g} s ({seen})")
    how = "exact" if answer["exact"] else f"at most {answer['bound']:.6f}"
    console.print(f"score {answer['score']:.6f} ({how}), {answer['score_unshifted']:.6f} on average without shifts")
    if not answer["fits"]:
        console.print("iteration times have no common circle of reasonable size: shifts drift, and none matters")
    table = plain_table("job", ">shift s", ">period s", ">idle added s", ">drift s")
    columns = [answer[key] for key in ("shifts_s", "periods_s", "padding_s", "drift_s")]
    for name in answer["shifts_s"]:  # type: ignore[attr-defined]
        table.add_row(name, *(f"{column[name]:.6g}" for column in columns))  # type: ignore[index]
    console.print(table)
    console.print(f"perimeter {answer['perimeter_s']:.6g} s, slack {answer['slack_s']:.6g} s")
    if isinstance(grid := answer.get("grid"), dict):
        shifts = ", ".join(f"{name} {shift_s:.6g} s" for name, shift_s in grid["shifts_s"].items())
        console.print(
            f"grid: score {grid['score']:.6f} (its samples show {grid['sampled_score']:.6f}), shifts {shifts}"
        )
