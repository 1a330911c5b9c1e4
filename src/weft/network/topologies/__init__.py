"""Topologies: builders that turn a few numbers, or a list of cables, into a Cluster."""

from weft.network.topologies.build import TOPOLOGIES, Cable, Via, build_cluster, from_cables
from weft.network.topologies.clos import (
    CASSINI_MACHINE,
    cassini,
    cassini_multi_gpu,
    fat_tree,
    leaf_spine,
    single_switch,
    three_tier,
)
from weft.network.topologies.direct import dragonfly, torus
from weft.network.topologies.fabric import EcmpRouter, Machine, flow_hash
from weft.network.topologies.rails import rails
from weft.network.topologies.summary import TierSummary, node_levels, tier_summary

__all__ = [
    "CASSINI_MACHINE", "TOPOLOGIES", "Cable", "EcmpRouter", "Machine", "TierSummary", "Via", "build_cluster", "cassini",
    "cassini_multi_gpu", "dragonfly", "fat_tree", "flow_hash", "from_cables", "leaf_spine", "node_levels", "rails",
    "single_switch", "three_tier", "tier_summary", "torus",
]  # fmt: skip
