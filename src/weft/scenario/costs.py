"""The cost model that a [network] section names: one of ours, or one that another package installs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from weft.errors import StackError
from weft.network.cost import PUBLISHED, Cached, CostModel
from weft.stacks.registry import BUILT_IN, find

if TYPE_CHECKING:
    from weft.scenario.sections import NetworkSection

COSTS = tuple(BUILT_IN["costs"])
KEYS = ("tiers", "table", "hierarchy", "astra_network", "astra_system", "scale", "program", "options")  # of any model


def cost_class(cost: str, table: str | None = None) -> type[CostModel] | None:
    """The class of a cost model; None for links. A table that `tiers` does not know is a cost model of its own."""
    if cost == "links":
        return None
    name = table if cost == "tiers" and table is not None and table not in PUBLISHED else cost
    found, arg = find("costs", name)
    if arg is not None:
        raise StackError(f"cost {name}: it takes no parameter; write network.options")
    return cast(type[CostModel], found)


def reads(cost: str, table: str | None = None) -> frozenset[str]:
    """The keys that describe it."""
    found = cost_class(cost, table)
    return frozenset() if found is None else found.reads


def build_cost(section: NetworkSection, folder: Path) -> CostModel | None:
    """The cost model that stands in for links; None for links. It is asked once for each shape of a placement."""
    found = cost_class(section.cost, section.table)
    if found is None:
        return None
    return Cached(found.from_network(section.model_dump(include=set(found.reads)), folder))
