"""Levels, NICs, NVLink domains and unequal servers, as the nouns have them."""

import numpy as np
import pytest

from weft.errors import ScenarioError
from weft.model.cluster import Cluster
from weft.network.topologies import Machine, build_cluster, fat_tree, leaf_spine, rails, three_tier

NVL = Machine(4, nic_gbps=400, gpu="H100", nics_per_server=4, nvlink_domain=3, nvlink_gbps=7200)


@pytest.fixture(scope="module")
def trays() -> Cluster:
    """Two rail groups of six trays, each of two NVLink domains of three."""
    return rails(2, 6, NVL)


def test_a_server_with_one_nic_has_its_number() -> None:
    for cluster in (leaf_spine(3, 2, Machine(4)), three_tier(4, 2), fat_tree(4)):
        assert cluster.plain
        assert cluster.n_nics == len(cluster.servers)
        assert cluster.nic_of_gpu.tolist() == cluster.server_of_gpu.tolist()
        assert [level.name for level in cluster.levels] == ["server", "rack", "cluster"]
        assert cluster.levels[1].of_server.tolist() == cluster.rack_of_server.tolist()
        assert cluster.levels[1].gpus.tolist() == cluster.gpus_per_rack.tolist()


def test_gpus_share_nics_evenly_and_in_order() -> None:
    cluster = leaf_spine(1, 2, Machine(8, nics_per_server=4))
    assert cluster.nic_of_gpu.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    assert cluster.rail_of_nic.tolist() == [0, 1, 2, 3] * 2
    with pytest.raises(ScenarioError, match="nics_per_server"):
        Machine(2, nics_per_server=3)


def test_the_closest_level_that_holds_so_many_gpus(trays: Cluster) -> None:
    assert [level.name for level in trays.levels] == ["server", "NVLink domain", "rail group", "cluster"]
    names = [trays.closest(gpus).name for gpus in (1, 4, 5, 12, 13, 24, 25, 48, 49)]
    assert names == [
        "server", "server", "NVLink domain", "NVLink domain", "rail group", "rail group", "cluster", "cluster",
        "cluster",
    ]  # fmt: skip
    assert trays.node_of_server.tolist() == [0, 0, 0, 3, 3, 3, 6, 6, 6, 9, 9, 9]
    assert trays.rack_of_server.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_routes_go_from_nic_to_nic_over_rails(trays: Cluster) -> None:
    links = trays.topology.links
    nic = trays.nics_of_server

    def path(src: int, dst: int) -> list[str]:
        return [links[k].src for k in trays.topology.route(src, dst)] + [links[trays.topology.route(src, dst)[-1]].dst]

    assert path(nic[0][2], nic[5][2]) == ["s0", "rail0.2", "s5"]
    assert [node.split(".")[0].rstrip("0123456789") for node in path(nic[0][2], nic[6][2])] == [
        "s", "rail", "spine", "rail", "s",
    ]  # fmt: skip
    assert path(nic[0][2], nic[6][2])[1:4:2] == ["rail0.2", "rail1.2"]
    assert path(nic[0][1], nic[1][3])[1:4:2] == ["rail0.1", "rail0.3"]


def test_every_gpu_of_a_domain_has_nvlinks_of_its_own(trays: Cluster) -> None:
    links = trays.topology.links
    ends = [(links[up].src, links[up].dst, links[down].src, links[down].dst) for up, down in trays.nvlinks]
    assert len({*trays.nvlinks}) == trays.n_gpus == len(ends)
    for gpu, (server, domain, again, back) in enumerate(ends):
        where = trays.servers[int(trays.server_of_gpu[gpu])]
        assert (server, back) == (where.name, where.name)
        assert domain == again == f"nvlink{where.nvlink}"
    assert {links[up].bytes_per_s for up, _ in trays.nvlinks} == {900e9}


def test_copies_share_nothing(trays: Cluster) -> None:
    twice = trays.copied(2)
    half = len(trays.topology.links)
    assert twice.n_nics == 2 * trays.n_nics
    assert twice.node_of_server.tolist() == [*trays.node_of_server, *(trays.node_of_server + 12)]
    a, b = twice.topology.route(3, 9), twice.topology.route(3 + trays.n_nics, 9 + trays.n_nics)
    assert tuple(link + half for link in a) == b
    assert twice.nvlinks[trays.n_gpus][0] == trays.nvlinks[0][0] + half


def test_groups_of_unequal_servers() -> None:
    group = [{"preset": "dgx-h100", "count": 3}, {"gpu": "A100", "gpu_memory_gb": 40, "nics_per_server": 1, "count": 2}]
    cluster = build_cluster("leaf-spine", servers_per_rack=2, gpus_per_server=4, nic_gbps=100, group=group)
    assert [len(s.gpus) for s in cluster.servers] == [8, 8, 8, 4, 4]
    assert cluster.rack_of_server.tolist() == [0, 0, 1, 1, 2]
    assert cluster.gpu_types == ("H100", "A100")
    assert [len(nics) for nics in cluster.nics_of_server] == [8, 8, 8, 1, 1]
    assert cluster.memory_of_gpu.tolist() == [80e9] * 24 + [40e9] * 8
    assert cluster.intra_of_server == (450e9, 450e9, 450e9, np.inf, np.inf)
    assert cluster.of_type("A100").gpus_per_server.tolist() == [0, 0, 0, 4, 4]
    assert cluster.of_type("A100").closest(5).name == "cluster"
