"""Conformance suite for worlds: `check_world(make)` passes, or raises AssertionError saying what is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.stack import Stack
from weft.core.world import World
from weft.errors import DecisionError, WorldError
from weft.model.events import Event, Failed, Started, Stopped
from weft.model.job import Job
from weft.model.plan import Placement, Start
from weft.model.view import Fact, Spread
from weft.policies.planners.base import Planner
from weft.testing.probes import Fixed, OneAtATime, Shift, StopOnce, Waking, WrongOnce, impossible, plain_planner
from weft.testing.toy import toy_job
from weft.testing.watch import Recorder, require


class MakeWorld(Protocol):
    """Makes a world of at least four GPUs in which these jobs are submitted at their times.

    `latency_s` and `failure_rate` switch slow and failing starts on; a real world ignores them.
    """

    def __call__(self, jobs: Sequence[Job], *, latency_s: float, failure_rate: float, seed: int) -> World: ...


def check_world(make: MakeWorld, *, iteration_s: float = 0.01, deterministic: bool = True) -> None:
    """A world must confirm starts, report each finish once, survive stops, latency and failures, and keep its promises.

    `iteration_s` is the length of the test jobs' iterations (a hundred or so in a row). A world that runs in real time
    is not `deterministic`: its starts take time and fail by themselves, so these switches are not tried with it.
    """
    suite = _Suite(make, iteration_s)
    log = suite.finishes(0.0, 0.0)
    if deterministic:
        require(log == suite.finishes(0.0, 0.0), "the same seed gave two different runs")
        suite.finishes(latency_s=5 * iteration_s, failure_rate=0.0)
        suite.finishes(latency_s=5 * iteration_s, failure_rate=0.4)
    suite.knows_its_jobs()
    suite.survives_stops(0.0)
    if deterministic:
        suite.survives_stops(5 * iteration_s)
    suite.refuses_the_impossible()
    suite.keeps_its_promises()


class _Suite:
    def __init__(self, make: MakeWorld, iteration_s: float) -> None:
        self.make = make
        self.iteration_s = iteration_s

    def job(self, name: str, gpus: int = 1, iterations: int = 20, submit: int = 0, **more: Any) -> Job:
        submit_s = submit * self.iteration_s
        return toy_job(name, gpus, iterations, self.iteration_s, submit_s=submit_s, **more)

    def world(self, jobs: Sequence[Job], latency_s: float = 0.0, failure_rate: float = 0.0) -> Recorder:
        return Recorder(self.make(jobs, latency_s=latency_s, failure_rate=failure_rate, seed=1))

    def finishes(self, latency_s: float, failure_rate: float) -> list[Event]:
        """More jobs than fit at once, some at the same instant: all run, in order, and finish once."""
        jobs = [self.job(f"job{i}", (1, 2, 4)[i % 3], 10 + i, submit=4 * (i // 2)) for i in range(12)]
        world = self.world(jobs, latency_s, failure_rate)
        self.run(_stack(plain_planner(world)), world)
        world.all_finished(jobs)
        if not failure_rate:
            require(
                not world.seen(Failed), f"a start failed though no failures were asked for: {world.seen(Failed)[:1]}"
            )
        return world.log

    def knows_its_jobs(self) -> None:
        """Estimates are possible speeds; progress never runs backwards and ends at the end."""
        job = self.job("a", 2, 30)
        world = self.world([job])
        estimate = world.estimate(job, 2, Spread())
        fine = 0 < estimate.iteration_s < math.inf and 0 <= estimate.compute_s <= estimate.iteration_s
        require(fine, f"estimate of {job.id} is {estimate}")
        if Fact.ITERATIONS_LEFT not in world.facts:
            return
        seen: list[int] = []

        def look(now: float, core: Core) -> None:
            if job.id in core.table.running:
                seen.append(core.view.iterations_done(job.id))

        run(Core(_stack(Waking(plain_planner(world), 3 * self.iteration_s)), world), world, on_progress=look)
        rising = seen == sorted(seen) and all(0 <= done <= job.iterations for done in seen)
        require(
            rising and seen[-1:] > [0], f"iterations_done of {job.id} went {seen}; it must rise up to {job.iterations}"
        )

    def survives_stops(self, latency_s: float) -> None:
        """A job is stopped in the middle, keeps what it saved, and finishes later; the other is not disturbed."""
        jobs = [self.job("a", 1, 60), self.job("b", 1, 60)]
        world = self.world(jobs, latency_s)
        planner = StopOnce(plain_planner(world), "a", 30 * self.iteration_s)
        self.run(_stack(planner), world)
        world.all_finished(jobs)
        stops = [event for event in world.seen(Stopped) if isinstance(event, Stopped)]
        require([stop.job for stop in stops] == ["a"], f"one stop was asked for, these were reported: {stops}")
        require(0 <= stops[0].iterations_done < 60, f"a job stopped in the middle has {stops[0].iterations_done} of 60")
        require(
            len([e for e in world.seen(Started) if e.job == "a"]) == 2, "a job that was stopped did not start again"
        )

    def refuses_the_impossible(self) -> None:
        """The core's checker protects this world too: a refused decision never reaches it, and the run goes on."""
        jobs = [self.job("a", 2), self.job("b", 2)]
        for wrong, text in impossible():
            world = self.world(jobs)
            core = Core(_stack(WrongOnce(plain_planner(world), wrong)), world)
            try:
                run(core, world)
            except DecisionError as error:
                require(text in str(error), f"the checker said {str(error)!r}; expected was {text!r}")
            else:
                raise AssertionError(f"the plan {wrong} was not refused")
            require(not world.decisions, "a refused decision reached the world")
            core.confirm(world.apply(core.step(world.now(), [])))
            run(core, world)
            world.all_finished(jobs)

    def keeps_its_promises(self) -> None:
        """Try everything that the capabilities promise."""
        can = self.world([]).capabilities
        if can.gpu_sharing:
            jobs = [self.job("a", 2), self.job("b", 2)]
            self._plan({"a": (0, 1), "b": (1, 0)}, jobs, shares_gpus=True)
        if can.uneven and (gpus := self._one_and_two()):
            self._plan({"a": gpus}, [self.job("a", 3)])
        if can.resizing:
            self._plan({"a": (0,)}, [self.job("a", 2, sizes=(1,))], resizes=True)
        if can.shifts:
            jobs = [self.job("a", 1, 40)]
            world = self.world(jobs)
            planner = Waking(plain_planner(world), 7 * self.iteration_s)
            self.run(Stack("check", planner, Shift(2 * self.iteration_s)), world)
            world.all_finished(jobs)
        if can.pacing:
            jobs = [self.job("a", 2, message_bytes=1e6), self.job("b", 2, message_bytes=1e6)]
            world = self.world(jobs)
            self.run(Stack("check", plain_planner(world), pace=OneAtATime()), world)
            world.all_finished(jobs)

    def _plan(self, placements: dict[str, Placement], jobs: Sequence[Job], **says: bool) -> None:
        world = self.world(jobs)
        self.run(_stack(Fixed(placements, **says)), world)
        world.all_finished(jobs)
        started = {d.job: d.gpus for d in world.decisions if isinstance(d, Start)}
        require(started == placements, f"asked for {placements}, started {started}")

    def _one_and_two(self) -> Placement:
        """One GPU of a server and two of another, if there are such."""
        small, big = sorted((server.gpus for server in self.world([]).cluster.servers), key=len)[-2:]
        return (small[0], *big[:2]) if len(big) > 1 else ()

    def run(self, stack: Stack, world: Recorder) -> None:
        try:
            run(Core(stack, world), world)
        except WorldError as error:
            raise AssertionError(f"the world reported the impossible: {error}") from error


def _stack(planner: Planner) -> Stack:
    return Stack("check", planner)
