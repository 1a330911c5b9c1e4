import pytest

from weft.errors import ScenarioError
from weft.network.topologies import TOPOLOGIES, Cable, build_cluster
from weft.network.topologies.fabric import MAX_SERVERS

GOOD: list[tuple[str, dict[str, object], int, int]] = [  # kind, fields, servers, links
    ("single-switch", {"servers": 7}, 7, 14),
    ("single-switch", {"racks": 2, "servers_per_rack": 3}, 6, 12),
    ("leaf-spine", {"racks": 6, "servers_per_rack": 4, "oversubscription": 2.0}, 24, 48 + 24),
    ("leaf-spine", {"racks": 6, "servers_per_rack": 4, "oversubscription": 2.0, "spines": 1}, 24, 48 + 12),
    ("three-tier", {"racks": 4, "servers_per_rack": 2, "uplink_gbps": (20.0, 40.0)}, 8, 16 + 8 + 4),
    ("fat-tree", {"k": 4}, 16, 96),
    ("fat-tree", {"racks": 8, "servers_per_rack": 2}, 16, 96),
    ("cassini", {}, 24, 96),
    ("cassini", {"servers": 6}, 6, 18),
    ("links", {"links": [Cable("a", "x", 1), Cable("b", "x", 1)]}, 2, 4),
]


@pytest.mark.parametrize(("kind", "fields", "servers", "links"), GOOD)
def test_build_cluster(kind: str, fields: dict[str, object], servers: int, links: int) -> None:
    cluster = build_cluster(kind, **fields)
    assert len(cluster.servers) == servers
    assert len(cluster.topology.links) == links


def test_build_cluster_units() -> None:
    cluster = build_cluster(
        "leaf-spine",
        racks=2,
        servers_per_rack=2,
        gpus_per_server=4,
        nic_gbps=10,
        intra_server_gbps=300,
        gpu="A100",
        gpu_memory_gb=40,
        latency_us=5,
        intra_latency_us=1,
        seed=9,
    )
    assert cluster.intra_server_bytes_per_s == 300e9 / 8
    assert cluster.gpu_memory_bytes == 40e9
    assert cluster.latency_s == pytest.approx(5e-6)
    assert cluster.intra_latency_s == pytest.approx(1e-6)
    assert cluster.topology.seed == 9
    assert cluster.gpu == "A100"
    assert build_cluster("single-switch", servers=2).intra_server_bytes_per_s == float("inf")


def test_cassini_by_name_is_the_testbed_of_the_paper() -> None:
    cluster = build_cluster("cassini")
    assert (cluster.gpu, cluster.gpu_memory_bytes, cluster.n_gpus) == ("A100", 40e9, 24)
    assert build_cluster("cassini", servers=6).n_gpus == 12


BAD: list[tuple[str, dict[str, object], str]] = [
    ("mesh", {}, 'cluster.topology is "mesh"; choose one of single-switch'),
    ("leaf-spine", {"servers_per_rack": 4}, "cluster.racks is missing"),
    ("leaf-spine", {"racks": 0, "servers_per_rack": 4}, "cluster.racks is 0; give a whole number"),
    ("leaf-spine", {"racks": 2.5, "servers_per_rack": 4}, "cluster.racks is 2.5"),
    ("leaf-spine", {"racks": 2, "servers_per_rack": 4, "oversubscription": 0}, "cluster.oversubscription is 0"),
    ("leaf-spine", {"racks": 2, "servers_per_rack": 4, "oversubscription": float("nan")}, "oversubscription is nan"),
    ("leaf-spine", {"racks": 2, "servers_per_rack": 4, "spines": -1}, "cluster.spines is -1"),
    ("leaf-spine", {"racks": 2, "servers_per_rack": 4, "nic_gbps": -10}, "cluster.nic_gbps is -10"),
    ("leaf-spine", {"racks": 2, "servers_per_rack": 4, "gpus_per_server": 0}, "cluster.gpus_per_server is 0"),
    ("leaf-spine", {"racks": 2, "servers_per_rack": 4, "gpu_memory_gb": 0}, "cluster.gpu_memory_gb is 0"),
    ("leaf-spine", {"racks": 2, "servers_per_rack": 4, "latency_us": -1}, "cluster.latency_us is -1"),
    ("leaf-spine", {"racks": 2, "servers_per_rack": 4, "intra_server_gbps": 0}, "cluster.intra_server_gbps is 0"),
    ("leaf-spine", {"racks": 2, "servers_per_rack": 4, "seed": -1}, "cluster.seed is -1"),
    ("leaf-spine", {"racks": 2, "servers_per_rack": 4, "k": 4}, "cluster.k has no meaning in a leaf-spine"),
    ("leaf-spine", {"racks": 10**9, "servers_per_rack": 4}, f"at most {MAX_SERVERS}"),
    ("single-switch", {}, "cluster.servers_per_rack is missing"),
    ("single-switch", {"servers": 4, "racks": 2}, "cluster.servers excludes racks"),
    ("single-switch", {"servers": 4, "oversubscription": 2.0}, "oversubscription has no meaning"),
    ("three-tier", {"racks": 4, "servers_per_rack": 2, "uplink_gbps": (1.0,)}, "uplink_gbps has 1 speeds"),
    ("three-tier", {"racks": 4, "servers_per_rack": 2, "uplink_gbps": (1.0, 0.0)}, "uplink_gbps is 0.0"),
    (
        "three-tier",
        {"racks": 4, "servers_per_rack": 2, "uplink_gbps": (1.0, 2.0), "oversubscription": 2.0},
        "uplink_gbps excludes oversubscription",
    ),
    ("fat-tree", {}, "cluster.k is missing"),
    ("fat-tree", {"k": 5}, "cluster.k is 5; a fat tree needs an even number of ports, such as 6"),
    ("fat-tree", {"k": 4, "racks": 7}, "cluster.racks is 7; a fat tree of k = 4 has 8"),
    ("cassini", {"racks": 7}, "cluster.racks is 7; the CASSINI testbed has 6"),
    ("cassini", {"oversubscription": 3.0}, "the CASSINI testbed has 2"),
    ("links", {}, "cluster.links is missing"),
    ("links", {"links": [Cable("a", "b", 1)], "servers": 3}, "give the servers' names"),
]


@pytest.mark.parametrize(("kind", "fields", "message"), BAD)
def test_bad_numbers_are_refused_with_the_remedy(kind: str, fields: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        build_cluster(kind, **fields)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_kind_of_the_scenario_is_there() -> None:
    assert list(TOPOLOGIES) == ["single-switch", "leaf-spine", "three-tier", "fat-tree", "cassini", "links"]
