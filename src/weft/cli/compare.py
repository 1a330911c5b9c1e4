"""`weft compare`: several stacks on the same workload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.common import (
    MOST_SEEDS,
    InterleaveOption,
    JsonOption,
    OrderOption,
    PaceOption,
    PlaceOption,
    ScenarioArgument,
    command_line,
    notice,
    print_json,
    print_notes,
    progress,
    stdout,
)

__all__ = ["compare"]


def compare(
    scenario: ScenarioArgument,
    stack: Annotated[
        list[str] | None, typer.Option("--stack", help="Stack to compare, once for each; the first is the reference.")
    ] = None,
    order: OrderOption = None,
    place: PlaceOption = None,
    interleave: InterleaveOption = None,
    pace: PaceOption = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, max=MOST_SEEDS, help="Number of seeds (default: 5).")
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Processes (default: one per core).")] = None,
    report: Annotated[Path | None, typer.Option("--report", metavar="FILE.html", help="Write a report there.")] = None,
    json: JsonOption = False,
) -> None:
    """Run several stacks on the same jobs, side by side.

    At each seed every stack sees the same workload and routes, and ratios are formed seed by seed. Without --stack the
    [compare] section of the scenario says which.

    Example: weft compare examples/demo.toml --stack fifo --stack srsf --seeds 5 --report report.html
    """
    from weft import api

    layers = {"order": order, "place": place, "interleave": interleave, "pace": pace}
    with progress("comparing") as on_progress:
        result = api.compare(
            scenario,
            stack or None,
            seeds,
            workers=workers,
            record=report is not None,
            on_progress=on_progress,
            on_compile=notice,
            **layers,
        )
    if report is not None:
        result.write_report(report, command=command_line())
    print_notes(result.runs)
    if json:
        print_json(result.to_dict())
    else:
        from weft.results.tables import comparison_table

        stdout().print(comparison_table(result.to_dict()))
    if report is not None:
        notice(f"wrote {report}")
