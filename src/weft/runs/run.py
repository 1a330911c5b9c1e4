"""One run of a scenario: what is sent to a worker, and what a worker does with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from weft import __version__
from weft.errors import InputError
from weft.runs.executors import run_all
from weft.runs.kept import identity
from weft.runs.prepare import compile_kernels
from weft.scenario import Scenario
from weft.scenario.build import Experiment, Layers, build, build_stack, located
from weft.sim import few_collections
from weft.sim import simulate as run_engine
from weft.stacks.given import holds_objects

if TYPE_CHECKING:
    from weft.results.run import RunResult

Outcome = TypeVar("Outcome")
Source = Scenario | str | Path | dict[str, Any]
Say = Callable[[str], None]
Progress = Callable[[int, int], None]  # jobs or runs done, and in all


@dataclass(frozen=True)
class Task:
    """One run to do, as it is sent to a worker."""

    scenario: Scenario
    layers: Layers
    seed: int | None = None
    record: bool = False
    part: tuple[float | str, ...] = ()  # what is made of the run: another part is kept beside it

    def identity(self) -> str | None:
        """The key that its outcome is kept under."""
        if holds_objects():
            return None
        seed = self.scenario.run.seed if self.seed is None else self.seed
        key = identity(self.scenario, self.layers, build_stack(self.scenario, self.layers), seed, self.record)
        return None if key is None else "-".join((key, *map(str, self.part)))

    def again(self, outcome: Any) -> Any:
        """An outcome that was kept, under the name and with the text that the scenario has now."""
        if isinstance(outcome, dict) and "scenario" in outcome:
            return {**outcome, "scenario": self.scenario.name}
        if hasattr(outcome, "scenario_text"):
            return replace(outcome, scenario=self.scenario.name, scenario_text=self.scenario.text)
        return outcome


def seeds_of(scenario: Scenario, given: int | Sequence[int] | None) -> list[int]:
    """The seeds: those given, or a number of seeds from the scenario's on."""
    if given is None:
        given = scenario.compare.seeds if scenario.compare else 5
    numbers = [scenario.run.seed + i for i in range(given)] if isinstance(given, int) else list(given)
    if not numbers:
        raise InputError("compare: there are no seeds; give at least one")
    for number in numbers:
        check_seed(number)
    return numbers


def check_seed(seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise InputError(f"seed {seed} is out of range; give 0 to 2^63 - 1")


def run_task(task: Task) -> RunResult:
    """One run of a task."""
    return run_experiment(build(task.scenario, task.seed, task.layers), record=task.record)


def run_grid(
    tasks: Sequence[Task], workers: int | None, do: Callable[[Task], Outcome], tell: Progress | None = None
) -> list[Outcome]:
    """What came of every task, in their order; `tell` hears how many are done."""
    found: dict[int, Outcome] = {}
    for i, outcome in run_all(tasks, workers, do):
        found[i] = outcome
        if tell is not None:
            tell(len(found), len(tasks))
    return [found[i] for i in range(len(tasks))]


def run_experiment(
    experiment: Experiment,
    *,
    record: bool = False,
    on_compile: Say | None = None,
    on_progress: Progress | None = None,
) -> RunResult:
    """One run: compiles the engine if need be, draws the jobs, and hands over."""
    scenario, stack = experiment.scenario, experiment.stack
    compile_kernels(on_compile, [stack])
    with few_collections():
        workload = experiment.workload
    with located(scenario.where):
        found = run_engine(
            experiment.cluster, workload.jobs, stack, experiment.network, experiment.run, record=record,
            on_progress=on_progress,
        )  # fmt: skip
    return replace(
        found,
        scenario=scenario.name,
        notes=(*experiment.cluster.topology.notes, *workload.notes, *found.notes),
        scenario_text=scenario.text,
        version=__version__,
    )
