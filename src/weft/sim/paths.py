"""Paths: what the route policy of a stack chooses, in the simulated world."""

from __future__ import annotations

from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.plan import Placement, Routes
from weft.model.profile import Profile
from weft.model.routes import Flow
from weft.network.collectives import FINEST, Chosen, chosen, flows_of
from weft.policies.pace.base import Pace
from weft.policies.route.base import Ecmp, Route
from weft.sim.spec import NetworkSpec

_KEPT = 10_000  # placements whose flows are remembered


class Paths:
    """The flows of jobs on GPUs, and what a route policy chose for them."""

    def __init__(self, cluster: Cluster, network: NetworkSpec) -> None:
        self.cluster, self.network = cluster, network
        self.route: Route = Ecmp()
        self._flows: dict[tuple[int, int, Placement], tuple[Profile, tuple[Flow, ...]]] = {}

    @property
    def finest(self) -> int:
        """Parts of a flow in which links are counted."""
        return FINEST if self.route.splits else 1

    def refuse(self, pace: Pace) -> None:
        """Refuse, with the reason, a pace that cannot go with the route policy."""
        route, rule = self.route, pace.rates()
        if not route.steers:
            return
        if route.splits and (rule is not None or pace.transport(self.network.packet_loss).opened):
            raise StackError(
                f"route {route.name} splits flows over paths, and pace {pace.name} sets rates of single flows, each on "
                "one path; use a pace that leaves rates to the network (fair), or a route that does not split"
            )
        if route.moves and rule is not None and not rule.moves:
            raise StackError(
                f"route {route.name} changes the paths of jobs that run, and pace {pace.name} keeps what it knows by "
                "path; use another pace, or a route that leaves running jobs where they are (ecmp, least-loaded)"
            )

    def flows(self, profile: Profile, gpus: Placement, uid: int) -> tuple[Flow, ...]:
        """What a job sends from NIC to NIC in one iteration."""
        key = (id(profile), uid, gpus)
        if (known := self._flows.get(key)) is None:
            if len(self._flows) >= _KEPT:
                self._flows.clear()
            flows = flows_of(profile, gpus, self.cluster, self.network.collective, uid)
            known = self._flows[key] = (profile, flows)
        return known[1]

    def chosen(self, profile: Profile, gpus: Placement, uid: int, routes: Routes | None) -> Chosen | None:
        """The paths of a job; None where nobody chooses."""
        if not self.route.steers:
            return None
        return chosen(self.cluster, self.flows(profile, gpus, uid), routes, self.finest)


def has_paths(network: NetworkSpec) -> bool:
    """Whether it matters which path a flow takes."""
    return network.sharing == "max-min" and network.cost is None
