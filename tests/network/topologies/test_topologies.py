"""Topologies: counts by hand, capacities by equation, routes that are real paths, refusals with their remedy."""

import os
import pickle
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from tests.network.collectives.forms import nic_links
from weft.model.cluster import Cluster
from weft.model.units import gbps_to_bytes_per_s
from weft.network.topologies import (
    Cable,
    EcmpRouter,
    Machine,
    cassini,
    cassini_multi_gpu,
    fat_tree,
    flow_hash,
    from_cables,
    leaf_spine,
    single_switch,
    three_tier,
    tier_summary,
)

FAST = settings(max_examples=examples(50), deadline=None)


def n_paths(router: EcmpRouter, src: int, dst: int) -> int:
    """Number of paths that flows between two servers are spread over."""
    return router._search(src, dst, router._heads[src][1], router._tails[dst][1]).count


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
    st.builds(
        lambda pods, half, below, up: fat_tree(pods=pods, racks=pods * half, servers_per_rack=below, cores=half * up),
        st.integers(1, 4),
        st.integers(1, 3),
        st.integers(1, 3),
        st.integers(1, 3),
    ),
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
    assert n_paths(router, 0, 1) == 1  # one ToR
    assert n_paths(router, 0, 4) == 2  # over either aggregation switch of the pod
    assert n_paths(router, 0, 8) == 16  # 2 aggregation switches x 2 cables up, and the same down


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
    assert n_paths(router, 0, len(servers) - 1) == (k // 2) ** 2
    assert all(t.oversubscription in (None, 1.0) for t in tier_summary(cluster))


def test_the_tree_of_the_titan_paper() -> None:
    """64 pods of 8 servers: 256 edge, 256 aggregation and 64 core switches, each core joined to every pod once."""
    cluster = fat_tree(machine=Machine(8, nic_gbps=100), pods=64, racks=256, servers_per_rack=2, cores=64)
    links, servers = cluster.topology.links, {s.name for s in cluster.servers}
    switches = Counter(name.rstrip("0123456789.") for name in {link.src for link in links} - servers)
    assert switches == {"edge": 256, "agg": 256, "core": 64}
    assert len(servers) == 512
    pods = Counter((link.dst, link.src.split(".")[0]) for link in links if link.dst.startswith("core"))
    assert len(pods) == 64 * 64
    assert set(pods.values()) == {1}
    assert [t.oversubscription for t in tier_summary(cluster)] == [None, 0.5, 0.25]  # 2 down, 4 up; 4 down, 16 up
    router = cluster.topology.router
    assert isinstance(router, EcmpRouter)
    assert [n_paths(router, 0, other) for other in (1, 2, 8)] == [1, 4, 64]


@pytest.mark.parametrize("k", [2, 4, 6])
def test_a_k_ary_tree_said_by_its_pods_is_the_same(k: int) -> None:
    half = k // 2
    said = fat_tree(pods=k, racks=k * half, servers_per_rack=half, cores=half * half)
    assert said.topology.links == fat_tree(k).topology.links
    assert [s.domains for s in said.servers] == [s.domains for s in fat_tree(k).servers]


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
    code = "from weft.network.topologies import flow_hash; print(flow_hash(1, 2, 3, 4), flow_hash(0, 5, 9, 2**80))"
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
    assert n_paths(router, 0, 1) == 4**29
    assert len({cluster.topology.route(0, 1, f) for f in range(50)}) == 50
    assert_path(cluster, 0, 1, 17)


def test_switches_that_lead_nowhere_are_on_no_path() -> None:
    # a - w - x - y - z - b is the only way; u, v, s and t branch off and end, so the search goes out from both sides.
    pairs = ["aw", "wx", "xy", "yz", "zb", "wu", "uv", "zs", "zt"]
    cluster = from_cables([Cable(pair[0], pair[1], 10) for pair in pairs], servers=["a", "b"])
    router = cluster.topology.router
    assert isinstance(router, EcmpRouter)
    for src, dst in ((0, 1), (1, 0)):
        assert n_paths(router, src, dst) == 1
        assert len(cluster.topology.route(src, dst, 5)) == 5
        assert_path(cluster, src, dst, 5)


def test_an_uneven_last_edge_switch_is_noted() -> None:
    assert three_tier(6, 1, racks_per_edge=3).topology.notes == ()
    (note,) = three_tier(7, 1, racks_per_edge=3).topology.notes
    assert "has 1 racks, where the others have 3" in note
