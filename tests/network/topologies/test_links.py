from collections.abc import Callable

import pytest

from tests.network.topologies.test_topologies import assert_path
from weft.errors import InputError, ScenarioError
from weft.model.cluster import Cluster
from weft.network.topologies import Cable, EcmpRouter, Machine, Via, from_cables


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
