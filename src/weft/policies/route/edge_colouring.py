"""edge-colouring: no two flows share a link of a spine while no rack sends or receives more than it has spines."""

from __future__ import annotations

from weft.model.plan import Routes, State
from weft.model.routes import RouteView
from weft.policies.route.base import Route, Routing, whole
from weft.policies.route.colouring import colour


class EdgeColouring(Route):
    """Flows between racks are the edges of a bipartite multigraph, paths are colours (`weft.policies.route.colouring`).

    All flows are coloured anew whenever a job has come, gone or moved (MonkeyTree, and Foresight for each range of
    time). Where more colours are needed than a flow has paths, colours take turns on them. Flows inside a rack that
    have several paths are hashed. On fabrics of more than two tiers the colours count paths between racks, and links
    further up may be shared. Left out of MonkeyTree's rules: all-to-all and pipelines by pairs of hosts in turn; their
    flows are coloured like others. Flows in flight move too.
    """

    name = "edge-colouring"
    moves = True

    def route(self, view: RouteView, state: State) -> Routing:
        """A colour for every flow between racks."""
        flows = [(job.id, i, flow) for job in view.jobs.values() for i, flow in enumerate(job.flows)]
        ends = [(view.rack(flow.src), view.rack(flow.dst)) for _, _, flow in flows]
        across = [at for at, (a, b) in enumerate(ends) if a != b]
        number = {(job, i): view.hashed(flow) for job, i, flow in flows}
        for at, found in zip(across, colour([ends[at] for at in across]), strict=True):
            job, i, flow = flows[at]
            number[job, i] = found % view.n_paths(flow)
        routes: dict[str, Routes] = {
            job.id: tuple(whole(number[job.id, i]) for i in range(len(job.flows))) for job in view.jobs.values()
        }
        return Routing(routes, state, dict.fromkeys(routes, "flows between racks have colours, and colours are paths"))
