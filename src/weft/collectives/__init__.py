"""Collectives: what workers send each other, stage by stage, and what that is on the links of a cluster."""

from weft.collectives.algorithms import (
    APART,
    CLOSED_FORMS,
    COLLECTIVES,
    Collective,
    Stage,
    closed_form,
    get_collective,
    stages,
)
from weft.collectives.lowering import (
    Leg,
    OpenFlow,
    RoutedCollective,
    lower,
    open_collective,
    ring_order,
    route_collective,
)

__all__ = [
    "APART", "CLOSED_FORMS", "COLLECTIVES", "Collective", "Leg", "OpenFlow", "RoutedCollective", "Stage",
    "closed_form", "get_collective", "lower", "open_collective", "ring_order", "route_collective", "stages",
]  # fmt: skip
