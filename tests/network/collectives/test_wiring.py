"""Several NICs and NVLink domains: what each link carries, and how long it takes, by equations."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from tests.network.collectives.forms import lower
from tests.network.collectives.test_lowering import alone_s, link_bytes
from weft.model.cluster import Cluster
from weft.model.profile import APART
from weft.network.collectives import COLLECTIVES, get_collective, open_collective, stages
from weft.network.topologies import Cable, Machine, from_cables, leaf_spine, rails

RAILS = Machine(8, nic_gbps=400, nics_per_server=8)
TRAYS = Machine(4, nic_gbps=400, nics_per_server=4, nvlink_domain=3, nvlink_gbps=7200, intra_server_gbps=7200)
B = 50e9  # bytes per second of a NIC
M = 8e9


def by_tier(cluster: Cluster, carried: Counter[int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for link, size in carried.items():
        found[cluster.topology.links[link].tier] += size
    return found


@pytest.mark.parametrize("servers", [2, 4, 5])
@pytest.mark.parametrize("nics", [1, 2, 8])
def test_a_ring_uses_all_nics(servers: int, nics: int) -> None:
    """2 (N - 1) / N M / (n B) seconds for N GPUs on servers with n NICs of B each."""
    machine = Machine(8, nic_gbps=400, nics_per_server=nics)
    for cluster in (rails(1, 6, machine), leaf_spine(1, 6, machine)):
        n = 8 * servers
        groups = lower("ring", M, range(n), cluster)
        assert alone_s(groups, cluster) == pytest.approx(2 * (n - 1) / n * M / (nics * B), rel=1e-12)


def test_four_nodes_with_eight_rails_take_an_eighth() -> None:
    one, eight = (rails(1, 4, replace(RAILS, nics_per_server=n)) for n in (1, 8))
    seconds = [alone_s(lower("ring", M, range(32), cluster), cluster) for cluster in (one, eight)]
    assert seconds[1] == pytest.approx(seconds[0] / 8, rel=1e-12)


def test_a_ring_of_gpus_of_one_rail_uses_their_nics_only() -> None:
    """One GPU on each of k servers: 2 (k - 1) / k M / B, as with one NIC."""
    cluster = rails(1, 4, RAILS)
    groups = lower("ring", M, [3, 11, 19, 27], cluster)
    assert alone_s(groups, cluster) == pytest.approx(1.5 * M / B, rel=1e-12)
    assert {link.src for i in link_bytes(groups) if (link := cluster.topology.links[i]).dst.startswith("s")} == {
        "rail0.3"
    }


@pytest.mark.parametrize("name", [name for name in COLLECTIVES if name != APART])
def test_traffic_of_one_rail_group_stays_below_the_spines(name: str) -> None:
    """PXN moves a message to the receiver's rail first; without it, messages between rails go by the spine."""
    tiers = {}
    for pxn in (True, False):
        cluster = rails(2, 4, RAILS, pxn=pxn)
        placement = range(16)
        tiers[pxn] = by_tier(cluster, link_bytes(lower(name, M, placement, cluster)))
    assert tiers[True]["rail"] == 0
    if name == "all-to-all":  # of 8 x 8 pairs each way, 7 of 8 are between rails
        assert tiers[False]["rail"] == pytest.approx(2 * 2 * 56 * M / 16)


def test_an_oversubscribed_spine_binds() -> None:
    """Two rail groups of two servers, 4:1: the ring's two crossings share each rail's uplinks, B x 2 / 4 in all."""
    cluster = rails(2, 2, RAILS, oversubscription=4.0, spines=1)
    groups = lower("ring", M, range(32), cluster)
    assert alone_s(groups, cluster) == pytest.approx(2 * 31 / 32 * M / 8 / (B * 2 / 4), rel=1e-12)


def test_a_ring_in_an_nvlink_domain_uses_no_nic() -> None:
    """2 (N - 1) / N M over 900 GB/s."""
    cluster = rails(2, 6, TRAYS)
    groups = lower("ring", M, range(12), cluster)
    assert set(by_tier(cluster, link_bytes(groups))) == {"nvlink"}
    assert alone_s(groups, cluster) == pytest.approx(2 * 11 / 12 * M / 900e9, rel=1e-12)
    assert all(group.ports == () for group in groups)


def test_a_ring_leaves_a_domain_by_all_of_its_nics() -> None:
    """Twelve NICs on each side: 2 (N - 1) / N M / (12 B)."""
    cluster = rails(2, 6, TRAYS)
    groups = lower("ring", M, range(24), cluster)
    assert alone_s(groups, cluster) == pytest.approx(2 * 23 / 24 * M / (12 * B), rel=1e-12)


def test_an_all_to_all_in_a_domain_is_bound_by_each_gpus_nvlink() -> None:
    """Every GPU sends (N - 1) / N M, to GPUs of its own server too."""
    cluster = rails(1, 3, TRAYS)
    groups = lower("all-to-all", M, range(12), cluster)
    assert alone_s(groups, cluster) == pytest.approx(11 / 12 * M / 900e9, rel=1e-12)


def test_pxn_costs_time_inside_the_server() -> None:
    """Each GPU gives 7 messages for other rails of the other server to its neighbours; inside, it also sends 7."""
    machine = replace(RAILS, intra_server_gbps=400)
    cluster = rails(1, 2, machine)
    groups = lower("all-to-all", M, range(16), cluster)
    assert alone_s(groups, cluster) == pytest.approx(14 * M / 16 / B, rel=1e-12)


CLUSTERS = [
    rails(2, 2, RAILS),
    rails(2, 2, RAILS, pxn=False),
    rails(2, 3, TRAYS),
    leaf_spine(2, 2, replace(RAILS, nics_per_server=2)),
]


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(CLUSTERS), st.sampled_from(sorted(COLLECTIVES)), st.randoms(use_true_random=False), st.data())
def test_what_is_sent_arrives(cluster: Cluster, name: str, random: object, data: st.DataObject) -> None:
    """Over NICs go the bytes between nodes, and as many come in as go out; over NVLinks those inside a domain."""
    n = 2 * data.draw(st.integers(1, cluster.n_gpus // 4))
    placement = data.draw(st.permutations(range(cluster.n_gpus)))[:n]
    if not get_collective(name).rack_aware and name != APART:
        node = [int(cluster.node_of_server[cluster.server_of_gpu[g]]) for g in placement]
        rounds = stages(name, n, M, together=tuple(node))
        if max(max(pair) for stage in rounds for pair in stage.pairs) < n:
            expected = sum(stage.bytes * stage.steps for stage in rounds for a, b in stage.pairs if node[a] != node[b])
            carried = link_bytes(lower(name, M, placement, cluster))
            out = sum(size for k, size in carried.items() if cluster.topology.links[k].tier == "nic") / 2
            assert out == pytest.approx(expected, rel=1e-9)
    carried = link_bytes(lower(name, M, placement, cluster))
    nodes = Counter[str]()
    for k, size in carried.items():
        link = cluster.topology.links[k]
        nodes[link.src] -= size  # type: ignore[assignment]
        nodes[link.dst] += size  # type: ignore[assignment]
    servers = {server.name for server in cluster.servers}
    assert all(abs(size) <= 1e-6 * M * n for node, size in nodes.items() if node not in servers)
    flows = open_collective(name, placement, cluster)
    opened: Counter[int] = Counter()
    for flow in flows:
        for link in flow.path:
            opened[link] += flow.share * M  # type: ignore[assignment]
    assert {k: round(v, 3) for k, v in opened.items() if v} == {k: round(v, 3) for k, v in carried.items() if v}


def test_rails_are_what_the_same_cables_are_one_by_one() -> None:
    """Each NIC as a server of its own, with one GPU and the cables written out: the ring of 4 servers with 8 NICs loads
    every link as 8 rings of an eighth do."""
    cluster = rails(2, 2, RAILS, oversubscription=2.0, spines=1)
    cables, at = [], {}
    for s in range(4):
        for i in range(8):
            at[s, i] = len(at)
            cables.append(Cable(f"n{s}.{i}", f"rail{s // 2}.{i}", 400))
    cables += [Cable(f"rail{g}.{i}", "spine0", 400 * 2 / 2) for g in range(2) for i in range(8)]
    apart = from_cables(cables, Machine(1), servers=[f"n{s}.{i}" for s, i in at])
    whole: Counter[tuple[str, str]] = Counter()
    for k, size in link_bytes(lower("ring", M, range(32), cluster)).items():
        link = cluster.topology.links[k]
        rail = (link.src if link.dst.startswith("s") else link.dst).split(".")[-1]
        ends = [f"n{x[1:]}.{rail}" if x.startswith("s") and x != "spine0" else x for x in (link.src, link.dst)]
        whole[ends[0], ends[1]] += size  # type: ignore[assignment]
    parts: Counter[tuple[str, str]] = Counter()
    for i in range(8):
        for k, size in link_bytes(lower("ring", M / 8, [at[s, i] for s in range(4)], apart)).items():
            parts[apart.topology.links[k].src, apart.topology.links[k].dst] += size  # type: ignore[assignment]
    longer = (31 / 32) / (3 / 4)  # a ring of 32 GPUs sends a little more over each edge than one of 4
    assert whole.keys() == parts.keys()
    assert all(whole[ends] == pytest.approx(size * longer, rel=1e-9) for ends, size in parts.items())
