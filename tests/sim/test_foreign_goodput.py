"""What foreign traffic delivers, beside jobs and where none sends."""

from __future__ import annotations

import pytest

import weft
from weft.network.topologies import build_cluster
from weft.sim.foreign import delivered_alone
from weft.sim.spec import CrossTraffic, Foreign, NetworkSpec


def test_what_others_deliver_alone_by_hand() -> None:
    """NICs of 10 bytes/s. One flow asks for 4 bytes/s from 1 s to 3 s, and one for all it can get from 2 s on, from the
    same server. By 0.5 s they have delivered nothing, by 2 s 4 bytes, by 2.5 s 2 + 3 more, by 4 s 2 + 3 + 10 more."""
    cluster = build_cluster("single-switch", servers=3, nic_gbps=8e-8)
    names = [server.name for server in cluster.servers]
    network = NetworkSpec(
        foreign=(Foreign(names[0], names[1], 1.0, 3.0, 4.0), Foreign(names[0], names[2], 2.0)),
    )
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


def test_the_goodput_of_others_by_hand() -> None:
    """A job that sends nothing, beside a flow that asks for 4 Gbit/s from 0.25 s on and one for 2 Gbit/s that
    ends after half a second."""
    run = weft.simulate(
        {
            "cluster": {"topology": "single-switch", "servers": 3, "gpus_per_server": 1, "nic_gbps": 10},
            "workload": {"source": "jobs", "job": [{"model": "vgg16@ada-srsf", "gpus": 1, "iterations": 10}]},
            "network": {
                "foreign": [
                    {"src": "s0", "dst": "s1", "start_s": 0.25, "gbps": 4},
                    {"src": "s2", "dst": "s1", "end_s": 0.5, "gbps": 2},
                ]
            },
            "stack": {"order": "fifo", "place": "first-fit", "pace": "equal"},
        }
    )
    lasts = float(run.jobs["jct_s"][0])
    assert run.foreign_bytes_per_s == pytest.approx((4e9 * (lasts - 0.25) + 2e9 * 0.5) / 8 / lasts)
    alone = weft.simulate(SMALL)
    assert alone.foreign_bytes_per_s is None


SMALL = {
    "cluster": {"topology": "single-switch", "servers": 2, "gpus_per_server": 2, "nic_gbps": 10},
    "workload": {
        "source": "jobs",
        "job": [
            {
                "model": "vgg16@ada-srsf[parallel=parameter-server,servers=1,apart=true]",
                "gpus": 2,
                "iterations": 3,
            }
        ],
    },
    "stack": {"order": "fifo", "place": "first-fit", "pace": "equal"},
}


def test_workers_on_one_machine_send_to_servers_on_another() -> None:
    """Both workers on s0: each pushes 526.4 MB over its NIC of 1.25 GB/s, and the broadcasts keep step with them."""
    run = weft.simulate(SMALL)
    message, compute_s = 526.4e6, 0.0358 + 0.0537
    iteration_s = compute_s + 2 * message / 1.25e9
    assert run.jobs["servers"][0] == 1
    assert run.jobs["run_s"][0] == pytest.approx(3 * iteration_s, rel=1e-6)
