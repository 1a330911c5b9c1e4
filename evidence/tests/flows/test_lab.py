import pytest

from weft.network.topologies import build_cluster
from weft.sim.spec import CrossTraffic, Foreign, NetworkSpec
from weft_evidence.flows.lab import delivered_alone


def test_what_others_deliver_alone_by_hand() -> None:
    """NICs of 10 bytes/s. One flow asks for 4 bytes/s from 1 s to 3 s, and one for all it can get from 2 s on, from the
    same server. By 0.5 s they have delivered nothing, by 2 s 4 bytes, by 2.5 s 2 + 3 more, by 4 s 2 + 3 + 10 more."""
    cluster = build_cluster("single-switch", servers=3, nic_gbps=8e-8)
    names = [server.name for server in cluster.servers]
    network = NetworkSpec(foreign=(Foreign(names[0], names[1], 1.0, 3.0, 4.0), Foreign(names[0], names[2], 2.0)))
    assert delivered_alone(cluster, network, 0, [0.5, 2.0, 2.5, 4.0]) == pytest.approx([0.0, 4.0, 9.0, 24.0])
    lossy = NetworkSpec(packet_loss=0.5, foreign=(Foreign(names[0], names[1], 0.0, 10.0, 1e-9),))
    assert delivered_alone(cluster, lossy, 0, [2.0, 4.0]) == pytest.approx([1e-9, 2e-9])  # half of it arrives


def test_what_others_deliver_alone_does_not_depend_on_when_it_is_asked_for() -> None:
    """Drawn traffic, at three moments at once and one at a time."""
    cluster = build_cluster("single-switch", servers=4, nic_gbps=8e-8)
    network = NetworkSpec(cross_traffic=CrossTraffic(every_s=3.0, shortest_s=1.0, longest_s=3.0))
    moments = [2.0, 7.5, 20.0]
    together = delivered_alone(cluster, network, 5, moments)
    assert together == pytest.approx([delivered_alone(cluster, network, 5, [moment])[0] for moment in moments])
    assert 0.0 < together[0] < together[1] < together[2]
