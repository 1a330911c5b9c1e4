"""crux-released: the paths that MonkeyTree's published program calls Crux, which is not the Crux of its paper.

"Intensity" there is the time of computing plus that of sending, summed over workers. Jobs choose paths in that order;
flows of one pair of hosts go over the spine whose worst link, NICs included, has fewest flows. There are no priorities.
"""

from __future__ import annotations

from weft.model.plan import Routes, State
from weft.model.routes import RouteView
from weft.policies.route.base import Route, Routing, whole


class CruxReleased(Route):
    """`crux-released`: MonkeyTree's baseline of that name as it was published, for comparison."""

    name = "crux-released"
    moves = True

    def route(self, view: RouteView, state: State) -> Routing:
        """Paths of all jobs, anew."""
        order = sorted(
            view.jobs.values(), key=lambda job: -(job.iteration_s * (len(job.view.gpus) or job.view.job.gpus))
        )
        flows = [0] * len(view.cluster.topology.links)
        found = dict[str, Routes]()
        for job in order:
            hosts: dict[tuple[int, int], int] = {}
            numbers = []
            for flow in job.flows:
                pair = int(view.cluster.server_of_nic[flow.src]), int(view.cluster.server_of_nic[flow.dst])
                if pair not in hosts:
                    loads = [max((flows[link] for link in path), default=0) for path in view.paths(flow)]
                    hosts[pair] = loads.index(min(loads))
                numbers.append(hosts[pair])
                for link in view.path(flow, hosts[pair]):
                    flows[link] += 1
            found[job.id] = tuple(whole(number) for number in numbers)
        return Routing(found, state)
