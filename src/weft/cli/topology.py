"""`weft topology`: what the cluster of a scenario looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.cli.common import JsonOption, ScenarioArgument, print_json, stdout

if TYPE_CHECKING:
    from weft.model.cluster import Cluster, Server
    from weft.model.topologies import TierSummary

__all__ = ["topology"]

_MOST = 8  # racks, servers of a rack and switches of a level that are drawn


def topology(scenario: ScenarioArgument, json: JsonOption = False) -> None:
    """Draw the cluster of a scenario: racks, links, oversubscription.

    Example: weft topology examples/demo.toml
    """
    from weft.scenario import Scenario
    from weft.scenario.build import build_cluster

    cluster = build_cluster(Scenario.load(scenario))
    if json:
        print_json(_as_dict(cluster))
    else:
        _draw(cluster)


def _as_dict(cluster: Cluster) -> dict[str, Any]:
    from weft.model.topologies import tier_summary
    from weft.model.units import GB, bytes_per_s_to_gbps

    return {
        "topology": cluster.topology.name,
        "gpus": cluster.n_gpus,
        "gpu": cluster.gpu,
        "gpu_memory_gb": cluster.gpu_memory_bytes / GB,
        "intra_server_gbps": bytes_per_s_to_gbps(cluster.intra_server_bytes_per_s),
        "servers": len(cluster.servers),
        "racks": [{"servers": [{"name": s.name, "gpus": len(s.gpus)} for s in rack]} for rack in _racks(cluster)],
        "links": len(cluster.topology.links),
        "tiers": [
            {
                "tier": tier.tier,
                "links": tier.links,
                "slowest_gbps": bytes_per_s_to_gbps(tier.slowest_bytes_per_s),
                "fastest_gbps": bytes_per_s_to_gbps(tier.fastest_bytes_per_s),
                "up_gbps": bytes_per_s_to_gbps(tier.up_bytes_per_s),
                "down_gbps": bytes_per_s_to_gbps(tier.down_bytes_per_s),
                "oversubscription": tier.oversubscription,
            }
            for tier in tier_summary(cluster)
        ],
    }


def _racks(cluster: Cluster) -> list[list[Server]]:
    racks: list[list[Server]] = [[] for _ in range(cluster.n_racks)]
    for server in cluster.servers:
        racks[server.rack].append(server)
    return racks


def _draw(cluster: Cluster) -> None:
    """From the top: switches of a level, the links below them, the next level, and the racks at the bottom."""
    from weft.model.topologies import node_levels, tier_summary
    from weft.model.units import GB

    console = stdout()
    memory = f"{cluster.gpu_memory_bytes / GB:g} GB"
    racks = f"{cluster.n_racks} rack{'s' if cluster.n_racks > 1 else ''}"
    console.print(
        f"[bold]{cluster.topology.name}[/]: {racks}, {len(cluster.servers)} servers,"
        f" {cluster.n_gpus} GPUs ({cluster.gpu}, {memory})\n",
        highlight=False,
    )
    levels = node_levels(cluster)
    by_level: dict[int, list[str]] = {}
    for node, level in levels.items():
        if level > 0:
            by_level.setdefault(level, []).append(node)
    below: dict[int, list[TierSummary]] = {}
    for tier in tier_summary(cluster):
        below.setdefault(min(levels[node] for node in _ends(cluster, tier.tier)), []).append(tier)
    for level in sorted(by_level, reverse=True):
        console.print(f"  {_few(by_level[level])}", highlight=False, markup=False)
        for tier in below.get(level - 1, ()):
            console.print(f"    │ {_links(tier)}", style="cyan", highlight=False, markup=False)
    console.print(_rack_table(cluster))


def _ends(cluster: Cluster, tier: str) -> set[str]:
    return {link.src for link in cluster.topology.links if link.tier == tier}


def _few(names: list[str]) -> str:
    if len(names) <= _MOST:
        return "  ".join(names)
    return f"{'  '.join(names[: _MOST - 1])}  ... {names[-1]} ({len(names)} in all)"


def _links(tier: TierSummary) -> str:
    from weft.model.units import bytes_per_s_to_gbps as gbps

    slow, fast = gbps(tier.slowest_bytes_per_s), gbps(tier.fastest_bytes_per_s)
    speed = f"{slow:g}" if slow == fast else f"{slow:g} to {fast:g}"
    text = (
        f"{tier.tier}: {tier.links // 2} cables of {speed} Gbit/s, {gbps(tier.up_bytes_per_s):g} Gbit/s upwards in all"
    )
    if tier.oversubscription is not None:
        text += f", oversubscription {tier.oversubscription:g}:1"
    return text


def _rack_table(cluster: Cluster) -> Any:
    """One column per rack, one row per server, a square per GPU."""
    from rich.table import Table

    racks = _racks(cluster)
    shown = racks[:_MOST]
    table = Table(box=None, padding=(0, 2), pad_edge=True, show_header=cluster.n_racks > 1)
    for i in range(len(shown)):
        table.add_column(f"rack {i}", no_wrap=True, header_style="dim")
    for row in range(min(_MOST, max(len(rack) for rack in shown))):
        table.add_row(*(_server(rack[row]) if row < len(rack) else "" for rack in shown))
    hidden = max(len(rack) for rack in shown) - _MOST
    if hidden > 0:
        table.add_row(*(f"... {len(rack) - _MOST} more" if len(rack) > _MOST else "" for rack in shown))
    if len(racks) > _MOST:
        table.caption = f"... and {len(racks) - _MOST} more racks"
        table.caption_justify = "left"
    return table


def _server(server: Server) -> Any:
    from rich.text import Text

    squares = "■" * len(server.gpus) if len(server.gpus) <= 8 else f"{len(server.gpus)} GPUs"
    return Text.assemble(server.name, " ", (squares, "green"))
