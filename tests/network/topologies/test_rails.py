"""Rails, torus, dragonfly, presets: what they consist of, counted by hand."""

from collections import Counter
from itertools import combinations
from typing import Any

import pytest

from weft.errors import ScenarioError
from weft.model.cluster import Cluster
from weft.network.topologies import Machine, build_cluster, dragonfly, rails, tier_summary, torus
from weft.network.topologies.build import presets
from weft.network.topologies.files import parse_slurm_topology

EIGHT = Machine(8, nic_gbps=400, nics_per_server=8)


def tiers(cluster: Cluster) -> dict[str, tuple[int, float, float | None]]:
    """Cables, Gbit/s up in all, oversubscription, by tier."""
    rows = {t.tier: (t.links // 2, t.up_bytes_per_s * 8e-9, t.oversubscription) for t in tier_summary(cluster)}
    return {name: (n, round(up, 6), None if o is None else round(o, 9)) for name, (n, up, o) in rows.items()}


def test_rails_of_two_tiers() -> None:
    cluster = rails(4, 8, EIGHT, oversubscription=2)
    assert tiers(cluster) == {"nic": (256, 102400, None), "rail": (4 * 8 * 4, 51200, 2)}
    assert cluster.pxn


def test_rails_of_three_tiers_with_an_oversubscription_each() -> None:
    cluster = rails(4, 8, EIGHT, racks_per_pod=2, oversubscription=[1, 7])
    assert tiers(cluster) == {
        "nic": (256, 102400, None), "rail": (4 * 8 * 8, 102400, 1), "spine": (16, round(102400 / 7, 6), 7),
    }  # fmt: skip
    assert [level.name for level in cluster.levels] == ["server", "rail group", "pod", "cluster"]
    with pytest.raises(ScenarioError, match="oversubscription"):
        rails(4, 8, EIGHT, oversubscription=[1, 7])


def test_torus() -> None:
    cluster = torus([3, 2, 1], Machine(2, nic_gbps=100))
    assert tiers(cluster) == {"nic": (6, 6 * 300, None), "torus": (6 + 3, 0, None)}
    hops = Counter(len(cluster.topology.route(a, b)) - 2 for a, b in combinations(range(6), 2))
    assert hops == {1: 9, 2: 6}  # two cables and NICs around: at most one step along each dimension


def test_dragonfly_joins_every_pair_of_groups() -> None:
    cluster = dragonfly(5, 2, 3, Machine(1, nic_gbps=100), global_links=2)
    links = cluster.topology.links
    joined = {frozenset(node[1:].split(".")[0] for node in (k.src, k.dst)) for k in links if k.tier == "global"}
    assert joined == {frozenset(map(str, pair)) for pair in combinations(range(5), 2)}
    assert tiers(cluster)["global"][0] == 10
    assert tiers(cluster)["local"][0] == 5
    used = Counter(k.src for k in links if k.tier == "global")
    assert set(used.values()) == {2}
    assert max(len(cluster.topology.route(a, b)) for a in range(30) for b in range(30)) == 5
    with pytest.raises(ScenarioError, match="router_groups"):
        dragonfly(6, 2, 3, global_links=2)


@pytest.mark.parametrize("groups", [2, 3, 4])
def test_dragonfly_with_ports_to_spare_uses_each_once(groups: int) -> None:
    cluster = dragonfly(groups, 3, 1, global_links=2)
    used = Counter(k.src for k in cluster.topology.links if k.tier == "global")
    assert max(used.values()) <= 2
    assert sum(used.values()) == groups * (6 // (groups - 1) * (groups - 1))


@pytest.mark.parametrize(("name", "gpus", "nics"), [("dgx-h100", 8, 8), ("dgx-b200", 8, 8), ("gb200-nvl72", 4, 4)])
def test_presets(name: str, gpus: int, nics: int) -> None:
    cluster = build_cluster("rails", racks=1, servers_per_rack=18, preset=name)
    assert presets()[name]["source"]
    assert [len(cluster.servers[0].gpus), len(cluster.nics_of_server[0])] == [gpus, nics]
    assert cluster.topology.links[0].bytes_per_s == 50e9
    domains = len({s.nvlink for s in cluster.servers})
    assert (domains, cluster.levels[1].name) == ((1, "NVLink domain") if gpus == 4 else (1, "rail group"))
    assert (cluster.servers[0].nvlink >= 0) == (gpus == 4)


@pytest.mark.parametrize(
    "given",
    [
        {"topology": "fat-tree", "k": 4, "gpus_per_server": 2, "nics_per_server": 2},
        {"topology": "leaf-spine", "racks": 1, "servers_per_rack": 4, "nvlink_domain": 3, "nvlink_gbps": 9},
        {"topology": "leaf-spine", "racks": 1, "servers_per_rack": 4, "nvlink_domain": 2},
        {"topology": "three-tier", "racks": 1, "servers_per_rack": 4, "group": [{"count": 4}]},
        {"topology": "leaf-spine", "racks": 9, "servers_per_rack": 4, "group": [{"count": 4}]},
        {"topology": "leaf-spine", "servers_per_rack": 4, "group": [{"count": 4, "gpu": "H100z"}]},
        {"topology": "leaf-spine", "servers_per_rack": 4, "group": [{"count": 4, "gpu_memory_gb": 20}]},
        {"topology": "leaf-spine", "racks": 1, "servers_per_rack": 4, "oversubscription": [1.0, 2.0]},
        {"topology": "leaf-spine", "racks": 1, "servers_per_rack": 4, "pxn": True},
        {"topology": "leaf-spine", "racks": 1, "servers_per_rack": 4, "preset": "dgx-1"},
        {"topology": "leaf-spine", "racks": 1, "servers_per_rack": 4, "nvlink_gbps": 9},
        {"topology": "leaf-spine", "racks": 1, "servers_per_rack": 4, "nvlink_latency_us": 1.0},
        {"topology": "leaf-spine", "servers_per_rack": 4, "group": [{"count": 4, "nvlink_gbps": 9}]},
        {"topology": "leaf-spine", "racks": 1, "servers_per_rack": 4, "preset": "dgx-h100", "gpu": "B200"},
        {"topology": "leaf-spine", "servers_per_rack": 4, "group": [{"count": 4, "preset": "dgx-h100", "gpu": "B200"}]},
        {
            "topology": "dragonfly",
            "router_groups": 1,
            "routers_per_group": 2,
            "servers_per_router": 1,
            "global_links": 3,
        },
    ],
)
def test_what_has_no_meaning_is_refused(given: dict[str, Any]) -> None:
    kind = given.pop("topology")
    with pytest.raises(ScenarioError):
        build_cluster(kind, **given)


def test_what_says_nothing_new_beside_a_preset_or_a_domain_of_one_is_taken() -> None:
    rack = {"racks": 1, "servers_per_rack": 4}
    assert build_cluster("leaf-spine", **rack, preset="dgx-h100", gpu="H100").gpu_memory_bytes == 80e9
    mine = build_cluster("leaf-spine", **rack, preset="dgx-h100", gpu="B200", gpu_memory_gb=180)
    assert (mine.gpu, mine.gpu_memory_bytes) == ("B200", 180e9)
    assert not build_cluster("leaf-spine", **rack, nvlink_domain=1, nvlink_gbps=900).nvlinks  # a sweep's first value
    two = [{"count": 2, "nvlink_domain": 2}, {"count": 2}]
    assert build_cluster("leaf-spine", servers_per_rack=2, nvlink_gbps=900, group=two).nvlinks
    assert build_cluster(
        "dragonfly", router_groups=1, routers_per_group=2, servers_per_router=1, global_links=1
    ).servers


@pytest.mark.parametrize(("racks", "last"), [(4, 1), (5, 2), (6, None), (2, 2)])
def test_a_pod_that_is_not_full_is_noted(racks: int, last: int | None) -> None:
    notes = rails(racks, 2, racks_per_pod=3).topology.notes
    assert [note.endswith(f"has {last}") for note in notes] == ([] if last is None else [True])


def test_blocks_of_slurm_are_nvlink_domains_where_nvlink_has_a_speed() -> None:
    text = "BlockName=b0 Nodes=n[0-2]\nBlockName=b1 Nodes=n[3-4]\nBlockSizes=2\n"
    machine = Machine(4, nics_per_server=4, nvlink_gbps=7200)
    cluster = parse_slurm_topology(text, machine=machine)
    assert [s.nvlink for s in cluster.servers] == [0, 0, 0, 1, 1]
    assert cluster.levels[1].name == "NVLink domain"
    assert all(s.nvlink < 0 for s in parse_slurm_topology(text, machine=Machine(4)).servers)


def test_the_first_group_keeps_its_memory_beside_a_larger_one() -> None:
    group = [{"count": 1, "gpu": "A100", "gpu_memory_gb": 40}, {"count": 1, "preset": "dgx-h100"}]
    mixed = build_cluster("leaf-spine", servers_per_rack=1, group=group)
    assert mixed.memory_of_gpu.tolist() == [40e9] + [80e9] * 8
