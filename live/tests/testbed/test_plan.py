import pytest

from weft.errors import InputError
from weft.network.topologies import Cable, Machine, from_cables, leaf_spine
from weft_live.testbed.plan import Blueprint, blueprint


def _path(plan: Blueprint, src: str, mac: str) -> list[str]:
    at, seen = src, [src]
    while (at, mac) in plan.forwarding:
        at = plan.forwarding[at, mac]
        seen.append(at)
        assert len(seen) < 10, "a loop"
    return seen


def test_rates_are_divided_by_one_factor_and_every_host_is_reached() -> None:
    cluster = leaf_spine(3, 2, Machine(nic_gbps=50.0), oversubscription=2.0, spines=2)
    plan = blueprint(cluster, 125.0)
    assert len(plan.hosts) == 6
    assert set(plan.switches) == {"leaf0", "leaf1", "leaf2", "spine0", "spine1"}
    by_ends = {(link.src, link.dst): link.bytes_per_s for link in cluster.topology.links}
    for cable in plan.cables:
        assert cable.a_to_b_bytes_per_s * 125.0 == pytest.approx(by_ends[cable.a, cable.b])
        assert cable.b_to_a_bytes_per_s * 125.0 == pytest.approx(by_ends[cable.b, cable.a])
    for src in plan.hosts:
        for dst in plan.hosts:
            if src != dst:
                assert _path(plan, src.name, dst.mac)[-1] == dst.name
    assert "divided by 125" in plan.words
    assert "50 Gbit/s is 400 Mbit/s" in plan.words


def test_a_factor_that_two_cores_cannot_carry_is_refused_with_one_that_they_can() -> None:
    cluster = leaf_spine(2, 2, Machine(nic_gbps=50.0))
    with pytest.raises(InputError, match=r"--scale 63 or more"):
        blueprint(cluster, 10.0)
    assert blueprint(cluster).scale == pytest.approx(125.0)


def test_a_server_with_cables_to_two_switches_is_refused() -> None:
    ends = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    rails = from_cables([Cable(a, b, 25.0) for a, b in ends], servers=["a", "b"])
    with pytest.raises(InputError, match="server a has cables to x and y; here a server has one interface"):
        blueprint(rails)
