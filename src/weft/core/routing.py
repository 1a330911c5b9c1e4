"""Routing: asks the route policy, and turns its answer into decisions."""

from __future__ import annotations

from dataclasses import replace

from weft.core.returned import expect, refusal
from weft.core.table import Table
from weft.core.view import View
from weft.core.world import World
from weft.model.plan import Decision, Placement, SetRoutes, Start, State, Stop
from weft.model.reason import both
from weft.model.routes import Flow, RoutedJob, RouteView
from weft.model.view import JobStatus, JobView, Spread
from weft.policies.route.base import Route, Routing


class Router:
    """The route policy of a stack at work: its memory, and when it wants to be asked again."""

    def __init__(self, policy: Route, table: Table, world: World) -> None:
        self.policy, self.table, self.world = policy, table, world
        self.state: State = policy.initial_state()
        self.wake_s: float | None = None
        self._known: dict[tuple[str, Placement], RoutedJob] = {}
        self._seen: tuple[tuple[str, Placement], ...] = ()

    def due(self, now: float) -> bool:
        """Whether the policy wants to be asked at this moment, whatever has happened."""
        return self.wake_s is not None and self.wake_s <= now

    def keep(self, routing: Routing) -> None:
        """What the policy remembers from now on, and when to ask it again."""
        self.state, self.wake_s = routing.state, routing.wake_s

    def routed(self, view: View, decisions: list[Decision]) -> tuple[list[Decision], Routing | None]:
        """The decisions with routes for the jobs that start, and those of running jobs whose routes change; and the
        policy's answer, None if it had no reason to be asked."""
        leaving = {d.job for d in decisions if isinstance(d, Stop)}
        there = {
            job.id: (job, job.gpus)
            for job in view.running.values()
            if job.status is not JobStatus.STOPPING and job.id not in leaving
        }
        starts = {d.job: (view.job(d.job), d.gpus) for d in decisions if isinstance(d, Start)}
        there |= starts
        order = sorted(there, key=self.table.number.__getitem__)
        key = tuple((job, there[job][1]) for job in order)
        news = bool(starts) or key != self._seen  # a job whose start failed may start on the same GPUs again
        if not news and not self.due(view.now):
            return decisions, None
        jobs = {job: self._routed_job(*there[job]) for job in order}
        present = {job: routes for job, routes in self.table.routes.items() if job in jobs}
        self._seen = key
        sight = RouteView(view.now, view.cluster, jobs, present, self.world.carried, news)
        answer = self.policy.route(sight, self.state)
        expect(self.policy, "route", "route", answer, Routing, "a Routing")
        self._check(answer, jobs)
        made = [_on_its_paths(d, answer) if isinstance(d, Start) and d.job in answer.routes else d for d in decisions]
        made += [
            SetRoutes(job, routes, answer.reasons.get(job, ""))
            for job, routes in answer.routes.items()
            if there[job][0].status is not JobStatus.WAITING and routes != present.get(job)
        ]
        self._known = {(job, gpus): jobs[job] for job, gpus in key}
        later = answer.wake_s is not None and answer.wake_s > view.now and jobs
        return made, answer if later else replace(answer, wake_s=None)

    def _routed_job(self, job: JobView, gpus: Placement) -> RoutedJob:
        """A job on GPUs; what it sends there does not change."""
        if (known := self._known.get((job.id, gpus))) is not None:
            return replace(known, view=job)
        found: tuple[Flow, ...] = self.world.flows(job.job, gpus)
        alone = self.world.estimate(job.job, len(gpus), Spread.of(self.world.cluster, gpus))
        return RoutedJob(job, found, alone.iteration_s, alone.compute_s)

    def _check(self, answer: Routing, jobs: dict[str, RoutedJob]) -> None:
        """Refuse routes of jobs that are not there, and paths that a flow does not have."""
        router = self.world.cluster.topology.router
        for job, routes in answer.routes.items():
            if job not in jobs:
                raise refusal(self.policy, "route", "route", f"names job {job}, which neither runs nor starts")
            flows = jobs[job].flows
            if len(routes) != len(flows):
                raise refusal(
                    self.policy, "route", "route",
                    f"gives job {job} {len(routes)} routes; it has {len(flows)} flows, and each needs one",
                )  # fmt: skip
            for flow, parts in zip(flows, routes, strict=True):
                most = router.count(flow.src, flow.dst)
                if not all(0 <= number < most for number, _ in parts):
                    raise refusal(
                        self.policy, "route", "route", f"gives a flow of job {job} paths {parts}; it has {most}"
                    )


def _on_its_paths(start: Start, answer: Routing) -> Start:
    """A start with its routes, and why it has them."""
    why = both(start.reason, answer.reasons.get(start.job, ""))
    return replace(start, routes=answer.routes[start.job], reason=why)
