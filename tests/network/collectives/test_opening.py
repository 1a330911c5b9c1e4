from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from tests.network.collectives.forms import ring_order
from tests.network.collectives.test_lowering import even_placements, link_bytes
from weft.model.cluster import Cluster
from weft.model.profile import APART
from weft.network.collectives import COLLECTIVES, open_collective, route_collective
from weft.network.collectives.lowering import OpenFlow, placed_stages
from weft.network.topologies import Machine, leaf_spine, single_switch

FAST = settings(max_examples=examples(80), deadline=None)
NAMES = st.sampled_from(list(COLLECTIVES))
Where = tuple[Cluster, tuple[int, ...]]


def opened_bytes(flows: tuple[OpenFlow, ...]) -> Counter[int]:
    """Bytes over each link for every byte of message."""
    total: Counter[int] = Counter()
    for flow in flows:
        for link in flow.path:
            total[link] += flow.share  # type: ignore[assignment]
    return total


@FAST
@given(even_placements, NAMES, st.integers(1, 4), st.integers(0, 99))
def test_the_bytes_and_links_of_lock_step(where: Where, name: str, n_ps: int, flow_key: int) -> None:
    """Whatever the placement; a path that another hash had chosen would show as bytes on another link."""
    cluster, placement = where
    flows = open_collective(name, placement, cluster, n_ps=n_ps, flow_key=flow_key)
    groups = route_collective(name, placement, cluster, n_ps=n_ps, flow_key=flow_key).groups(1.0)
    assert dict(opened_bytes(flows)) == pytest.approx(dict(link_bytes(groups)))


@FAST
@given(even_placements, NAMES, st.integers(1, 4))
def test_every_flow_leads_between_servers_and_waits_for_earlier_ones(where: Where, name: str, n_ps: int) -> None:
    """Paths begin and end at NICs; `feed` and `after` name flows of the list, and `after` only earlier ones."""
    cluster, placement = where
    flows = open_collective(name, placement, cluster, n_ps=n_ps)
    tier = [link.tier for link in cluster.topology.links]
    for i, flow in enumerate(flows):
        if flow.path:
            assert (tier[flow.path[0]], tier[flow.path[-1]]) == ("nic", "nic")
        assert 0 <= flow.feed[0] <= flow.feed[1] <= len(flows)
        assert 0 <= flow.after[0] <= flow.after[1] <= i
        assert flow.feed == (0, 0) or flow.after == (0, 0)
        assert 0.0 <= flow.chunk <= flow.share
    on_one = len({int(cluster.server_of_gpu[g]) for g in placement}) == 1
    assert (flows == ()) == ((on_one and name != APART) or not any(flow.path for flow in flows))


@FAST
@given(even_placements, st.integers(0, 99))
def test_a_ring_is_fed_all_round(where: Where, flow_key: int) -> None:
    """Each flow by the one before it; the first chunks are those of all workers of a server, n in all."""
    cluster, placement = where
    flows = open_collective("ring", placement, cluster, flow_key=flow_key)
    n, k = len(placement), len(flows)
    assert [flow.feed for flow in flows] == [((i - 1) % k, (i - 1) % k + 1) for i in range(k)]
    assert [flow.share for flow in flows] == pytest.approx([2 * (n - 1) / n] * len(flows))
    if flows:
        assert sum(flow.chunk for flow in flows) == pytest.approx(1.0)
        servers = [int(cluster.server_of_gpu[placement[r]]) for r in ring_order(placement, cluster)]
        on = Counter(servers)
        order = list(dict.fromkeys(servers))
        assert sorted(flow.chunk for flow in flows) == pytest.approx(sorted(on[s] / n for s in order))


def test_a_ring_by_hand() -> None:
    """Two, one and one of four workers on three servers of one switch: 3/2 of the message in each of three flows; the
    server with two workers has two quarters of it to send first."""
    cluster = single_switch(3, Machine(2, nic_gbps=10, intra_server_gbps=160, latency_us=10))
    flows = open_collective("ring", (0, 1, 2, 4), cluster)
    route = cluster.topology.route
    assert [flow.path for flow in flows] == [tuple(route(a, b)) for a, b in ((0, 1), (1, 2), (2, 0))]
    assert [flow.share for flow in flows] == [1.5] * 3
    assert [flow.chunk for flow in flows] == [0.5, 0.25, 0.25]
    assert [flow.feed for flow in flows] == [(2, 3), (0, 1), (1, 2)]
    # what goes from GPU to GPU inside a server caps them all, as it caps the group
    group = route_collective("ring", (0, 1, 2, 4), cluster).groups(1.0)[0]
    assert {(f.demand_bytes_per_s, f.latency_s) for f in flows} == {(group.demand_bytes_per_s, group.latency_s)}


def test_a_parameter_server_by_hand() -> None:
    """Rank 0 is the server; rank 1 is on the same machine, ranks 2 and 3 are not: two pushes, and two broadcasts that
    follow both of them. With two servers each has half of the message."""
    cluster = single_switch(3, Machine(2, nic_gbps=10, intra_server_gbps=160))
    route = cluster.topology.route
    flows = open_collective("parameter-server", (0, 1, 2, 4), cluster)
    assert [flow.path for flow in flows] == [tuple(route(a, b)) for a, b in ((1, 0), (2, 0), (0, 1), (0, 2))]
    assert [flow.feed for flow in flows] == [(0, 0), (0, 0), (0, 2), (0, 2)]
    assert [(flow.share, flow.chunk, flow.after) for flow in flows] == [(1.0, 0.0, (0, 0))] * 4
    two = open_collective("parameter-server", (0, 1, 2, 4), cluster, n_ps=2)
    assert {flow.share for flow in two} == {0.5}
    fed = [i for i, flow in enumerate(two) if flow.feed[0] < flow.feed[1]]
    assert len(fed) == len(two) / 2
    assert all(two[k].feed == (0, 0) for i in fed for k in range(*two[i].feed))


def test_another_collective_goes_stage_by_stage() -> None:
    """Halving and doubling of four workers on four servers: four stages of four flows, each after all of the last."""
    cluster = single_switch(4, Machine(1, nic_gbps=10))
    flows = open_collective("halving-doubling", (0, 1, 2, 3), cluster)
    assert [flow.share for flow in flows] == [0.5] * 4 + [0.25] * 8 + [0.5] * 4
    assert [flow.after for flow in flows] == [(0, 0)] * 4 + [(0, 4)] * 4 + [(4, 8)] * 4 + [(8, 12)] * 4
    assert all(flow.feed == (0, 0) and flow.chunk == 0.0 for flow in flows)


@pytest.mark.parametrize("name", [name for name in COLLECTIVES if name != APART])
def test_nothing_leaves_a_server(name: str) -> None:
    cluster = leaf_spine(2, 2, Machine(4, intra_server_gbps=300))
    assert open_collective(name, (0, 1, 2, 3), cluster) == ()
    assert open_collective(name, (5,), cluster) == ()


def test_servers_that_stand_apart_by_hand() -> None:
    """Two workers on one machine of four, two parameter servers: each on a machine of its own, without a worker; four
    pushes of half the message, and four broadcasts that follow the two pushes of their server."""
    cluster = single_switch(4, Machine(2))
    flows = open_collective(APART, (2, 3), cluster, n_ps=2, flow_key=7)
    ends = [tuple(cluster.topology.links[link].src for link in flow.path) for flow in flows]
    hosts = [flow.path[-1] for flow in flows]
    assert [flow.share for flow in flows] == [0.5] * 8
    assert [flow.feed for flow in flows] == [(0, 0), (0, 0), (0, 2), (0, 2), (0, 0), (0, 0), (4, 6), (4, 6)]
    assert [src[0] == "s1" for src in ends] == [True, True, False, False, True, True, False, False]
    assert hosts[0] == hosts[1] != hosts[4] == hosts[5]
    assert "s1" not in {src[0] for src in (ends[2], ends[6])}


@FAST
@given(st.integers(0, 999), st.integers(1, 6), st.integers(1, 5))
def test_parameter_servers_stand_beside_workers_only_where_there_is_no_other_machine(
    flow_key: int, n_ps: int, machines: int
) -> None:
    """A worker on each of the first machines of six: as many parameter servers as there are machines left stand there,
    one on each; the others stand beside workers."""
    cluster = single_switch(6, Machine(2))
    stage = placed_stages(APART, (*range(0, 2 * machines, 2), 1), cluster, n_ps, flow_key)[0]
    hosts = stage.servers[machines + 1 :]
    apart = [host for host in hosts if host >= machines]
    assert len(hosts) == n_ps
    assert len(apart) == len(set(apart)) == min(n_ps, 6 - machines)
