"""Collectives: what workers send each other, stage by stage, and what that is on the links of a cluster."""

from weft.network.collectives.algorithms import COLLECTIVES, Stage, get_collective, stages
from weft.network.collectives.lowering import OpenFlow, RoutedCollective, open_collective, route_collective
from weft.network.collectives.routed import FINEST, Chosen, chosen, flows_of

__all__ = [
    "COLLECTIVES", "FINEST", "Chosen", "OpenFlow", "RoutedCollective", "Stage", "chosen", "flows_of", "get_collective",
    "open_collective", "route_collective", "stages",
]  # fmt: skip
