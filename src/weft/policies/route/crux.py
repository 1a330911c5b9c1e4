"""crux: the most intense job chooses paths first, each flow the least congested one (Crux, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.plan import Routes, State
from weft.model.policy import setting
from weft.model.routes import RouteView
from weft.policies.crux import Load, intense
from weft.policies.route.base import Route, Routing, whole
from weft.policies.route.choices import busiest_s, choices, no_load, workers, worst_first

LOAD, FLOWS = "load", "flows"


@dataclass(eq=False)
class Crux(Route):
    """`crux`, or `crux:flows` to count flows on links instead of what they are expected to carry.

    Jobs by falling intensity; each flow takes the path whose busiest link is least busy, given those chosen before.
    The load of a link is the sum over jobs of the seconds for which they need it in each second, if iterations last as
    long as alone. Anew whenever a job has come or gone; priorities are `--pace crux`. Ours: what "least congested"
    means, ties (the next busiest link, then the first path), and that a job's time on its busiest link is taken before
    its paths are known.
    """

    name = "crux"
    moves = True
    by: str = setting(LOAD, words=(LOAD, FLOWS))

    def route(self, view: RouteView, state: State) -> Routing:
        """Paths of all jobs."""
        loads = {
            job.id: Load(workers(job) * job.compute_s, busiest_s(view, job), job.compute_s)
            for job in view.jobs.values()
        }
        load, found = no_load(view.cluster), dict[str, Routes]()
        for name in intense(loads):
            job, numbers = view.jobs[name], list[int]()
            for flow in job.flows:
                paths = choices(view, flow)
                numbers.append(worst_first(load, paths) if len(paths) > 1 else 0)
                links = paths[numbers[-1]]
                asked = flow.bytes / (view.capacity[links] * max(job.iteration_s, 1e-12))
                load[links] += asked if self.by == LOAD else 1.0
            found[name] = tuple(whole(number) for number in numbers)
        return Routing(found, state, dict.fromkeys(found, "least congested paths, the most intense job first"))
