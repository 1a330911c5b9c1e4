"""The cross product: every admissible combination of order, place, interleave, pace and route on one scenario.

    found = weft.runs.cross("scenario.toml", seeds=3, order=["fifo", "srsf"], pace=["fair", "flow"])
    found.to_dict()["combinations"][0]["stack"]     # the best

At a seed every combination sees the same jobs and routes. A combination whose layers contradict each other, or that
this scenario does not allow, is left out with the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from weft.core.refusal import refuse
from weft.core.stack import Stack
from weft.errors import EngineError, InputError, StackError, WeftError
from weft.runs.prepare import compile_kernels
from weft.runs.run import Progress, Say, Source, Task, run_grid, run_task, seeds_of
from weft.runs.watched import say, watched
from weft.scenario import Scenario
from weft.scenario.build import Layers as Named
from weft.scenario.build import build, build_stack
from weft.sim.world import SimWorld
from weft.stacks.combinations import Combination, combinations, policies_in

MOST_RUNS = 20_000  # more runs than this need `most_runs`
Plan = Callable[[int, int, int], None]  # combinations, those left out, runs
Estimate = Callable[[float], None]  # seconds that the runs will take; raises to call them off
SAMPLE = 12  # runs from which that is estimated


@dataclass(frozen=True)
class Skipped:
    """A combination that was not run, or that failed, and why."""

    combination: Combination
    reason: str


@dataclass(frozen=True)
class Cross:
    """What every combination came to: summaries by seed, and those left out."""

    scenario: Scenario
    seeds: tuple[int, ...]
    summaries: Mapping[Combination, tuple[Mapping[str, Any], ...]]  # the reference first
    skipped: tuple[Skipped, ...]
    by: str = "jct_mean_s"

    def to_dict(self) -> dict[str, Any]:
        """What `weft compare --all --json` prints: combinations ranked, with paired intervals."""
        from weft.results.cross import rank

        table = {one.name: list(summaries) for one, summaries in self.summaries.items()}
        routed = any(one.route != "ecmp" for one in self.summaries)
        layers = {
            one.name: {"order": one.order, "place": one.place, "interleave": one.interleave, "pace": one.pace}
            | ({"route": one.route} if routed else {})
            | ({"planner": one.planner} if one.planner else {})
            for one in self.summaries
        }
        left_out = [(left.combination.name, left.reason) for left in self.skipped]
        bins = {name: [s["bins"] for s in runs] for name, runs in table.items()} if self.scenario.is_recorded else None
        return rank(self.scenario.name, table, layers, left_out, self.by, bins)

    def write_report(self, path: str | Path, command: str = "") -> Path:
        """Write the HTML report with its heat map."""
        from weft.results.cross_report import write_report

        return write_report(path, self.to_dict(), command, self.scenario.text)

    def _repr_html_(self) -> str:
        from weft.results.cross_report import ranking_grid
        from weft.results.html import grid_table

        return grid_table(ranking_grid(self.to_dict(), 40))


def cross(
    scenario: Source,
    seeds: int | Sequence[int] | None = None,
    *,
    order: Sequence[str] = (),
    place: Sequence[str] = (),
    planner: Sequence[str] = (),
    interleave: Sequence[str] = (),
    pace: Sequence[str] = (),
    route: Sequence[str] = (),
    by: str = "jct_mean_s",
    most_runs: int = MOST_RUNS,
    workers: int | None = None,
    on_plan: Plan | None = None,
    on_estimate: Estimate | None = None,
    on_progress: Progress | None = None,
    on_compile: Say | None = None,
) -> Cross:
    """Run every admissible combination of the given policies (of a layer that is not given: all of them, and of
    routes ECMP).

    Ratios refer to the scenario's own stack where that is among them, else to the first. `on_plan` is told how many
    combinations there are, how many are left out, and how many runs that makes, before the first one; `on_estimate`
    how long they will take, once a few have been done.

    Examples:
        >>> layers = {"place": ["best-fit"], "planner": ["themis"], "interleave": ["none"], "pace": ["fair"]}
        >>> found = weft.cross("demo", [1], order=["fifo", "srsf"], **layers, workers=1)
        >>> sorted(one.name for one in found.summaries)
        ['fifo/best-fit/none/fair', 'srsf/best-fit/none/fair', 'themis/none/fair']
    """
    from weft.results.compare import METRICS

    if by not in METRICS:
        raise InputError(f"compare: there is no metric {by}; choose one of {', '.join(METRICS)}")
    given, numbers = Scenario.load(scenario), seeds_of(Scenario.load(scenario), seeds)
    texts = {
        "order": order,
        "place": place,
        "planners": planner,
        "interleave": interleave,
        "pace": pace,
        "route": route,
    }
    chosen = {layer: policies_in(layer, said) for layer, said in texts.items() if said}
    fits, skipped = admissible(given, chosen, numbers[0])
    runs = len(fits) * len(numbers)
    if not fits:
        raise StackError(f"compare --all: no combination can run here; the first because {skipped[0].reason}")
    if runs > most_runs:
        raise InputError(
            f"compare --all: {len(fits)} combinations and {len(numbers)} seeds are {runs} runs, more than "
            f"{most_runs}; choose policies with --order, --place, --planner, --interleave, --pace and --route, take "
            "fewer seeds, or allow more with --most"
        )
    compile_kernels(on_compile or say)
    if on_plan is not None:
        on_plan(len(fits), len(skipped), runs)
    tasks = [Task(given, Named(one.name), seed, part=("summary",)) for seed in numbers for one in fits]
    with watched("runs", on_progress) as tell:
        outcomes = _run(tasks, workers, tell, on_estimate)
    found = {one: outcomes[i :: len(fits)] for i, one in enumerate(fits)}
    failed = {one: _without_name(words, one) for one in fits for words in found[one] if isinstance(words, str)}
    summaries = {one: tuple(s for s in found[one] if not isinstance(s, str)) for one in fits if one not in failed}
    if not summaries:
        raise StackError(f"compare --all: every combination failed; the first because {failed[fits[0]]}")
    skipped = (*skipped, *(Skipped(one, reason) for one, reason in failed.items()))
    return Cross(given, tuple(numbers), summaries, skipped, by)


def admissible(
    scenario: Scenario, chosen: Mapping[str, Sequence[str]], seed: int
) -> tuple[list[Combination], tuple[Skipped, ...]]:
    """The combinations that this scenario allows, the scenario's own first, and the others with their reasons."""
    fits: list[Combination] = []
    skipped: list[Skipped] = []
    objects = Objections(scenario, seed)
    own = None if scenario.stack is None else _layers(build_stack(scenario, Named()))
    for one in combinations(chosen):
        try:
            stack = one.stack()
            objects.to(stack, one.pace)
        except StackError as error:
            skipped.append(Skipped(one, _without_name(str(error), one)))
        else:
            fits.insert(0 if _layers(stack) == own else len(fits), one)
    return fits, tuple(skipped)


class Objections:
    """What the simulated world has against a stack, asked of the world itself."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.of = build(scenario, seed)
        self._paced: dict[tuple[bool, str, str], str] = {}

    def to(self, stack: Stack, pace: str) -> None:
        """Raise StackError if the stack cannot run."""
        shared = stack.planner.shares_gpus
        world = SimWorld(self.of.cluster, [], self.of.network, self.of.run, shared_gpus=shared)
        refuse(stack, world)
        if stack.interleave.shifts:
            world.estimates.check_traffic()
        key = (shared, pace, stack.route.name)
        if key not in self._paced:
            try:
                world.set_route(stack.route)
                world.set_pace(stack.pace)
                self._paced[key] = ""
            except StackError as error:
                self._paced[key] = str(error)
        if self._paced[key]:
            raise StackError(self._paced[key])


def _layers(stack: Stack) -> tuple[str, ...]:
    return stack.planner.name, stack.interleave.name, stack.pace.name, stack.route.name


def _without_name(reason: str, one: Combination) -> str:
    """The reason without the names of stack and order, so that combinations refused for one reason count as one."""
    short = re.sub(r"^stack \S+: ", "", reason).replace(f"stack {one.name} ", "it ")
    return re.sub(rf"[^\s/]+/(?={re.escape(one.place)}[\s:])", "", short) if one.place else short


def _attempt(task: Task) -> Mapping[str, Any] | str:
    """The summary of a run, or why there is none."""
    from weft.results.metrics import summary
    from weft.results.windows import binned

    try:
        run = run_task(task)
    except EngineError:
        raise
    except WeftError as error:
        return str(error).removeprefix(f"{task.scenario.where}: ")
    return summary(run) | ({"bins": binned(run.jobs)} if task.scenario.is_recorded else {})


def _run(
    tasks: Sequence[Task], workers: int | None, tell: Progress, on_estimate: Estimate | None
) -> list[Mapping[str, Any] | str]:
    """Run all tasks; returns what came of each.

    If there are many, a few from all over the list are done first, and the time of the others is estimated from them.
    """
    tell(0, len(tasks))
    if on_estimate is None or len(tasks) <= 4 * SAMPLE:
        return run_grid(tasks, workers, _attempt, tell)
    every = max(1, len(tasks) // SAMPLE)
    some = run_grid(tasks[::every], workers, _attempt, lambda done, _: tell(done, len(tasks)))
    on_estimate(_seconds_left(some, len(tasks) - len(some), workers, tasks[0]))
    others = [task for i, task in enumerate(tasks) if i % every]
    rest = iter(run_grid(others, workers, _attempt, lambda done, _: tell(len(some) + done, len(tasks))))
    return [some[i // every] if i % every == 0 else next(rest) for i in range(len(tasks))]


def _seconds_left(done: Sequence[Mapping[str, Any] | str], left: int, workers: int | None, task: Task) -> float:
    """How long the remaining runs will take, from what the engine took for each of these and what it takes to make the
    jobs."""
    started = perf_counter()
    _ = build(task.scenario, task.seed, task.layers).workload
    making = perf_counter() - started
    ran = [float(one["wall_s"]) for one in done if not isinstance(one, str)]
    each = making + (sum(ran) / len(ran) if ran else 0.0)
    return each * left / min(left, workers or len(os.sched_getaffinity(0)))
