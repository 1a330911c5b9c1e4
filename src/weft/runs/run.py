"""One run of a scenario: what is sent to a worker, and what a worker does with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft import __version__
from weft.errors import InputError
from weft.runs.kept import identity
from weft.runs.prepare import compile_kernels
from weft.scenario import Scenario
from weft.scenario.build import Layers, build_cluster, build_stack, build_workload, check, located, physics
from weft.sim import few_collections
from weft.sim import simulate as run_engine

if TYPE_CHECKING:
    from weft.core.stack import Stack
    from weft.results.run import RunResult

Source = Scenario | str | Path | dict[str, Any]
Say = Callable[[str], None]
Progress = Callable[[int, int], None]  # jobs or runs done, and in all


@dataclass(frozen=True)
class Task:
    """One run to do, as it is sent to a worker."""

    scenario: Scenario
    layers: Layers
    seed: int | None
    record: bool

    def identity(self) -> str | None:
        """The key that the run is kept under."""
        seed = self.scenario.run.seed if self.seed is None else self.seed
        return identity(self.scenario, self.layers, build_stack(self.scenario, self.layers), seed, self.record)

    def again(self, run: RunResult) -> RunResult:
        """A run that was kept, under the name and with the text that the scenario has now."""
        return replace(run, scenario=self.scenario.name, scenario_text=self.scenario.text)


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


def run_task(task: Task, on_compile: Say | None = None, on_progress: Progress | None = None) -> RunResult:
    """One run of a task."""
    scenario, seed = task.scenario, task.scenario.run.seed if task.seed is None else task.seed
    stack = build_stack(scenario, task.layers)
    return run_stack(scenario, stack, seed, record=task.record, on_compile=on_compile, on_progress=on_progress)


def run_stack(
    scenario: Scenario,
    stack: Stack,
    seed: int,
    *,
    record: bool = False,
    on_compile: Say | None = None,
    on_progress: Progress | None = None,
) -> RunResult:
    """One run: builds what the scenario says, compiles the engine if need be, and hands over."""
    cluster = build_cluster(scenario, seed)
    check(scenario, cluster)
    compile_kernels(on_compile, [stack])
    network, circumstances = physics(scenario, seed)
    with few_collections():
        workload = build_workload(scenario, cluster, seed, network)
    with located(scenario.where):
        run = run_engine(cluster, workload.jobs, stack, network, circumstances, record=record, on_progress=on_progress)
    return replace(
        run,
        scenario=scenario.name,
        notes=(*workload.notes, *run.notes),
        scenario_text=scenario.text,
        version=__version__,
    )
