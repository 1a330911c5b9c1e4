"""QueueEnv: a scenario as a Gymnasium environment. The simulation stops at each decision and goes on from there."""

from __future__ import annotations

import time
from typing import Any, cast

import gymnasium
import numpy as np
from gymnasium import spaces

from weft.core.cycle import Core
from weft.core.layered import Layered
from weft.core.loop import advance, settle
from weft.core.stack import Stack
from weft.errors import InputError
from weft.learning.chooser import FEATURES, Chooser, Seen
from weft.model.view import JobView
from weft.policies.place.base import Place
from weft.results.run import RunResult
from weft.runs.prepare import compile_kernels
from weft.runs.run import Source
from weft.runs.watched import say
from weft.scenario import Scenario
from weft.scenario.build import Experiment, Layers, build, build_cluster, build_stack, within_limits
from weft.sim import begin, end
from weft.sim.world import SimWorld


class _Told(Chooser):
    """Chooses what it is told, once, and otherwise shows what it sees."""

    name = "told"

    def __init__(self, place: Place | str, rows: int) -> None:
        self.place, self.rows = place, rows
        super().__init__()
        self.action: int | None = None  # what it is told
        self.seen: Seen | None = None  # a decision that is open

    def choose(self, seen: Seen) -> int | None:
        """What it was told."""
        action, self.action = self.action, None
        return action

    def _chosen(self, seen: Seen) -> JobView | None:
        if self.action is not None:
            return super()._chosen(seen)
        self.seen = seen
        return None


class QueueEnv(gymnasium.Env[dict[str, Any], int]):
    """Which waiting job starts next? One step is one answer: a row of the observation, or `rows` for none.

    The scenario says everything else: cluster, jobs, network, and the interleave, pace and route of its stack. `place`
    decides on which GPUs a chosen job runs (default: the scenario's; best-fit if its stack has none). Time goes on when
    none is chosen, or no job could start.

    Observation and rules are those of `weft.learning.Chooser`. The reward is minus the seconds by which the summed
    completion time of all jobs has grown since the last step, so the rewards of an episode add up to minus that sum.
    An episode ends when all jobs have finished. It is truncated at `run.until_s`, or if nothing can
    happen any more while jobs wait.

    `reset(seed=3)` is what `weft simulate --seed 3` plays; later resets draw a seed each.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium has it

    def __init__(self, scenario: Source, *, place: Place | str | None = None, rows: int = 16) -> None:
        if rows < 1:
            raise InputError(f"rows is {rows}; give at least 1")
        self._scenario = Scenario.load(scenario)
        stack = build_stack(self._scenario, Layers())
        own = stack.planner.place if isinstance(stack.planner, Layered) else Chooser.place
        self._place: Place | str = own if place is None else place
        self._rows = rows
        self._layers = (stack.interleave, stack.pace, stack.route)
        cluster = build_cluster(self._scenario)
        unit = {"low": 0.0, "high": 1.0, "dtype": np.float32}
        self.observation_space = spaces.Dict(
            {
                "jobs": spaces.Box(shape=(rows, len(FEATURES)), **unit),
                "servers": spaces.Box(shape=(len(cluster.servers),), **unit),
                "racks": spaces.Box(shape=(cluster.n_racks,), **unit),
                "mask": spaces.MultiBinary(rows + 1),
            }
        )
        self.action_space = spaces.Discrete(rows + 1)
        self._run: tuple[SimWorld, Core, Experiment, float] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin the scenario, and go on to its first decision."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31)) if seed is None else seed
        stack = within_limits(Stack("told", _Told(self._place, self._rows), *self._layers), self._scenario)
        self._told = cast(_Told, stack.planner)
        if self._run is None:
            compile_kernels(say, [stack])
        experiment = build(self._scenario, drawn, stack)
        world, core = begin(
            experiment.cluster, experiment.workload.jobs, experiment.stack, experiment.network, experiment.run
        )
        self._run = (world, core, experiment, time.perf_counter())
        self._grown_s, self._done = 0.0, False
        self._go_on()
        return self._observation(), self._info()

    def step(self, action: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Carry out a choice, and go on to the next decision."""
        world, core, _, _ = self._begun()
        if self._done:
            raise InputError("the episode has ended; call reset()")
        if not self.action_space.contains(action):
            raise InputError(f"action {action!r} is out of range; give 0 to {self._rows}")
        self._told.action, self._told.seen = int(action), None
        settle(core, world, [])
        self._go_on()
        reward, self._grown_s = -self._grown_s, 0.0
        left = len(world.records) - world.n_finished
        return self._observation(), reward, self._done and not left, self._done and left > 0, self._info()

    def result(self) -> RunResult:
        """The run so far, as `weft.simulate` returns it. It cannot go on after that."""
        world, core, _, began = self._begun()
        self._done = True
        return end(world, core, "told", time.perf_counter() - began)

    def _begun(self) -> tuple[SimWorld, Core, Experiment, float]:
        if self._run is None:
            raise InputError("the environment has not begun; call reset()")
        return self._run

    def _go_on(self) -> None:
        """Let time pass until there is something to decide, or nothing more happens."""
        world, core, experiment, _ = self._begun()
        while self._told.seen is None and not self._done:
            before_s, there = world.now(), len(core.table.jobs)
            if advance(core, world, experiment.run.until_s) is None:
                self._done = True
            self._grown_s += there * (world.now() - before_s)

    def _observation(self) -> dict[str, Any]:
        """The open decision; zeros after the last one."""
        if self._told.seen is None:
            return {name: np.zeros(space.shape, space.dtype) for name, space in self.observation_space.items()}
        return self._told.seen.arrays

    def _info(self) -> dict[str, Any]:
        world, core, experiment, _ = self._begun()
        return {
            "seed": experiment.seed, "now_s": world.now(), "waiting": len(core.table.waiting),
            "running": len(core.table.running), "finished": world.n_finished,
        }  # fmt: skip


gymnasium.register(id="weft/Queue-v0", entry_point="weft.learning.env:QueueEnv")
