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
        rack = view.cluster.rack_of_server[view.cluster.server_of_nic].tolist()
        ends = [(rack[flow.src], rack[flow.dst]) for job in view.jobs.values() for flow in job.flows]
        colours = iter(colour([(a, b) for a, b in ends if a != b]))
        crossing = iter([a != b for a, b in ends])
        routes: dict[str, Routes] = {
            job.id: tuple(
                whole(next(colours) % view.n_paths(flow) if next(crossing) else view.hashed(flow)) for flow in job.flows
            )
            for job in view.jobs.values()
        }
        return Routing(routes, state, dict.fromkeys(routes, "flows between racks have colours, and colours are paths"))
