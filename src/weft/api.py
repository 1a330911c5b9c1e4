"""The Python API: what the command line does, for scripts and notebooks.

    run = weft.simulate("scenario.toml", stack="srsf", seed=3)
    run.jobs                                    # a polars frame
    both = weft.compare("scenario.toml", stacks=["fifo", "srsf"], seeds=5)
    both.table(); both.plot("jct"); both.to_latex(); both.write("out")

A policy is given by name, as a class or as an object, also from a notebook: `place=MyPlace`, or in a stack
`{"order": "srsf", "place": MyPlace}`. A terminal and a notebook show how far the runs are.

`compare` starts worker processes: a script that calls it needs `if __name__ == "__main__":` around the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.refusal import unequal_gpus
from weft.errors import InputError, near
from weft.runs.bound import bound_over_seeds
from weft.runs.prepare import compile_kernels
from weft.runs.run import Progress, Say, Source, Task, check_seed, run_experiment, run_grid, run_task, seeds_of
from weft.runs.watched import say, watched
from weft.scenario import Scenario, changes
from weft.scenario.build import Layers, build, located
from weft.stacks import describe
from weft.stacks.given import Taken, stack_of, text_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure

    from weft.core.stack import Stack
    from weft.results.run import RunResult


Given = Any  # a policy or a stack: its name, a class or an object; None: the scenario's


def simulate(
    scenario: Source,
    *,
    stack: Given = None,
    seed: int | None = None,
    order: Given = None,
    place: Given = None,
    interleave: Given = None,
    pace: Given = None,
    route: Given = None,
    record: bool = False,
    on_progress: Progress | None = None,
    on_compile: Say | None = None,
) -> RunResult:
    """One run of a scenario.

    `stack` runs instead of the scenario's; a layer given beside it replaces that layer. `record` keeps link loads over
    time and the first tasks, for reports and timelines. `on_progress` is told now and then how many jobs have finished,
    `on_compile` when kernels must be compiled first.

    Examples:
        >>> run = weft.simulate("demo", stack="fifo", place="first-fit", seed=1)
        >>> run.stack, run.jobs.height
        ('fifo[place=first-fit]', 100)
    """
    if seed is not None:
        check_seed(seed)
    taken: Taken = {}
    name = None if stack is None else stack_of(stack, taken)
    experiment = build(Scenario.load(scenario), seed, _layers(name, (order, place, interleave, pace, route), taken))
    with watched("jobs", on_progress) as tell:
        return run_experiment(experiment, record=record, on_compile=on_compile or say, on_progress=tell)


def compare(
    scenario: Source,
    stacks: Sequence[Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    *,
    order: Given = None,
    place: Given = None,
    interleave: Given = None,
    pace: Given = None,
    route: Given = None,
    workers: int | None = None,
    record: bool = False,
    on_progress: Progress | None = None,
    on_compile: Say | None = None,
) -> Comparison:
    """Several stacks on the same workload and routes, seed by seed; the first is what ratios refer to.

    `seeds` is a list, or how many to take from the scenario's on. `workers` is the number of processes (default: one
    per core); the result does not depend on it. `record` keeps link loads over time for the first seed.

    Examples:
        >>> both = weft.compare("demo", stacks=["fifo", "srsf"], seeds=[1], workers=1)
        >>> [run.stack for run in both.runs]
        ['fifo', 'srsf']
    """
    found = sweep(
        scenario, (), stacks, seeds, order=order, place=place, interleave=interleave, pace=pace, route=route,
        workers=workers, record=record, on_progress=on_progress, on_compile=on_compile,
    )  # fmt: skip
    return found.points[0][1]


def sweep(
    scenario: Source,
    settings: Sequence[str] | Mapping[str, Sequence[Any]],
    stacks: Sequence[Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    *,
    order: Given = None,
    place: Given = None,
    interleave: Given = None,
    pace: Given = None,
    route: Given = None,
    workers: int | None = None,
    record: bool = False,
    on_progress: Progress | None = None,
    on_compile: Say | None = None,
) -> Sweep:
    """`compare` at every combination of values in `settings`: {"cluster.oversubscription": [1, 2, 4]}, or as the
    command line has it, ["cluster.oversubscription=1,2,4"].

    The runs of all settings are handed to the workers together.

    Examples:
        >>> found = weft.sweep("demo", {"cluster.oversubscription": [1, 4]}, stacks=["fifo"], seeds=[1], workers=1)
        >>> [setting for setting, comparison in found.points]
        [{'cluster.oversubscription': 1}, {'cluster.oversubscription': 4}]
    """
    taken: Taken = {}
    stacks = None if stacks is None else [stack_of(stack, taken) for stack in stacks]
    asked = _layers(None, (order, place, interleave, pace, route), taken)
    points = changes.sweep(Scenario.load(scenario), settings)
    tasks: list[Task] = []
    shapes: list[tuple[changes.Setting, Scenario, list[int], int, bool, tuple[str, ...]]] = []
    checked: list[Stack] = []
    for setting, given in points:
        numbers = seeds_of(given, seeds)
        # what cannot run is refused before any worker is started
        own, notes = _fitting(given, asked, _stacks(given, stacks), numbers[0], named=bool(stacks))
        mine = [
            Task(given, replace(asked, stack=name), seed, record and seed == numbers[0])
            for seed in numbers
            for name in own
        ]
        checked += own.values()
        tasks += mine
        shared = any(stack.planner.shares_gpus for stack in own.values())
        shapes.append((setting, given, numbers, len(mine), shared, notes))
    compile_kernels(on_compile or say, checked)
    for stack in checked:  # what is not compiled yet is compiled here, and not by several workers side by side
        stack.interleave.prepare()
    with watched("runs", on_progress) as tell:
        tell(0, len(tasks))
        runs = run_grid(tasks, workers, run_task, tell)
    found, at = [], 0
    for setting, given, numbers, n, shared, notes in shapes:
        its = tuple(replace(run, notes=(*run.notes, *notes)) if notes else run for run in runs[at : at + n])
        least = bound_over_seeds(given, numbers, shared)
        found.append((setting, Comparison(given.name, tuple(numbers), its, given.is_recorded, least)))
        at += n
    return Sweep(points[0][1].name, tuple(found))


def replay(jobs: str | Path | dict[str, Any], skip: bool = True, on_compile: Say | None = None) -> dict[str, Any]:
    """The physics alone: given jobs over given links. With `skip` False every iteration is simulated.

    Examples:
        >>> round(weft.replay("examples/two-jobs.json")["makespan_s"], 3)
        346.2
    """
    from weft.scenario.jobfile import load_job_file

    spec = load_job_file(jobs)
    compile_kernels(on_compile or say)
    from weft.sim.replay import run_replay

    return run_replay(spec.model_dump(), skip)


@dataclass(frozen=True)
class Comparison:
    """Stacks side by side: every run, and the paired statistics over seeds.

    Examples:
        >>> both = weft.compare("demo", stacks=["fifo", "srsf"], seeds=[1], workers=1)
        >>> both.against("srsf").runs[0].stack
        'srsf'
        >>> both.labelled({"Ours": "srsf"}).table()["stack"].unique(maintain_order=True).to_list()
        ['fifo', 'Ours']
        >>> both.to_latex().splitlines()[0]
        '\\\\begin{table}'
    """

    scenario: str
    seeds: tuple[int, ...]
    runs: tuple[RunResult, ...]  # by seed, then by stack
    recorded: bool = False  # whether the jobs are those of a trace or a list, the same at every seed
    bound: Mapping[str, float] | None = None  # metric: what no scheduler can do better, on average over the seeds

    @property
    def jobs(self) -> pl.DataFrame:
        """The jobs of all runs, with the stack and seed of each."""
        import polars as pl

        frames = [
            r.jobs.select(pl.lit(r.stack).alias("stack"), pl.lit(r.seed).alias("seed"), pl.all()) for r in self.runs
        ]
        return pl.concat(frames)

    def to_dict(self) -> dict[str, Any]:
        """What `weft compare --json` prints."""
        from weft.results.compare import compare as statistics
        from weft.results.metrics import summary
        from weft.results.windows import binned

        by_stack: dict[str, list[RunResult]] = {}
        for run in self.runs:
            by_stack.setdefault(run.stack, []).append(run)
        summaries = {stack: [summary(run) for run in runs] for stack, runs in by_stack.items()}
        if not self.recorded:
            return {**statistics(summaries), "bound": self.bound}
        bins = {stack: [binned(run.jobs) for run in runs] for stack, runs in by_stack.items()}
        jobs = {stack: [run.jobs for run in runs] for stack, runs in by_stack.items()}
        return {**statistics(summaries, bins, jobs), "bound": self.bound}

    def against(self, stack: str) -> Comparison:
        """The same comparison with another stack as the first, which ratios refer to."""
        if stack not in (names := [run.stack for run in self.runs]):
            raise InputError(f"baseline {stack} is not among the stacks{near(stack, list(dict.fromkeys(names)))}")
        return replace(self, runs=tuple(sorted(self.runs, key=lambda run: run.stack != stack)))

    def labelled(self, labels: Mapping[str, str]) -> Comparison:
        """The same comparison with other names for stacks: {"Ours": "my-order/my-place"}."""
        names = {stack: label for label, stack in labels.items()}
        known = list(dict.fromkeys(run.stack for run in self.runs))
        for stack in names:
            if stack not in known:
                raise InputError(f"label {names[stack]}: {stack} is not among the stacks{near(stack, known)}")
        new = [names.get(stack, stack) for stack in known]
        if len(set(new)) < len(new):
            raise InputError("two stacks would have the same name; use every label once")
        return replace(self, runs=tuple(replace(run, stack=names.get(run.stack, run.stack)) for run in self.runs))

    def table(self) -> pl.DataFrame:
        """One row for each stack and metric: mean, interval, and the same of the ratio to the first stack."""
        from weft.results.export import metrics_frame

        return metrics_frame(self.to_dict())

    def to_pandas(self) -> pd.DataFrame:
        """`table` for pandas, which must be installed."""
        from weft.results.export import as_pandas

        return as_pandas(self.table())

    def to_latex(self, caption: str = "", label: str = "") -> str:
        """The table of stacks for a paper."""
        from weft.results.export import latex
        from weft.results.tables import comparison_grid

        return latex(comparison_grid(self.to_dict()), caption, label)

    def plot(self, what: str = "jct") -> Figure:
        """A figure: jct, iterations, ratios or load."""
        from weft.results.export import figure

        return figure(what, self.runs, self.to_dict())

    def write(self, folder: str | Path) -> Path:
        """Write tables (Parquet, CSV, LaTeX, JSON) and figures (PDF, SVG) into a folder."""
        from weft.results.export import write

        return write(folder, self.runs, self.to_dict())

    def write_report(self, path: str | Path, command: str = "") -> Path:
        """Write the HTML report."""
        from weft.results.report import write_report

        return write_report(path, [replace(run, command=command) for run in self.runs], self.to_dict())

    def _repr_html_(self) -> str:
        from weft.results.html import grid_table
        from weft.results.tables import comparison_grid

        return grid_table(comparison_grid(self.to_dict()))


@dataclass(frozen=True)
class Sweep:
    """A comparison at each of several settings of a scenario.

    Examples:
        >>> found = weft.sweep("demo", ["cluster.nic_gbps=25,100"], stacks=["fifo"], seeds=[1], workers=1)
        >>> [one["name"] for one in found.to_dict()["sweep"]]
        ['cluster.nic_gbps=25', 'cluster.nic_gbps=100']
    """

    scenario: str
    points: tuple[tuple[changes.Setting, Comparison], ...]

    def to_dict(self) -> dict[str, Any]:
        """What `weft compare --set KEY=A,B --json` prints."""
        return {
            "scenario": self.scenario,
            "sweep": [
                {"set": dict(setting), "name": changes.named(setting), **one.to_dict()} for setting, one in self.points
            ],
        }

    def write_report(self, path: str | Path, command: str = "") -> Path:
        """Write the HTML report."""
        from weft.results.sweep import write_report

        return write_report(path, self.to_dict(), command)

    def _repr_html_(self) -> str:
        from weft.results.html import grid_table
        from weft.results.sweep import sweep_grid

        return grid_table(sweep_grid(self.to_dict()))


def _layers(stack: str | None, policies: tuple[Given, ...], taken: Taken) -> Layers:
    names = ("order", "place", "interleave", "pace", "route")
    texts = [None if one is None else text_of(layer, one, taken) for layer, one in zip(names, policies, strict=True)]
    return Layers(stack, *texts)


def _fitting(
    scenario: Scenario, asked: Layers, names: Sequence[str], seed: int, named: bool
) -> tuple[dict[str, Stack], tuple[str, ...]]:
    """The stacks by name, and a note about each that is left out because it cannot plan for unequal GPUs: one of the
    section [compare]. One that the caller names is refused when it runs, and so is the first if no other is left."""
    fits: dict[str, Stack] = {}
    notes: list[str] = []
    made = {name: build(scenario, seed, replace(asked, stack=name)) for name in names}
    for name, experiment in made.items():
        reason = "" if named else unequal_gpus(experiment.stack, experiment.cluster)
        if reason:
            notes.append(f"compare: stack {name} is left out: {reason}")
        else:
            fits[name] = experiment.stack
    return (fits, tuple(notes)) if fits else ({names[0]: made[names[0]].stack}, ())


def _stacks(scenario: Scenario, given: Sequence[str] | None) -> list[str]:
    names = list(given) if given else scenario.compare.stacks if scenario.compare else []
    if not names:
        raise InputError(f"{scenario.where}: compare.stacks is missing; add it, or name stacks with --stack")
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"compare: stack {name} is given twice; name each once")
    if not given:
        with located(f"{scenario.where}: compare.stacks"):
            for name in names:
                describe(name)
    return names
