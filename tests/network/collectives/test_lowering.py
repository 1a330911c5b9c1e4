from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from testkit.toys import calls
from tests.network.collectives.forms import CLOSED_FORMS, closed_form, lower, nic_links, ring_order
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.flows import FlowGroup
from weft.model.profile import APART
from weft.network.collectives import COLLECTIVES, get_collective, route_collective, stages
from weft.network.topologies import Machine, cassini, fat_tree, leaf_spine, single_switch, three_tier

BESIDE = [name for name in COLLECTIVES if name != APART]  # whose messages all go between workers
FAST = settings(max_examples=examples(60), deadline=None)
INF = float("inf")

MACHINE = Machine(4, nic_gbps=10, intra_server_gbps=300)
CLUSTERS = [
    single_switch(6, MACHINE),
    leaf_spine(3, 3, MACHINE, oversubscription=2.0, spines=2, seed=1),
    three_tier(4, 2, MACHINE, racks_per_edge=2),
    fat_tree(4, MACHINE, seed=2),
    cassini(Machine(2, nic_gbps=50, intra_server_gbps=600)),
]
clusters = st.sampled_from(CLUSTERS)
even_placements = st.integers(1, 8).flatmap(
    lambda half: st.tuples(clusters, st.randoms(use_true_random=False)).map(
        lambda pair: (pair[0], tuple(pair[1].sample(range(pair[0].n_gpus), 2 * half)))
    )
)


def alone_s(groups: tuple[FlowGroup, ...], cluster: Cluster) -> float:
    """Seconds that a chain takes when nobody else uses its links."""
    total = 0.0
    for group in groups:
        rate = min((float(cluster.topology.capacity[link]) / flows for link, flows in group.links), default=INF)
        total += group.latency_s + group.bytes / min(rate, group.demand_bytes_per_s)
    return total


def link_bytes(groups: tuple[FlowGroup, ...]) -> Counter[int]:
    total: Counter[int] = Counter()
    for group in groups:
        for link, flows in group.links:
            total[link] += flows * group.bytes  # type: ignore[assignment]
    return total


def expected_nic_bytes(
    name: str, message: float, placement: tuple[int, ...], cluster: Cluster, n_ps: int
) -> Counter[int]:
    """Bytes over each server's NIC links, from the stages alone."""
    servers = [int(cluster.server_of_gpu[g]) for g in placement]
    if get_collective(name).rack_aware:
        servers = [servers[r] for r in ring_order(placement, cluster)]
    nics = nic_links(cluster)
    total: Counter[int] = Counter()
    for stage in stages(name, len(placement), message, n_ps, tuple(servers)):
        for src, dst in stage.pairs:
            a, b = servers[src], servers[dst]
            if a != b:
                total[nics[a][0][0]] += stage.bytes * stage.steps  # type: ignore[assignment]
                total[nics[b][1][0]] += stage.bytes * stage.steps  # type: ignore[assignment]
    return total


@FAST
@given(even_placements, st.sampled_from(BESIDE), st.floats(1, 1e10), st.integers(1, 4), st.integers(0, 99))
def test_nics_carry_what_the_stages_send(
    where: tuple[Cluster, tuple[int, ...]], name: str, message: float, n_ps: int, flow_key: int
) -> None:
    cluster, placement = where
    carried = link_bytes(lower(name, message, placement, cluster, n_ps=n_ps, flow_key=flow_key))
    nics = {link for out, into in nic_links(cluster) for link in (*out, *into)}
    expected = expected_nic_bytes(name, message, placement, cluster, n_ps)
    assert {link: n for link, n in carried.items() if link in nics} == pytest.approx(dict(expected))


@FAST
@given(even_placements, st.sampled_from(list(COLLECTIVES)), st.integers(1, 4), st.integers(0, 99))
def test_groups_are_well_formed_and_switches_forward_what_they_get(
    where: tuple[Cluster, tuple[int, ...]], name: str, n_ps: int, flow_key: int
) -> None:
    cluster, placement = where
    names = {s.name: s.id for s in cluster.servers}
    groups = lower(name, 1e6, placement, cluster, n_ps=n_ps, flow_key=flow_key)
    for group in groups:
        ids = [link for link, _ in group.links]
        assert ids == sorted(set(ids))
        assert all(isinstance(flows, int) and flows >= 1 for _, flows in group.links)
        balance: Counter[str] = Counter()
        for link, flows in group.links:
            balance[cluster.topology.links[link].src] += flows
            balance[cluster.topology.links[link].dst] -= flows
        assert all(n == 0 for node, n in balance.items() if node not in names)
        ends = {names[end] for link in ids for end in _ends(cluster, link) if end in names}
        assert group.ports == tuple(sorted(ends))
        assert group.bytes > 0
    for one, other in pairwise(groups):
        assert (one.links, one.demand_bytes_per_s) != (other.links, other.demand_bytes_per_s)


def _ends(cluster: Cluster, link: int) -> tuple[str, str]:
    return cluster.topology.links[link].src, cluster.topology.links[link].dst


@FAST
@given(even_placements, st.floats(1, 1e10))
def test_a_ring_enters_and_leaves_every_server_once(where: tuple[Cluster, tuple[int, ...]], message: float) -> None:
    cluster, placement = where
    n = len(placement)
    servers = {int(cluster.server_of_gpu[g]) for g in placement}
    (group,) = lower("ring", message, placement, cluster)
    assert group.bytes == pytest.approx(2 * (n - 1) / n * message)
    flows = dict(group.links)
    for server, (out, into) in enumerate(nic_links(cluster)):
        crossing = 1 if server in servers and len(servers) > 1 else 0
        assert flows.get(out[0], 0) == flows.get(into[0], 0) == crossing
    racks = Counter(int(cluster.rack_of_server[s]) for s in servers)
    order = [int(cluster.rack_of_server[cluster.server_of_gpu[placement[r]]]) for r in ring_order(placement, cluster)]
    assert sum(a != b for a, b in pairwise(order)) == len(racks) - 1


# By hand


def test_ring_of_eight_gpus_on_two_servers() -> None:
    """2 x 7/8 of the message over each of the four NIC links; GPUs inside a server cap it at 300 Gbit/s."""
    cluster = leaf_spine(2, 2, Machine(4, nic_gbps=10, intra_server_gbps=300, latency_us=10, intra_latency_us=2))
    (group,) = lower("ring", 8e6, range(8), cluster)
    assert group.links == ((0, 1), (1, 1), (2, 1), (3, 1))
    assert group.ports == (0, 1)
    assert group.bytes == pytest.approx(14e6)
    assert group.demand_bytes_per_s == 300e9 / 8
    assert group.latency_s == pytest.approx(14 * 10e-6)
    assert alone_s((group,), cluster) == pytest.approx(14 * 10e-6 + 14e6 / 1.25e9)


def test_ring_inside_one_server_loads_no_link() -> None:
    cluster = single_switch(2, Machine(4, intra_server_gbps=80, intra_latency_us=1))
    (group,) = lower("ring", 4e6, (3, 1, 0, 2), cluster)
    assert group.links == ()
    assert group.ports == ()
    assert group.demand_bytes_per_s == 1e10
    assert alone_s((group,), cluster) == pytest.approx(6e-6 + 6e6 / 1e10)


def test_transfers_that_take_no_time_are_left_out() -> None:
    cluster = single_switch(2, Machine(4))  # unlimited inside a server, no latency
    assert lower("ring", 4e6, (0, 1), cluster) == ()
    assert len(lower("ring", 4e6, (0, 1), cluster, demand=1e9)) == 1
    assert lower("ring", 0.0, (0, 7), cluster) == ()


@pytest.mark.parametrize("name", list(COLLECTIVES))
def test_one_worker_gives_an_empty_chain(name: str) -> None:
    assert lower(name, 1e6, (5,), CLUSTERS[0]) == ()


def test_ring_order_does_not_depend_on_the_order_of_the_placement() -> None:
    cluster = leaf_spine(2, 2, Machine(2), spines=1)
    scattered, tidy = (0, 4, 2, 6, 1, 5), (0, 1, 2, 4, 5, 6)
    assert lower("ring", 1e6, scattered, cluster) == lower("ring", 1e6, tidy, cluster)
    assert [scattered[r] for r in ring_order(scattered, cluster)] == [0, 1, 2, 4, 5, 6]


def test_halving_doubling_depends_on_who_meets_whom() -> None:
    """Titan, section II: bytes between machines, each exchange counted once: 0, 3K/2 and K."""
    cluster = single_switch(4, Machine(4, intra_server_gbps=300))
    k = 4e6

    def across(placement: tuple[int, ...]) -> float:
        carried = link_bytes(lower("halving-doubling", k, placement, cluster))
        return sum(carried[out[0]] for out, _ in nic_links(cluster)) / 2  # an exchange is two messages

    assert across((0, 1, 2, 3)) == 0
    assert across((4, 5, 6, 12)) == pytest.approx(1.5 * k)
    assert across((4, 8, 5, 9)) == pytest.approx(k)


def test_halving_doubling_merges_stages_that_load_the_wire_alike() -> None:
    """8 workers on 4 servers: M/2 and M/4 between servers, M/8 inside there and back, then M/4 and M/2 again.

    On one switch both stages between servers put two flows on every NIC link, so they are one group; in two racks the
    first of them crosses the spine and the second does not.
    """
    flat = lower("halving-doubling", 8e6, range(8), single_switch(4, Machine(2, intra_server_gbps=300)))
    assert [g.bytes for g in flat] == [6e6, 2e6, 6e6]
    assert [len(g.ports) for g in flat] == [4, 0, 4]
    assert flat[0].links == tuple((link, 2) for link in range(8))
    racks = lower("halving-doubling", 8e6, range(8), leaf_spine(2, 2, Machine(2, intra_server_gbps=300), spines=1))
    assert [g.bytes for g in racks] == [4e6, 2e6, 2e6, 2e6, 4e6]
    assert racks[0].links == tuple((link, 2) for link in range(8)) + tuple((link, 4) for link in range(8, 12))


def test_parameter_server_push_and_pull() -> None:
    """Three servers of one GPU, one parameter server beside rank 0: two flows into its NIC, then two out of it."""
    cluster = single_switch(3, Machine(1))
    push, pull = lower("parameter-server", 1e6, (0, 1, 2), cluster)
    assert push.links == ((1, 2), (2, 1), (4, 1))
    assert pull.links == ((0, 2), (3, 1), (5, 1))
    assert push.bytes == pull.bytes == 1e6
    assert push.ports == (0, 1, 2)


def test_all_to_all_shares_gpu_ports_inside_a_server() -> None:
    """Four GPUs of one server: each sends to three others at once, so a message gets a third of a port."""
    cluster = single_switch(2, Machine(4, intra_server_gbps=240))
    (group,) = lower("all-to-all", 4e6, range(4), cluster)
    assert group.bytes == 1e6
    assert group.demand_bytes_per_s == pytest.approx(1e10)
    assert alone_s((group,), cluster) == pytest.approx(3e6 / 3e10)


def test_demand_caps_every_flow() -> None:
    cluster = single_switch(2, Machine(2, intra_server_gbps=80))
    assert lower("ring", 1e6, range(4), cluster, demand=5e8)[0].demand_bytes_per_s == 5e8
    assert lower("ring", 1e6, range(4), cluster, demand=5e12)[0].demand_bytes_per_s == 1e10
    assert lower("ring", 1e6, (0, 2), cluster)[0].demand_bytes_per_s == INF


@pytest.mark.parametrize("name", CLOSED_FORMS)
@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_time_alone_on_uniform_links_is_table_one(name: str, n: int) -> None:
    """One worker per server, one switch: T = a + b M with alpha the latency and beta the time per byte of a NIC."""
    cluster = single_switch(16, Machine(1, nic_gbps=10, latency_us=30))
    a, b = closed_form(name, n, 30e-6, 8e-10)
    assert alone_s(lower(name, 1e8, range(n), cluster), cluster) == pytest.approx(a + b * 1e8)


def test_flow_keys_choose_paths_and_stay() -> None:
    cluster = leaf_spine(2, 1, Machine(1), spines=4, seed=5)
    chosen = {lower("point-to-point", 1e6, (0, 1), cluster, flow_key=k)[0].links for k in range(60)}
    assert len(chosen) == 4
    assert lower("ring", 1e6, (0, 1), cluster, flow_key=3) == lower("ring", 1e6, (0, 1), cluster, flow_key=3)


def test_routed_once_serves_messages_of_any_size() -> None:
    cluster = CLUSTERS[1]
    routed = route_collective("halving-doubling", (0, 5, 9, 17, 20), cluster, flow_key=4)
    for message in (1.0, 3e6, 7e9):
        groups = routed.groups(message, 1e9)
        assert groups == lower("halving-doubling", message, (0, 5, 9, 17, 20), cluster, demand=1e9, flow_key=4)


def test_bad_transfers_are_refused() -> None:
    cluster = CLUSTERS[0]
    with pytest.raises(InputError, match="-1 bytes"):
        lower("ring", -1, (0, 1), cluster)
    with pytest.raises(InputError, match="demand is 0"):
        lower("ring", 1, (0, 1), cluster, demand=0)
    with pytest.raises(InputError, match="unknown"):
        lower("star", 1, (0,), cluster)
    with pytest.raises(InputError, match="0 parameter servers"):
        lower("parameter-server", 1, (0, 1), cluster, n_ps=0)


def test_a_ring_of_64_gpus_is_lowered_in_a_few_calls() -> None:
    """Once what depends on the cluster alone is known: about two calls a GPU."""
    cluster = leaf_spine(16, 8, Machine(8, intra_server_gbps=300), oversubscription=2.0)
    placement = tuple(range(64))
    lower("ring", 1e8, placement, cluster, flow_key=7)
    assert 0 < calls(lambda: lower("ring", 1e8, placement, cluster, flow_key=8)) < 10 * len(placement)
