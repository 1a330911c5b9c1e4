"""`weft compare`: several stacks on the same workload, or every combination of policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.common import (
    MOST_SEEDS,
    CodeOption,
    ExecutorOption,
    FreshOption,
    JsonOption,
    ReportOption,
    ScenarioArgument,
    SetOption,
    WorkersOption,
    ask_about_time,
    command_line,
    deliver,
    notice,
    print_notes,
    progress,
)
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.api import Sweep
    from weft.scenario import Scenario

_ALL = "with --all: policies to combine (a,b; may be repeated)."


def compare(
    scenario: ScenarioArgument,
    stack: Annotated[
        list[str] | None, typer.Option("--stack", help="Stack to compare, once for each; the first is the reference.")
    ] = None,
    order: Annotated[list[str] | None, typer.Option("--order", help=f"Replace every stack's order; {_ALL}")] = None,
    place: Annotated[list[str] | None, typer.Option("--place", help=f"Replace every stack's place; {_ALL}")] = None,
    interleave: Annotated[
        list[str] | None, typer.Option("--interleave", help=f"Replace every stack's interleave; {_ALL}")
    ] = None,
    pace: Annotated[list[str] | None, typer.Option("--pace", help=f"Replace every stack's pace; {_ALL}")] = None,
    route: Annotated[
        list[str] | None, typer.Option("--route", help=f"Replace every stack's route; {_ALL[:-1]} (default: ecmp).")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every admissible combination of the layers' policies, ranked.")
    ] = False,
    planner: Annotated[
        list[str] | None, typer.Option("--planner", help="With --all: joint planners to try beside order and place.")
    ] = None,
    by: Annotated[str, typer.Option("--by", metavar="METRIC", help="With --all: what to rank by.")] = "jct_mean_s",
    most: Annotated[int, typer.Option("--most", min=1, help="With --all: refuse more runs than this.")] = 20_000,
    yes: Annotated[bool, typer.Option("--yes", help="With --all: run for hours without asking.")] = False,
    setting: SetOption = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, max=MOST_SEEDS, help="Number of seeds (default: 5).")
    ] = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="STACK", help="The stack that ratios refer to.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=STACK", help="Call a stack NAME in all results.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write tables (Parquet, CSV, LaTeX) and figures (PDF, SVG) there."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw completion times (.svg, .pdf or .png).")
    ] = None,
    report: ReportOption = None,
    fresh: FreshOption = False,
    code: CodeOption = False,
    json: JsonOption = False,
) -> None:
    """Run several stacks on the same jobs, side by side.

    At each seed every stack sees the same workload and routes, and ratios are formed seed by seed. Where the jobs are
    recorded (a trace) they are the same at every seed, and intervals come from windows of the trace. Without --stack,
    the [compare] section of the scenario names the stacks. With --all, every combination of policies that the scenario
    allows is run and ranked, and the report has a heat map of them; those that it rules out are counted, with reasons.

    --set changes a key of the scenario; several values (KEY=A,B,C) are compared one after another.

    A comparison that was interrupted continues from the runs that had finished.

    Example: weft compare examples/demo.toml --stack fifo --stack srsf --seeds 5 --report report.html
    """
    from weft.results.files import refuse_unwritable, refuse_unwritable_folder
    from weft.results.sweep import sweep_table
    from weft.results.tables import comparison_table
    from weft.runs.executors import using
    from weft.runs.kept import kept

    refuse_unwritable(report)
    refuse_unwritable(plot, "picture")
    if out is not None:
        refuse_unwritable_folder(out)
    layers = {"order": order, "place": place, "interleave": interleave, "pace": pace, "route": route}
    if everything:
        if out or plot or label or baseline:
            raise InputError("compare: --out, --plot, --label and --baseline are for named stacks; leave --all out")
        if stack:
            raise InputError("compare: --stack names stacks and --all takes every combination; use one of them")
        chosen = {layer: texts or [] for layer, texts in {**layers, "planner": planner}.items()}
        with kept(fresh, notice), using(executor):
            _cross(_one(scenario, setting), chosen, by, most, yes, seeds, workers, report, json)
        return
    if planner or by != "jct_mean_s":
        raise InputError("compare: --planner and --by belong to --all; add --all, or leave them out")
    for layer, texts in layers.items():
        if texts and len(texts) > 1:
            raise InputError(
                f"compare: --{layer} is given {len(texts)} times; give one, or all combinations with --all"
            )
    one = {layer: texts[0] if texts else None for layer, texts in layers.items()}
    if out or plot or label or baseline:
        _one(scenario, setting, "--out, --plot, --label and --baseline take")
    with kept(fresh, notice), using(executor):
        found = _stacks(scenario, setting or [], stack, one, seeds, workers, report is not None)
        if len(found.points) > 1:
            deliver(found.to_dict(), json, sweep_table, report, lambda path: found.write_report(path, command_line()))
            return
        result = found.points[0][1]
        result = result.labelled(_labels(label or [])) if label else result
        result = result.against(baseline) if baseline else result
        deliver(
            result.to_dict(), json, comparison_table, report, lambda path: result.write_report(path, command_line())
        )
        if out is not None:
            notice(f"wrote {result.write(out)}")
        if plot is not None:
            from weft.results.pictures.style import save_picture

            save_picture(result.plot(), plot)
            notice(f"wrote {plot}")


def _labels(texts: list[str]) -> dict[str, str]:
    """`Ours=my-order/my-place` as {"Ours": "my-order/my-place"}."""
    labels = {}
    for text in texts:
        name, equals, stack = (part.strip() for part in text.partition("="))
        if not (name and equals and stack):
            raise InputError(f"--label {text}: write NAME=STACK, as in --label Ours=my-order/tight")
        labels[name] = stack
    return labels


def _one(scenario: Path, setting: list[str] | None, who: str = "--all takes") -> Scenario:
    """The scenario with one value for each key that is set."""
    from weft.scenario import Scenario
    from weft.scenario.changes import sweep

    points = sweep(Scenario.load(scenario), setting or [])
    if len(points) > 1:
        raise InputError(f"compare: {who} one value for each --set; give one")
    return points[0][1]


def _stacks(
    scenario: Path,
    setting: list[str],
    stack: list[str] | None,
    layers: dict[str, str | None],
    seeds: int | None,
    workers: int | None,
    record: bool,
) -> Sweep:
    from weft import api

    with progress("comparing") as on_progress:
        found = api.sweep(
            scenario, setting, stack or None, seeds, workers=workers, record=record, on_progress=on_progress,
            on_compile=notice, **layers,
        )  # fmt: skip
    print_notes(run for _, comparison in found.points for run in comparison.runs)
    return found


def _cross(
    scenario: Scenario,
    chosen: dict[str, list[str]],
    by: str,
    most: int,
    yes: bool,
    seeds: int | None,
    workers: int | None,
    report: Path | None,
    json: bool,
) -> None:
    from weft.results.cross_report import ranking_table
    from weft.runs.cross import SAMPLE, cross

    def plan(combinations: int, left_out: int, runs: int) -> None:
        timed = "" if yes or runs <= 4 * SAMPLE else f"; {SAMPLE} runs are timed first, to say how long all take"
        notice(f"{combinations} combinations, {runs} runs; {left_out} combinations are left out{timed}")

    with progress("comparing") as on_progress:
        found = cross(
            scenario, seeds, **chosen, by=by, most_runs=most, workers=workers, on_plan=plan,
            on_estimate=None if yes else ask_about_time, on_progress=on_progress, on_compile=notice,
        )  # fmt: skip
    deliver(found.to_dict(), json, ranking_table, report, lambda path: found.write_report(path, command=command_line()))
