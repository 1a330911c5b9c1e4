"""least-loaded: each flow of a job that starts takes the path on which there is least."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.plan import Parts, State
from weft.model.policy import setting
from weft.model.reason import because
from weft.model.routes import RouteView
from weft.policies.route.base import Route, Routing, whole
from weft.policies.route.load import Loads, of_flows, offered

FLOWS, BYTES = "flows", "bytes"


@dataclass
class LeastLoaded(Route):
    """`least-loaded` counts flows on each link; `least-loaded:bytes` adds up what they offer, in bytes per second over
    the capacity of the link. A path counts as its worst link. Flows take their paths one after another, and keep them
    as long as the job stays on its GPUs."""

    name = "least-loaded"
    by: str = setting(FLOWS, words=(FLOWS, BYTES))

    def route(self, view: RouteView, state: State) -> Routing:
        """Paths for the jobs that start."""
        loads = Loads(view, of_flows) if self.by == FLOWS else Loads(view, offered, view.capacity)
        loads.add(job for job in view.jobs.values() if job.id in view.routes)
        routes: dict[str, tuple[Parts, ...]] = {}
        for job in view.jobs.values():
            if job.id in view.routes:
                continue
            mine = []
            for flow in job.flows:
                mine.append(whole(loads.least(flow)))
                loads.put(job, flow, mine[-1])
            routes[job.id] = tuple(mine)
        return Routing(routes, state, {job: because("weft.least-loaded", by=self.by) for job in routes})
