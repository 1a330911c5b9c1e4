"""Collectives: what workers send each other, stage by stage, and what that is on the links of a cluster."""

from weft.collectives.base import Collective, Stage
from weft.collectives.closed_form import CLOSED_FORMS, closed_form
from weft.collectives.lowering import Leg, RoutedCollective, alone_s, lower, ring_order, route_collective
from weft.collectives.opening import OpenFlow, open_collective
from weft.collectives.registry import COLLECTIVES, get_collective, stages

__all__ = [
    "CLOSED_FORMS", "COLLECTIVES", "Collective", "Leg", "OpenFlow", "RoutedCollective", "Stage", "alone_s",
    "closed_form", "get_collective", "lower", "open_collective", "ring_order", "route_collective", "stages",
]  # fmt: skip
