"""What a topology amounts to, tier by tier: links, capacity, oversubscription."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.cluster import Cluster, Link


@dataclass(frozen=True, slots=True)
class TierSummary:
    """The links of one tier. `links` counts both directions; capacities are per direction, summed over the tier.

    `oversubscription` is the worst downlink/uplink bandwidth ratio of the switches at the lower end of these links;
    None for NICs, and where no direction is up.
    """

    tier: str
    links: int
    slowest_bytes_per_s: float
    fastest_bytes_per_s: float
    up_bytes_per_s: float
    down_bytes_per_s: float
    switches: int  # at the lower end
    oversubscription: float | None


def tier_summary(cluster: Cluster) -> tuple[TierSummary, ...]:
    """One summary per tier, from the servers upwards."""
    levels = node_levels(cluster)
    links = cluster.topology.links
    from_below: dict[str, float] = {}
    upwards: dict[str, float] = {}
    for link in links:
        if levels[link.src] < levels[link.dst]:
            from_below[link.dst] = from_below.get(link.dst, 0.0) + link.bytes_per_s
            upwards[link.src] = upwards.get(link.src, 0.0) + link.bytes_per_s
    by_tier: dict[str, list[Link]] = {}
    for link in links:
        by_tier.setdefault(link.tier, []).append(link)
    ordered = sorted(by_tier.items(), key=lambda item: min(levels[link.src] for link in item[1]))
    return tuple(_summarise(tier, rows, levels, from_below, upwards) for tier, rows in ordered)


def _summarise(
    tier: str, links: list[Link], levels: dict[str, int], from_below: dict[str, float], upwards: dict[str, float]
) -> TierSummary:
    up = [link for link in links if levels[link.src] < levels[link.dst]]
    down = [link for link in links if levels[link.src] > levels[link.dst]]
    switches = {link.src for link in up if levels[link.src] > 0}
    ratios = [from_below.get(switch, 0.0) / upwards[switch] for switch in switches]
    speeds = [link.bytes_per_s for link in links]
    return TierSummary(
        tier=tier,
        links=len(links),
        slowest_bytes_per_s=min(speeds),
        fastest_bytes_per_s=max(speeds),
        up_bytes_per_s=sum((link.bytes_per_s for link in up), 0.0),
        down_bytes_per_s=sum((link.bytes_per_s for link in down), 0.0),
        switches=len(switches),
        oversubscription=max(ratios, default=None),
    )


def node_levels(cluster: Cluster) -> dict[str, int]:
    """Height of every node: servers 0; a switch that some server's `domains` names is as high as its place there;
    any other is one above its lowest neighbour."""
    levels = {server.name: 0 for server in cluster.servers}
    nodes = {link.src for link in cluster.topology.links} | {link.dst for link in cluster.topology.links}
    switches = nodes - set(levels)
    for server in cluster.servers:
        for height, switch in enumerate(server.domains, start=1):
            if switch in switches:
                levels[switch] = max(height, levels.get(switch, 0))
    above: dict[str, list[str]] = {}
    for link in cluster.topology.links:
        above.setdefault(link.src, []).append(link.dst)
    frontier = sorted(levels, key=lambda node: levels[node])
    while frontier:
        reached = []
        for node in frontier:
            for after in above.get(node, ()):
                if after not in levels:
                    levels[after] = levels[node] + 1
                    reached.append(after)
        frontier = reached
    return levels
