"""The Python API: what the command line does, for scripts and notebooks.

    run = weft.simulate("scenario.toml", stack="srsf", seed=3)
    run.jobs                                    # a polars frame
    both = weft.compare("scenario.toml", stacks=["fifo", "srsf"], seeds=5)
    both.to_dict()["stacks"]

`compare` starts worker processes: a script that calls it needs `if __name__ == "__main__":` around the call.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from weft import __version__
from weft.errors import InputError, WeftError
from weft.kept import current, identity
from weft.scenario import Scenario
from weft.scenario.build import Layers, build_cluster, build_stack, build_workload, check, located, physics
from weft.sim import few_collections
from weft.sim import simulate as run_engine
from weft.stacks import describe

if TYPE_CHECKING:
    import polars as pl

    from weft.core.stack import Stack
    from weft.results.run import RunResult
    from weft.results.store import Store

__all__ = [
    "Comparison", "Task", "compare", "compile_kernels", "replay", "run_all", "run_stack", "run_task", "seeds_of",
    "simulate",
]  # fmt: skip

Source = Scenario | str | Path | dict[str, Any]
Say = Callable[[str], None]
Progress = Callable[[int, int], None]  # jobs or runs done, and in all
Given = TypeVar("Given")
Outcome = TypeVar("Outcome")


def simulate(
    scenario: Source,
    *,
    stack: str | None = None,
    seed: int | None = None,
    order: str | None = None,
    place: str | None = None,
    interleave: str | None = None,
    pace: str | None = None,
    record: bool = False,
    on_progress: Progress | None = None,
    on_compile: Say | None = None,
) -> RunResult:
    """One run of a scenario.

    `stack` runs instead of the scenario's; a layer given beside it replaces that layer. `record` keeps link loads over
    time and the first tasks, for reports and timelines. `on_progress` is told now and then how many jobs have finished,
    `on_compile` when kernels must be compiled first.
    """
    if seed is not None:
        _check_seed(seed)
    task = Task(Scenario.load(scenario), Layers(stack, order, place, interleave, pace), seed, record)
    return run_task(task, on_compile, on_progress)


def compare(
    scenario: Source,
    stacks: Sequence[str] | None = None,
    seeds: int | Sequence[int] | None = None,
    *,
    order: str | None = None,
    place: str | None = None,
    interleave: str | None = None,
    pace: str | None = None,
    workers: int | None = None,
    record: bool = False,
    on_progress: Progress | None = None,
    on_compile: Say | None = None,
) -> Comparison:
    """Several stacks on the same workload and routes, seed by seed; the first is what ratios refer to.

    `seeds` is a list, or how many to take from the scenario's on. `workers` is the number of processes (default: one
    per core); the result does not depend on it. `record` keeps link loads over time for the first seed.
    """
    given = Scenario.load(scenario)
    names, numbers = _stacks(given, stacks), seeds_of(given, seeds)
    tasks = [
        Task(given, Layers(name, order, place, interleave, pace), seed, record and seed == numbers[0])
        for seed in numbers
        for name in names
    ]
    for task in tasks[: len(names)]:
        _check(task)
    compile_kernels(on_compile)
    tell = on_progress or (lambda done, total: None)
    tell(0, len(tasks))
    runs: dict[int, RunResult] = {}
    for i, run in run_all(tasks, workers, run_task):
        runs[i] = run
        tell(len(runs), len(tasks))
    return Comparison(given.name, tuple(numbers), tuple(runs[i] for i in range(len(tasks))))


def replay(jobs: str | Path | dict[str, Any], skip: bool = True, on_compile: Say | None = None) -> dict[str, Any]:
    """The physics alone: given jobs over given links. With `skip` False every iteration is simulated."""
    from weft.scenario.jobfile import load_job_file

    spec = load_job_file(jobs)
    compile_kernels(on_compile)
    from weft.sim.replay import run_replay

    return run_replay(spec.model_dump(), skip)


def compile_kernels(say: Say | None = None) -> None:
    """Compile the engine's kernels, or load them where this machine has done so before; `say` is told if it takes long.

    Done before a run, so that the run's wall time is its own.
    """
    from weft.sim.compiled.load import compile_all, is_cached

    if say is not None and not is_cached():
        say("compiling kernels, once for this version (about 20 s) ...")
    compile_all()


@dataclass(frozen=True)
class Comparison:
    """Stacks side by side: every run, and the paired statistics over seeds."""

    scenario: str
    seeds: tuple[int, ...]
    runs: tuple[RunResult, ...]  # by seed, then by stack

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

        by_stack: dict[str, list[dict[str, Any]]] = {}
        for run in self.runs:
            by_stack.setdefault(run.stack, []).append(summary(run))
        return statistics(by_stack)

    def write_report(self, path: str | Path, command: str = "") -> Path:
        """Write the HTML report."""
        from weft.results.report import write_report

        return write_report(path, [replace(run, command=command) for run in self.runs], self.to_dict())

    def _repr_html_(self) -> str:
        from weft.results.html import grid_table
        from weft.results.tables import comparison_grid

        return grid_table(comparison_grid(self.to_dict()))


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


def _check(task: Task) -> None:
    """Refuse what cannot run before any worker is started."""
    build_stack(task.scenario, task.layers).interleave.prepare()
    check(task.scenario, build_cluster(task.scenario, task.seed))


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


def seeds_of(scenario: Scenario, given: int | Sequence[int] | None) -> list[int]:
    """The seeds: those given, or a number of seeds from the scenario's on."""
    if given is None:
        given = scenario.compare.seeds if scenario.compare else 5
    numbers = [scenario.run.seed + i for i in range(given)] if isinstance(given, int) else list(given)
    if not numbers:
        raise InputError("compare: there are no seeds; give at least one")
    for number in numbers:
        _check_seed(number)
    return numbers


def _check_seed(seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise InputError(f"seed {seed} is out of range; give 0 to 2^63 - 1")


class Keepable(Protocol):
    """A task whose outcome can be kept: the key that tells it from others, and what becomes of a kept outcome."""

    def identity(self) -> str | None: ...
    def again(self, run: Any) -> Any: ...


Piece = TypeVar("Piece", bound=Keepable)


def run_all(
    tasks: Sequence[Piece], workers: int | None, run: Callable[[Piece], Outcome]
) -> Iterator[tuple[int, Outcome]]:
    """Run all tasks, here or in worker processes; yields (index, outcome) as they end.

    Inside `weft.kept.kept` outcomes are kept as soon as they are there, and those that were kept come first.
    """
    keeping = current()
    if keeping is None:
        yield from _run_each(tasks, workers, run)
        return
    keys = [task.identity() for task in tasks]
    to_do = []
    for i, (task, key) in enumerate(zip(tasks, keys, strict=True)):
        if (found := keeping.load(key)) is None:
            to_do.append(i)
        else:
            yield i, task.again(found)
    if len(to_do) < len(tasks) and keeping.say is not None:
        keeping.say(f"{len(tasks) - len(to_do)} of {len(tasks)} runs were kept from before; --fresh runs them again")
    pieces = [(tasks[i], keys[i]) for i in to_do]
    for k, outcome in _run_each(pieces, workers, partial(_run_and_keep, run, keeping.store)):
        yield to_do[k], outcome


def _run_and_keep(run: Callable[[Piece], Outcome], store: Store, piece: tuple[Piece, str | None]) -> Outcome:
    task, key = piece
    outcome = run(task)
    if key is not None:
        store.save(key, outcome)  # type: ignore[arg-type]
    return outcome


def _run_each(
    tasks: Sequence[Given], workers: int | None, run: Callable[[Given], Outcome]
) -> Iterator[tuple[int, Outcome]]:
    """Run all tasks, here or in worker processes; yields (index, outcome) as they end."""
    workers = min(len(tasks), workers or len(os.sched_getaffinity(0)))
    if workers <= 1:
        for i, task in enumerate(tasks):
            yield i, run(task)
        return
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _quiet_worker)
    try:
        with _deaf():
            futures = {pool.submit(run, task): i for i, task in enumerate(tasks)}
        for future in as_completed(futures):
            yield futures[future], future.result()
        pool.shutdown()
    except BaseException as error:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        if isinstance(error, BrokenProcessPool):
            raise WeftError(
                "compare: a worker process died (out of memory, or a script without if __name__ == '__main__'); "
                "use fewer workers, or workers = 1 to run in this process"
            ) from None
        raise


@contextmanager
def _deaf() -> Iterator[None]:
    """Workers started inside ignore interrupts at first: one that comes while they import leaves no traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _quiet_worker() -> None:
    """An interrupted worker dies without a traceback of its own; the parent tells the user."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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
    compile_kernels(on_compile)
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
