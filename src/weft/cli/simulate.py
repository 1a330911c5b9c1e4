"""`weft simulate`: one run of a scenario."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.common import (
    CodeOption,
    InterleaveOption,
    JsonOption,
    OrderOption,
    PaceOption,
    PlaceOption,
    RouteOption,
    ScenarioArgument,
    SeedOption,
    SetOption,
    StackOption,
    command_line,
    deliver,
    notice,
    print_notes,
    progress,
)


def simulate(
    scenario: ScenarioArgument,
    stack: StackOption = None,
    order: OrderOption = None,
    place: PlaceOption = None,
    interleave: InterleaveOption = None,
    pace: PaceOption = None,
    route: RouteOption = None,
    setting: SetOption = None,
    seed: SeedOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write frames, report and timeline there.")
    ] = None,
    code: CodeOption = False,
    json: JsonOption = False,
) -> None:
    """Run a scenario once and print what became of its jobs.

    --out writes jobs, links and decisions as Parquet, report.html, and timeline.json for ui.perfetto.dev.

    Example: weft simulate examples/demo.toml --stack srsf --place first-fit --seed 3
    """
    from weft import api
    from weft.errors import InputError
    from weft.results.metrics import summary
    from weft.results.tables import run_table
    from weft.scenario import Scenario
    from weft.scenario.changes import sweep

    if out is not None:
        from weft.results.files import refuse_unwritable_folder

        refuse_unwritable_folder(out)
    points = sweep(Scenario.load(scenario), setting or [])
    if len(points) > 1:
        raise InputError("simulate: --set takes one value here; weft compare takes several")
    layers = {"order": order, "place": place, "interleave": interleave, "pace": pace, "route": route}
    with progress("simulating, jobs finished") as on_progress:
        run = api.simulate(
            points[0][1],
            stack=stack,
            seed=seed,
            record=out is not None,
            on_progress=on_progress,
            on_compile=notice,
            **layers,
        )
    if out is not None:
        from weft.results.outputs import write_outputs

        write_outputs(replace(run, command=command_line()), out)
    print_notes([run])
    deliver(summary(run), json, run_table)
    if out is not None:
        notice(f"wrote {out}/")
