"""The conformance suite of route policies: `check_route(MyRoute)` passes, or says what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weft.core.layered import Layered
from weft.core.stack import Stack
from weft.model.plan import Routes, State
from weft.model.routes import RouteView
from weft.policies.order.fifo import Fifo
from weft.policies.place.best_fit import BestFit
from weft.policies.route.base import Route, Routing
from weft.testing.check_policies import WORKLOADS, try_workload
from weft.testing.watch import Watch, require

_NEARLY = 1e-9


class WatchedRoute(Watch, Route):
    """A route policy under observation."""

    says = ("steers", "splits", "moves")

    def route(self, view: RouteView, state: State) -> Routing:
        """The policy's answer."""
        answer: Routing = self.ask(
            "route", lambda p, s: p.route(view, s), state, lambda x: (dict(x.routes), x.state, x.reasons, x.wake_s)
        )
        self.json_able(answer.state, "the state that route returns")
        self.later(answer.wake_s, view.now, "the wake-up that route asks for")
        for job, routes in answer.routes.items():
            require(job in view.jobs, f"{self.what}.route names {job}, which neither runs nor starts")
            self._look_at(view, job, routes)
            moved = view.routes.get(job, routes) != routes
            require(self.moves or not moved, f"{self.what}.route changes paths of {job}, and says it never moves any")
            require(not moved or bool(answer.reasons.get(job)), f"{self.what}.route gives no reason for moving {job}")
        return answer

    def _look_at(self, view: RouteView, job: str, routes: Routes) -> None:
        """One path or more for each flow, with shares that sum to 1."""
        flows = view.jobs[job].flows
        require(len(routes) == len(flows), f"{self.what}.route gives {job} {len(routes)} routes for {len(flows)} flows")
        for flow, parts in zip(flows, routes, strict=True):
            numbers, total = [number for number, _ in parts], sum(share for _, share in parts)
            there = all(0 <= number < view.n_paths(flow) for number in numbers) and len({*numbers}) == len(numbers)
            require(there, f"{self.what}.route: paths {numbers} of a flow with {view.n_paths(flow)} paths")
            fine = all(share > 0.0 for _, share in parts) and abs(total - 1.0) <= _NEARLY
            require(fine, f"{self.what}.route: shares of a flow are {parts}; they must be above 0 and sum to 1")
            require(
                self.splits or len(parts) == 1, f"{self.what}.route splits a flow of {job}, and says it splits none"
            )


def check_route(make: Callable[[], Route], workloads: Iterable[int] = WORKLOADS) -> None:
    """A route policy: a path that exists, or shares of several, for each flow; pure; what it says of itself is true."""
    for number in workloads:
        watched = WatchedRoute(make)
        try_workload(number, Stack(watched.name, Layered(Fifo(backfill=True), BestFit()), route=watched), watched)
