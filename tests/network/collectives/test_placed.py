"""All-reduces by node, groups of workers, and the choice among algorithms by size."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.profile import Profile, Transfer
from weft.network.collectives import get_collective, open_collective, route_collective, stages
from weft.network.collectives.placed import PLACED, binary_tree, candidates, nodes_of
from weft.network.iteration import play_on
from weft.network.topologies import Machine, dragonfly, single_switch, torus

together = st.lists(st.integers(0, 5), min_size=2, max_size=24).map(lambda nodes: tuple(sorted(nodes)))


def sums(name: str, nodes: tuple[int, ...], size: float = 1.0) -> tuple[Counter[int], Counter[int]]:
    """Bytes that each rank sends and receives."""
    out, back = Counter[int](), Counter[int]()
    for stage in stages(name, len(nodes), size, together=nodes):
        for a, b in stage.pairs:
            out[a] += stage.bytes * stage.steps
            back[b] += stage.bytes * stage.steps
    return out, back


@given(st.integers(1, 70))
def test_a_binary_tree_joins_all_places_and_is_as_deep_as_a_logarithm(n: int) -> None:
    parent = dict(binary_tree(n))
    assert set(parent) == set(range(1, n))
    for place in range(n):
        depth = 0
        while place:
            place, depth = parent[place], depth + 1
        assert depth <= n.bit_length()
    assert max(Counter(parent.values()).values(), default=0) <= 2


@given(together)
def test_both_trees_carry_half_up_and_half_down_on_every_edge(nodes: tuple[int, ...]) -> None:
    """n - 1 edges between nodes in each tree, and chains inside: 2 M for each rank but one, as in any tree."""
    out, back = sums("double-tree", nodes)
    assert sum(out.values()) == pytest.approx(2 * (len(nodes) - 1))
    assert out == pytest.approx(back)


def test_two_nodes_exchange_the_message_once() -> None:
    """Between two nodes of one worker a tree sends M each way, where a ring sends 2 (n - 1) / n M = M."""
    assert dict(sums("double-tree", (0, 1))[0]) == pytest.approx({0: 1.0, 1: 1.0})
    crossing = [pair for stage in stages("double-tree", 8, 1.0, together=(0,) * 4 + (1,) * 4) for pair in stage.pairs
                if pair[0] // 4 != pair[1] // 4]  # fmt: skip
    assert Counter(crossing) == {(0, 4): 2, (4, 0): 2}


@pytest.mark.parametrize(("nodes", "each"), [(4, 8), (3, 2), (5, 1), (1, 8)])
def test_levels_send_only_shares_between_nodes(nodes: int, each: int) -> None:
    """Of M a worker sends 2 (d - 1) / d inside and 2 (s - 1) / s of its share M / d across; with a switch M inside."""
    ranks = tuple(rank // each for rank in range(nodes * each))
    across = 2 * (nodes - 1) / nodes / each
    for name, inside in (("hierarchical", 2 * (each - 1) / each), ("nvls", float(each > 1))):
        out, _ = sums(name, ranks)
        assert [out[rank] for rank in range(len(ranks))] == pytest.approx([inside + across] * len(ranks))
    out, _ = sums("sharp", ranks)
    expected = float(each > 1) + (1 / each if nodes > 1 else 0.0)
    assert [out[rank] for rank in range(len(ranks))] == pytest.approx([expected] * len(ranks))


@settings(max_examples=examples(60))
@given(together, st.sampled_from(sorted(PLACED)))
def test_every_rank_takes_part(nodes: tuple[int, ...], name: str) -> None:
    """Each rank has to send its own part and receive the sum, however workers lie on nodes."""
    out, back = sums(name, nodes)
    assert set(out) == set(back) == set(range(len(nodes)))
    assert sorted(rank for ranks in nodes_of(nodes) for rank in ranks) == list(range(len(nodes)))


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(["ring", "all-gather", "all-to-all", "tree"]))
def test_groups_do_each_what_one_does(groups: int, each: int, name: str) -> None:
    alone, together_ = stages(name, each, 12.0), stages(f"{name}/{groups}", groups * each, 12.0)
    if groups * each == 1:
        return
    assert len(alone) == len(together_)
    for one, all_ in zip(alone, together_, strict=True):
        assert (one.bytes, one.steps, len(one.pairs) * groups) == (all_.bytes, all_.steps, len(all_.pairs))
        assert all(a // each == b // each for a, b in all_.pairs)


@pytest.mark.parametrize("name", ["ring/0", "ring/x", "nope/2", "nvls/2", "nccl/2", "parameter-server-apart/2"])
def test_groups_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"unknown|all workers at once"):
        get_collective(name)
    with pytest.raises(InputError, match="no 3 equal groups"):
        stages("ring/3", 8, 1.0)


def taken_s(name: str, size: float, servers: int = 16, each: int = 8, gpu: str = "H100") -> float:
    machine = Machine(
        gpus_per_server=each, nic_gbps=3200, intra_server_gbps=3600, gpu=gpu, latency_us=10.0, intra_latency_us=2.0
    )
    cluster = single_switch(servers, machine)
    profile = Profile("one", (Transfer("all-reduce", size, (), None, name),), servers * each)
    return play_on(cluster, profile, tuple(range(servers * each))).seconds


@pytest.mark.parametrize("size", [1e3, 1e5, 1e7, 1e9, 1e10])
def test_nccl_takes_the_fastest_for_the_size(size: float) -> None:
    """A tree has fewer steps, sums in the switch fewer bytes."""
    names = candidates("H100", tuple(rank // 8 for rank in range(128)))
    assert names == ("ring", "double-tree", "nvls")
    assert taken_s("nccl", size) == pytest.approx(min(taken_s(name, size) for name in names))


def test_the_choice_changes_with_the_size_and_the_gpu() -> None:
    assert taken_s("nccl", 1e3) == pytest.approx(taken_s("double-tree", 1e3))
    assert taken_s("nccl", 1e11) == pytest.approx(taken_s("ring", 1e11))
    assert taken_s("ring", 1e11) < taken_s("double-tree", 1e11)
    assert candidates("A100", (0, 0, 1, 1)) == ("ring", "double-tree")
    assert candidates("B200", (0,) * 8) == ("ring", "nvls")


def test_flows_one_by_one_refuse_a_choice_by_size() -> None:
    cluster = single_switch(2, Machine(gpus_per_server=2))
    with pytest.raises(InputError, match="chooses by the size"):
        open_collective("nccl", (0, 1, 2, 3), cluster)
    assert route_collective("nccl", (0, 1, 2, 3), cluster).choices


@pytest.mark.parametrize("cluster", [torus([2, 2], Machine(2)), dragonfly(2, 1, 2, Machine(2))])
def test_networks_without_a_switch_above_all_do_not_sum(cluster: Cluster) -> None:
    assert route_collective("sharp", (0, 1), cluster).legs  # inside one server
    with pytest.raises(InputError, match="sums"):
        route_collective("sharp", (0, 1, 2, 3), cluster)
    assert route_collective("nvls", (0, 1, 2, 3), cluster).legs
    assert route_collective("sharp", (0, 1, 2, 3), single_switch(2, Machine(2))).legs
