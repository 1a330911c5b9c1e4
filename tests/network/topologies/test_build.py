from collections.abc import Callable
from typing import get_args

import pytest

from tests.network.topologies.test_topologies import assert_path
from weft.errors import InputError, ScenarioError
from weft.model.cluster import Cluster
from weft.network.topologies import TOPOLOGIES, Cable, EcmpRouter, Machine, Via, build_cluster, from_cables
from weft.network.topologies.fabric import MAX_SERVERS
from weft.scenario.sections import TopologyName

GOOD: list[tuple[str, dict[str, object], int, int]] = [  # kind, fields, servers, links
    ("single-switch", {"servers": 7}, 7, 14),
    ("single-switch", {"racks": 2, "servers_per_rack": 3}, 6, 12),
    ("leaf-spine", {"racks": 6, "servers_per_rack": 4, "oversubscription": 2.0}, 24, 48 + 24),
    ("leaf-spine", {"racks": 6, "servers_per_rack": 4, "oversubscription": 2.0, "spines": 1}, 24, 48 + 12),
    ("three-tier", {"racks": 4, "servers_per_rack": 2, "uplink_gbps": (20.0, 40.0)}, 8, 16 + 8 + 4),
    ("fat-tree", {"k": 4}, 16, 96),
    ("fat-tree", {"racks": 8, "servers_per_rack": 2}, 16, 96),
    ("fat-tree", {"pods": 3, "racks": 6, "servers_per_rack": 2, "cores": 4}, 12, 2 * (12 + 12 + 12)),
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
    ("fat-tree", {"k": 4, "cores": 4}, "cluster.cores has no meaning without pods"),
    ("fat-tree", {"k": 4, "pods": 4}, "cluster.pods excludes k"),
    ("fat-tree", {"pods": 4, "racks": 8}, "cluster.servers_per_rack is missing"),
    ("fat-tree", {"pods": 4, "racks": 9, "servers_per_rack": 2, "cores": 4}, "cluster.racks is 9"),
    ("fat-tree", {"pods": 4, "racks": 8, "servers_per_rack": 2, "cores": 3}, "cluster.cores is 3"),
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
    assert (*TOPOLOGIES, "file") == get_args(TopologyName)


def test_cables_take_shortest_paths() -> None:
    cables = [Cable("a", "x", 10), Cable("b", "y", 10), Cable("x", "y", 40), Cable("x", "z", 40), Cable("z", "y", 40)]
    cluster = from_cables(cables, Machine(2), servers=["a", "b"])
    assert [cluster.topology.links[i].name for i in cluster.topology.route(0, 1)] == ["a->x", "x->y", "y->b"]
    assert [s.rack for s in cluster.servers] == [0, 1]
    assert cluster.n_gpus == 4


def test_cables_with_an_explicit_detour() -> None:
    cables = [Cable("a", "x", 10), Cable("b", "y", 10), Cable("x", "y", 40), Cable("x", "z", 40), Cable("z", "y", 40)]
    cluster = from_cables(cables, servers=["a", "b"], routes=[Via("a", "b", ("x", "z", "y"))])
    names = [cluster.topology.links[i].name for i in cluster.topology.route(0, 1)]
    assert names == ["a->x", "x->z", "z->y", "y->b"]
    assert len(cluster.topology.route(1, 0)) == 3  # one way only


def test_parallel_cables_multiply_an_explicit_route() -> None:
    cables = [Cable("a", "x", 10), Cable("b", "y", 10), Cable("x", "y", 40), Cable("x", "y", 40)]
    cluster = from_cables(cables, servers=["a", "b"], routes=[Via("a", "b", ("x", "y"))])
    assert {cluster.topology.route(0, 1, f) for f in range(50)} == {(0, 4, 3), (0, 6, 3)}


def test_parallel_cables_at_a_server_carry_a_transfer_together() -> None:
    cables = [Cable(s, "x", 400) for s in "abcd" for _ in range(8)]
    cluster = from_cables(cables, servers=["a", "b", "c", "d"])
    route = cluster.topology.route(0, 1, 7)
    assert [cluster.topology.links[i].bytes_per_s for i in route] == [8 * 400e9 / 8] * 2
    assert len(cluster.topology.links) == 8
    assert len(cluster.topology.notes) == 1
    single = from_cables([Cable(s, "x", 400) for s in "abcd"])
    assert single.topology.notes == ()


def test_servers_under_several_switches_are_pointed_out() -> None:
    cables = [Cable(s, f"rail{i}", 400) for s in "ab" for i in range(8)]
    cluster = from_cables(cables, servers=["a", "b"])
    assert "2 of 2" in cluster.topology.notes[0]
    assert len({cluster.topology.route(0, 1, flow) for flow in range(200)}) == 8


def test_servers_are_the_nodes_with_one_cable_unless_named() -> None:
    cluster = from_cables([Cable("x", "a", 10), Cable("x", "b", 10), Cable("x", "y", 5), Cable("y", "c", 10)])
    assert [s.name for s in cluster.servers] == ["a", "b", "c"]
    assert [s.rack for s in cluster.servers] == [0, 0, 1]
    assert all(link.src != "x" for link in cluster.topology.links if link.id in (0, 2))  # upwards first


def test_two_servers_joined_directly() -> None:
    cluster = from_cables([Cable("a", "b", 10)])
    assert cluster.topology.route(0, 1) in ((0,), (1,))
    assert_path(cluster, 0, 1, 0)
    assert_path(cluster, 1, 0, 0)


def test_servers_do_not_forward() -> None:
    cables = [Cable("a", "b", 10), Cable("b", "c", 10)]
    with pytest.raises(ScenarioError, match="no path from a to c"):
        from_cables(cables, servers=["a", "b", "c"])


def test_no_route_leads_through_a_server_with_two_cables() -> None:
    """m would be a short cut from x to y; the switches z1 and z2 are the way."""
    cables = [Cable("a", "x", 10), Cable("b", "y", 10), Cable("m", "x", 10), Cable("m", "y", 10),
              Cable("x", "z1", 10), Cable("z1", "z2", 10), Cable("z2", "y", 10)]  # fmt: skip
    cluster = from_cables(cables, servers=["a", "b", "m"])
    names = [cluster.topology.links[i].name for i in cluster.topology.route(0, 1)]
    assert names == ["a->x", "x->z1", "z1->z2", "z2->y", "y->b"]
    assert len(cluster.topology.route(2, 0)) == len(cluster.topology.route(2, 1)) == 2
    assert cluster.servers[2].rack == cluster.servers[0].rack


def test_route_to_nowhere_is_refused_when_asked() -> None:
    links = from_cables([Cable("a", "x", 1), Cable("b", "x", 1)]).topology.links
    router = EcmpRouter([link for link in links if link.dst != "b"], ["a", "b"])
    with pytest.raises(InputError, match="no path from a to b"):
        router(0, 1, 0)


BAD_CABLES: list[tuple[Callable[[], Cluster], str]] = [
    (lambda: from_cables([]), "links is empty"),
    (lambda: from_cables([Cable("a", "a", 1)]), "two different nodes"),
    (lambda: from_cables([Cable("a", "b", -1)]), r"links\[0\].gbps is -1"),
    (lambda: from_cables([Cable("a", "b", 1), Cable("b", "c", 1), Cable("c", "a", 1)]), "name the servers"),
    (lambda: from_cables([Cable("a", "b", 1)], servers=["a", "q"]), r"servers\[1\] is 'q'"),
    (lambda: from_cables([Cable("a", "b", 1)], servers=["a", "a"]), "'a' twice"),
    (lambda: from_cables([Cable("a", "b", 1)], servers=[]), "servers is empty"),
    (lambda: from_cables([Cable("a", "x", 1), Cable("b", "y", 1)], servers=["a", "b"]), "no path from a to b"),
    (
        lambda: from_cables([Cable("a", "x", 1), Cable("b", "x", 1)], routes=[Via("a", "q", ())]),
        "two different servers",
    ),
    (lambda: from_cables([Cable("a", "x", 1), Cable("b", "x", 1)], routes=[Via("a", "b", ())]), "no cable joins"),
    (
        lambda: from_cables([Cable("a", "x", 1), Cable("b", "x", 1)], routes=[Via("a", "b", ("x", "a", "x"))]),
        "a node twice",
    ),
]


@pytest.mark.parametrize(("build", "message"), BAD_CABLES)
def test_bad_cables_are_refused(build: Callable[[], Cluster], message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
