"""Topologies: counts by hand, capacities by equation, routes that are real paths, refusals with their remedy."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError, ScenarioError
from weft.model.cluster import Cluster
from weft.model.topologies import (
    TOPOLOGIES,
    Cable,
    EcmpRouter,
    Machine,
    Via,
    build_cluster,
    cassini,
    cassini_multi_gpu,
    fat_tree,
    flow_hash,
    from_cables,
    leaf_spine,
    nic_links,
    single_switch,
    three_tier,
    tier_summary,
)
from weft.model.topologies.checks import MAX_SERVERS
from weft.model.units import gbps_to_bytes_per_s

FAST = settings(max_examples=50, deadline=None)


def tier(cluster: Cluster, name: str) -> list[float]:
    """Speeds of a tier's links upwards (cables are two links, the one upwards first)."""
    return [link.bytes_per_s for link in cluster.topology.links if link.tier == name and link.id % 2 == 0]


def assert_path(cluster: Cluster, src: int, dst: int, flow: int) -> None:
    """A route is links end to end, from one server to the other, over switches, without a loop."""
    route = cluster.topology.route(src, dst, flow)
    links = [cluster.topology.links[i] for i in route]
    servers = {s.name for s in cluster.servers}
    if src == dst:
        assert route == ()
        return
    nodes = [links[0].src, *(link.dst for link in links)]
    assert nodes[0] == cluster.servers[src].name
    assert nodes[-1] == cluster.servers[dst].name
    assert all(a.dst == b.src for a, b in pairwise(links))
    assert len(set(nodes)) == len(nodes)
    assert not servers & set(nodes[1:-1])


small_clusters: st.SearchStrategy[Cluster] = st.one_of(
    st.builds(single_switch, st.integers(1, 9), st.just(Machine(2))),
    st.builds(
        lambda r, s, over, spines, seed: leaf_spine(r, s, oversubscription=over, spines=spines, seed=seed),
        st.integers(1, 5),
        st.integers(1, 4),
        st.floats(0.1, 10),
        st.none() | st.integers(1, 4),
        st.integers(0, 2**40),
    ),
    st.builds(
        lambda r, s, per, seed: three_tier(r, s, racks_per_edge=per, seed=seed),
        st.integers(1, 9),
        st.integers(1, 3),
        st.none() | st.integers(1, 4),
        st.integers(0, 5),
    ),
    st.builds(lambda half, seed: fat_tree(2 * half, seed=seed), st.integers(1, 3), st.integers(0, 5)),
    st.builds(lambda seed: cassini(seed=seed), st.integers(0, 5)),
    st.builds(lambda seed: cassini_multi_gpu(seed=seed), st.integers(0, 5)),
)


# Counts by hand


def test_cassini_testbed_has_24_servers_13_switches_and_48_cables() -> None:
    cluster = cassini()
    servers = {s.name for s in cluster.servers}
    nodes = {link.src for link in cluster.topology.links}
    assert len(servers) == 24
    assert len(nodes - servers) == 13
    assert len(cluster.topology.links) == 96  # 48 cables, both directions
    assert {link.bytes_per_s for link in cluster.topology.links} == {50e9 / 8}
    assert cluster.n_gpus == 24
    assert cluster.n_racks == 6
    ratios = {t.tier: t.oversubscription for t in tier_summary(cluster)}
    assert ratios == {"nic": None, "tor": 2.0, "aggregation": 1.0}
    assert [t.links for t in tier_summary(cluster)] == [48, 24, 24]


def test_cassini_spreads_flows_between_pods_over_16_paths() -> None:
    router = cassini().topology.router
    assert isinstance(router, EcmpRouter)
    assert router.n_paths(0, 1) == 1  # one ToR
    assert router.n_paths(0, 4) == 2  # over either aggregation switch of the pod
    assert router.n_paths(0, 8) == 16  # 2 aggregation switches x 2 cables up, and the same down


def test_cassini_multi_gpu_variant_has_6_servers_of_2_gpus() -> None:
    cluster = cassini_multi_gpu()
    assert [s.gpus for s in cluster.servers] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11)]
    assert tier_summary(cluster)[1].oversubscription == 2.0


def test_single_switch_has_only_nics() -> None:
    cluster = single_switch(5, Machine(4, nic_gbps=10))
    assert len(cluster.topology.links) == 10
    assert cluster.n_gpus == 20
    assert cluster.n_racks == 1
    assert cluster.topology.route(0, 3) == (0, 7)  # up link of server 0, down link of server 3


def test_leaf_spine_uplinks_carry_half_the_nics_at_oversubscription_2() -> None:
    cluster = leaf_spine(6, 4, Machine(4, nic_gbps=10), oversubscription=2.0)
    assert sum(tier(cluster, "nic")) == 24 * 10e9 / 8
    assert sum(tier(cluster, "leaf")) == 12 * 10e9 / 8
    assert len(tier(cluster, "leaf")) == 6 * 2  # two spines, so that an uplink is as fast as a NIC
    assert cluster.servers[23].rack == 5
    assert cluster.servers[23].domains == ("leaf5", "spine")


def test_three_tier_of_the_flow_scheduling_paper() -> None:
    cluster = three_tier(100, 10, Machine(8, nic_gbps=10), racks_per_edge=10, uplink_gbps=(20, 40))
    assert len(cluster.servers) == 1000
    assert cluster.n_gpus == 8000
    assert len(cluster.topology.links) == 2 * (1000 + 100 + 10)
    assert set(tier(cluster, "tor")) == {20e9 / 8}
    assert set(tier(cluster, "edge")) == {40e9 / 8}
    summary = {t.tier: t for t in tier_summary(cluster)}
    assert summary["tor"].oversubscription == 5.0  # 10 x 10 over 20
    assert summary["edge"].oversubscription == 5.0  # 10 x 20 over 40
    assert len(cluster.topology.route(0, 5)) == 2
    assert len(cluster.topology.route(0, 15)) == 4
    assert len(cluster.topology.route(0, 999)) == 6


def test_three_tier_keeps_the_ratio_at_both_tiers() -> None:
    cluster = three_tier(6, 4, Machine(nic_gbps=10), racks_per_edge=3, oversubscription=2.0)
    assert set(tier(cluster, "tor")) == {20e9 / 8}
    assert set(tier(cluster, "edge")) == {30e9 / 8}
    assert [t.oversubscription for t in tier_summary(cluster)] == [None, 2.0, 2.0]


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_fat_tree_counts(k: int) -> None:
    cluster = fat_tree(k)
    servers = {s.name for s in cluster.servers}
    assert len(servers) == k**3 // 4
    assert len({link.src for link in cluster.topology.links} - servers) == k * k + k * k // 4
    assert len(cluster.topology.links) == 2 * 3 * k**3 // 4
    assert cluster.n_racks == k * k // 2
    router = cluster.topology.router
    assert isinstance(router, EcmpRouter)
    assert router.n_paths(0, len(servers) - 1) == (k // 2) ** 2
    assert all(t.oversubscription in (None, 1.0) for t in tier_summary(cluster))


@FAST
@given(st.integers(1, 8), st.integers(1, 8), st.floats(0.05, 20), st.none() | st.integers(1, 6))
def test_leaf_spine_oversubscription_holds_for_any_ratio(r: int, s: int, ratio: float, spines: int | None) -> None:
    cluster = leaf_spine(r, s, Machine(nic_gbps=25), oversubscription=ratio, spines=spines)
    assert sum(tier(cluster, "leaf")) == pytest.approx(r * s * gbps_to_bytes_per_s(25) / ratio)
    assert tier_summary(cluster)[1].oversubscription == pytest.approx(ratio)


# Properties of every kind


@FAST
@given(small_clusters, st.data())
def test_routes_are_paths(cluster: Cluster, data: st.DataObject) -> None:
    server = st.integers(0, len(cluster.servers) - 1)
    assert_path(cluster, data.draw(server), data.draw(server), data.draw(st.integers(0, 2**70)))


@FAST
@given(small_clusters)
def test_every_server_has_one_nic_each_way_and_ids_are_positions(cluster: Cluster) -> None:
    assert all(len(out) == len(into) == 1 for out, into in nic_links(cluster))
    assert [link.id for link in cluster.topology.links] == list(range(len(cluster.topology.links)))
    assert [s.id for s in cluster.servers] == list(range(len(cluster.servers)))
    assert sorted(g for s in cluster.servers for g in s.gpus) == list(range(cluster.n_gpus))
    assert len({link.name for link in cluster.topology.links}) == len(cluster.topology.links)
    both = Counter((link.src, link.dst) for link in cluster.topology.links)
    assert both == Counter((link.dst, link.src) for link in cluster.topology.links)


def test_routes_survive_pickling() -> None:
    cluster = fat_tree(4, seed=7)
    again: Cluster = pickle.loads(pickle.dumps(cluster))
    assert [again.topology.route(0, 15, f) for f in range(20)] == [cluster.topology.route(0, 15, f) for f in range(20)]


# Equal-cost paths


def test_flow_hash_is_the_same_everywhere() -> None:
    code = "from weft.model.topologies import flow_hash; print(flow_hash(1, 2, 3, 4), flow_hash(0, 5, 9, 2**80))"
    for salt in ("0", "12345"):
        env = {**os.environ, "PYTHONHASHSEED": salt}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.split() == [str(flow_hash(1, 2, 3, 4)), str(flow_hash(0, 5, 9, 2**80))]
    assert flow_hash(1, 0, 0, 0) == 0xE220A8397B1DCDAF  # splitmix64's first number for seed 0, as published
    assert flow_hash(1, 2, 3, 4) == 14368772040795866965  # pinned: a change here changes the routes of every run


def test_flows_spread_evenly_and_by_seed() -> None:
    cluster = leaf_spine(2, 4, spines=4, seed=3)
    used = Counter(cluster.topology.route(0, 5, flow)[1] for flow in range(4000))
    assert len(used) == 4
    assert all(850 < n < 1150 for n in used.values())  # 1000 expected, standard deviation 27
    other = leaf_spine(2, 4, spines=4, seed=4)
    routes = [(cluster.topology.route(0, 5, f), other.topology.route(0, 5, f)) for f in range(100)]
    assert 0.1 < sum(a == b for a, b in routes) / 100 < 0.45


def test_a_fabric_with_very_many_paths_costs_nothing() -> None:
    # 30 switches in a row, 4 cables between neighbours: 4^29 shortest paths.
    cables = [Cable(f"w{i}", f"w{i + 1}", 10) for i in range(29) for _ in range(4)]
    cluster = from_cables([Cable("a", "w0", 10), *cables, Cable("b", "w29", 10)], servers=["a", "b"])
    router = cluster.topology.router
    assert isinstance(router, EcmpRouter)
    assert router.n_paths(0, 1) == 4**29
    assert len({cluster.topology.route(0, 1, f) for f in range(50)}) == 50
    assert_path(cluster, 0, 1, 17)


# Cable by cable


def test_cables_take_shortest_paths() -> None:
    cables = [Cable("a", "x", 10), Cable("b", "y", 10), Cable("x", "y", 40), Cable("x", "z", 40), Cable("z", "y", 40)]
    cluster = from_cables(cables, Machine(2), servers=["a", "b"], gpus={"b": 3})
    assert [cluster.topology.links[i].name for i in cluster.topology.route(0, 1)] == ["a->x", "x->y", "y->b"]
    assert [s.rack for s in cluster.servers] == [0, 1]
    assert cluster.n_gpus == 5


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


# By name


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
    ("links", {"cables": [Cable("a", "x", 1), Cable("b", "x", 1)]}, 2, 4),
]


@pytest.mark.parametrize(("kind", "fields", "servers", "links"), GOOD)
def test_build_cluster(kind: str, fields: dict[str, object], servers: int, links: int) -> None:
    cluster = build_cluster(kind, **fields)  # type: ignore[arg-type]
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
    ("single-switch", {"servers": 4, "racks": 2}, "cluster.servers stands beside racks"),
    ("single-switch", {"servers": 4, "oversubscription": 2.0}, "oversubscription has no meaning"),
    ("three-tier", {"racks": 4, "servers_per_rack": 2, "uplink_gbps": (1.0,)}, "uplink_gbps has 1 speeds"),
    ("three-tier", {"racks": 4, "servers_per_rack": 2, "uplink_gbps": (1.0, 0.0)}, "uplink_gbps is 0.0"),
    (
        "three-tier",
        {"racks": 4, "servers_per_rack": 2, "uplink_gbps": (1.0, 2.0), "oversubscription": 2.0},
        "uplink_gbps stands beside oversubscription",
    ),
    ("fat-tree", {}, "cluster.k is missing"),
    ("fat-tree", {"k": 5}, "cluster.k is 5; a fat tree needs an even number of ports, such as 6"),
    ("fat-tree", {"k": 4, "racks": 7}, "cluster.racks is 7; a fat tree of k = 4 has 8"),
    ("cassini", {"racks": 7}, "cluster.racks is 7; the CASSINI testbed has 6"),
    ("cassini", {"oversubscription": 3.0}, "the CASSINI testbed has 2"),
    ("links", {}, "cluster.links is missing"),
    ("links", {"cables": [Cable("a", "b", 1)], "servers": 3}, "give the servers' names"),
]


@pytest.mark.parametrize(("kind", "fields", "message"), BAD)
def test_bad_numbers_are_refused_with_the_remedy(kind: str, fields: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        build_cluster(kind, **fields)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_kind_of_the_scenario_is_there() -> None:
    assert list(TOPOLOGIES) == ["single-switch", "leaf-spine", "three-tier", "fat-tree", "cassini", "links"]
