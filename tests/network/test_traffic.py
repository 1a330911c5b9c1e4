import pytest

from weft.model.profile import Phase, Profile
from weft.network.estimates import Estimates
from weft.network.iteration import play_on
from weft.network.topologies import cassini

GBPS = 1e9 / 8


def test_links_that_carry_the_same_have_the_same_arcs() -> None:
    """A ring of four over two racks: each edge carries 2 (n - 1) / n of the message, at the NIC's 50 Gbit/s."""
    cluster = cassini()
    profile = Profile.from_phases("p", [Phase(0.1), Phase(bytes=1e9)], 4)
    gpus = (0, 1, 4, 5)
    found = Estimates(cluster).traffic(profile, gpus)
    sent_s = 1.5 * 1e9 / (50 * GBPS)
    assert (found.task, found.offset_s) == (1, pytest.approx(0.1))
    assert found.iteration_s == pytest.approx(0.1 + sent_s)
    assert play_on(cluster, profile, gpus, compute_factor=2.0).seconds == pytest.approx(0.2 + sent_s)
    nics = [link for link in cluster.topology.links if link.src in {cluster.servers[g].name for g in gpus}]
    assert len(nics) == 4
    for link in nics:
        ((start, length, rate),) = found.links[link.id]
        assert (start, length, rate) == pytest.approx((0.0, sent_s, 50 * GBPS))
    assert len({id(arcs) for arcs in found.links.values()}) == 1  # one kind of link: one flow of a 50 Gbit/s ring


def test_a_link_with_two_flows_of_a_job_is_of_another_kind() -> None:
    """Halving-doubling of four: in the exchange across racks both pairs may share an uplink; its arcs say so."""
    cluster = cassini()
    profile = Profile.from_phases("p", [Phase(0.1), Phase(bytes=1e9)], 4)
    found = Estimates(cluster, collective="halving-doubling").traffic(profile, (0, 1, 4, 5))
    total = {link: sum(length * rate for _, length, rate in arcs) for link, arcs in found.links.items()}
    nics = [total[link.id] for link in cluster.topology.links if link.src == cluster.servers[0].name]
    assert nics == [pytest.approx(1.5e9)]
    assert max(total.values()) <= 3e9 * (1 + 1e-9)
    assert all(rate <= 50 * GBPS * (1 + 1e-9) for arcs in found.links.values() for _, _, rate in arcs)
