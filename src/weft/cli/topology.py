"""`weft topology`: what the cluster of a scenario looks like."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.common import JsonOption, ScenarioArgument, notice, print_json, stdout
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.model.cluster import Cluster


def topology(
    scenario: ScenarioArgument,
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE.svg", help="Write a picture there, too.")] = None,
    json: JsonOption = False,
) -> None:
    """Draw the cluster of a scenario: racks, NVLink domains, rails, links, oversubscription.

    Example: weft topology examples/demo.toml
    """
    if svg is not None and svg.suffix.lower() != ".svg":
        raise InputError(f"--svg: {svg} must end in .svg")
    from weft.scenario import Scenario
    from weft.scenario.build import build_cluster

    cluster = build_cluster(Scenario.load_site(scenario))
    if svg is not None:
        from weft.results.pictures.topology import topology_svg

        svg.write_text(topology_svg(cluster), encoding="utf-8")
        notice(f"wrote {svg}")
    if json:
        print_json(_as_dict(cluster))
        return
    from weft.results.pictures.topology import draw_topology

    stdout().print(draw_topology(cluster))
    for note in cluster.topology.notes:
        notice(f"note: {note}")


def _as_dict(cluster: Cluster) -> dict[str, Any]:
    from weft.model.units import GB, bytes_per_s_to_gbps
    from weft.network.topologies import tier_summary

    racks: list[list[dict[str, Any]]] = [[] for _ in range(cluster.n_racks)]
    for server in cluster.servers:
        row: dict[str, Any] = {"name": server.name, "gpus": len(server.gpus)}
        if not cluster.alike:
            inside = cluster.intra_of_server[server.id]
            row |= {"gpu": cluster.type_of_server[server.id], "intra_server_gbps": bytes_per_s_to_gbps(inside)}
        racks[server.rack].append(row)
    return {
        "topology": cluster.topology.name,
        "gpus": cluster.n_gpus,
        "gpu": cluster.gpu,
        "gpu_memory_gb": cluster.gpu_memory_bytes / GB,
        "intra_server_gbps": bytes_per_s_to_gbps(min(cluster.intra_of_server)),
        "servers": len(cluster.servers),
        "racks": [{"servers": servers} for servers in racks],
        "nics": cluster.n_nics,
        "levels": [{"name": level.name, "groups": len(level.gpus)} for level in cluster.levels],
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
        "notes": list(cluster.topology.notes),
    }
