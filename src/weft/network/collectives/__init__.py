"""Collectives: what workers send each other, stage by stage, and what that is on the links of a cluster."""

from weft.network.collectives.algorithms import COLLECTIVES, Stage, get_collective, stages
from weft.network.collectives.lowering import OpenFlow, RoutedCollective, open_collective, route_collective

__all__ = [
    "COLLECTIVES", "OpenFlow", "RoutedCollective", "Stage", "get_collective", "open_collective",
    "route_collective", "stages",
]  # fmt: skip
