"""spray: packets of a flow go over all equal paths, as many over each."""

from __future__ import annotations

from weft.model.plan import State
from weft.model.routes import RouteView
from weft.policies.route.base import Route, Routing, together


class Spray(Route):
    """`spray`. A flow is as fast as the slowest of its paths lets it be, as senders wait for all of its packets."""

    name = "spray"
    splits = True

    def route(self, view: RouteView, state: State) -> Routing:
        """All paths, in equal parts; they stay."""
        new = [job for job in view.jobs.values() if job.id not in view.routes]
        return Routing(
            {job.id: tuple(together(list(range(view.n_paths(flow)))) for flow in job.flows) for job in new}, state
        )
