from typing import Any

import pytest

import weft
from weft.errors import ScenarioError, StackError

SCENE: dict[str, Any] = {
    "cluster": {"topology": "single-switch", "servers": 3, "nic_gbps": 25.0, "gpu_memory_gb": 32.0},
    "workload": {
        "source": "jobs", "job": [{"model": "vgg16[parallel=parameter-server]", "gpus": 3, "iterations": 12}],
    },
    "stack": {"order": "fifo", "place": "first-fit"},
}  # fmt: skip


def speed(pace: str, **network: Any) -> float:
    run = weft.simulate({**SCENE, "network": network}, pace=pace)
    return 1.0 / float(run.iterations["duration_s"].mean())  # type: ignore[arg-type]


def test_loss_ruins_reno_and_cubic_only() -> None:
    """Figure 10: at 0.2 % CUBIC and Reno train VGG16 62 % slower; the scheduler loses what is sent again, no more."""
    for pace in ("tcp:cubic", "tcp:reno"):
        assert speed(pace, packet_loss=0.002) < 0.5 * speed(pace), pace
    for pace in ("flow", "tcp:bbr"):
        assert speed(pace, packet_loss=0.002) > 0.95 * speed(pace), pace
        assert speed(pace, packet_loss=0.01) > 0.9 * speed(pace), pace
    assert speed("flow", packet_loss=0.01) > 2.0 * speed("tcp:cubic", packet_loss=0.01)


def test_scenarios_with_others() -> None:
    """A flow that shares a NIC slows down who reacts; one that never comes changes nothing; what is lost is sent again
    under `fair` too."""
    for pace in ("tcp", "fair", "equal"):
        clean = speed(pace)
        assert speed(pace, foreign=[{"src": "s0", "dst": "s1"}]) < 0.95 * clean
        assert speed(pace, cross_traffic={}) < clean
        assert speed(pace, foreign=[{"src": "s0", "dst": "s1", "start_s": 1e6}]) == pytest.approx(clean, rel=1e-9)
    assert speed("flow", foreign=[{"src": "s0", "dst": "s1"}]) == pytest.approx(speed("flow"), rel=1e-3)
    assert speed("fair", packet_loss=0.01) < speed("fair")


def test_loss_by_arithmetic() -> None:
    """`fair` knows no congestion control: 1 % more is sent, so 1 / 0.99 of the bytes are on the links, and the time
    that is spent on sending grows by as much."""
    runs = {p: weft.simulate({**SCENE, "network": {"packet_loss": p}}, pace="fair") for p in (0.0, 0.01)}
    assert runs[0.01].links["bytes"].sum() == pytest.approx(runs[0.0].links["bytes"].sum() / 0.99)
    assert runs[0.01].jobs["comm_s"].sum() >= runs[0.0].jobs["comm_s"].sum() / 0.99 * (1 - 1e-9)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"packet_loss": 1.0}, "network.packet_loss is 1.0; give less than 1"),
        ({"foreign": [{"src": "s0"}]}, r"network.foreign\[0\].dst is missing; add it"),
        ({"foreign": [{"src": "s0", "dst": "s0"}]}, r"network.foreign\[0\].dst is \"s0\", where the flow comes from"),
        ({"foreign": [{"src": "s0", "dst": "s11"}]}, r"dst is \"s11\", which is no server; did you mean s1"),
        ({"foreign": [{"src": "s0", "dst": "s1", "start_s": 2, "end_s": 1}]}, r"foreign\[0\].end_s is 1, not after"),
        ({"cross_traffic": {"seconds": [2.0, 3.0]}}, r"network.cross_traffic.seconds is \[2, 3\]; give two numbers"),
        ({"cross_traffic": {}, "sharing": "k-way"}, "network.cross_traffic has a meaning only with cost"),
        ({"collective": "tree", "sharing": "k-way"}, "network.collective changes nothing with sharing \"k-way\""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(network: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as caught:
        weft.simulate({**SCENE, "network": network}, pace="flow")
    assert "\n" not in str(caught.value)


def test_a_network_without_links_has_no_foreign_traffic() -> None:
    """`ideal` has links, but nobody shares them: refused in words."""
    with pytest.raises((ScenarioError, StackError), match="foreign"):
        weft.simulate({**SCENE, "network": {"sharing": "ideal", "foreign": [{"src": "s0", "dst": "s1"}]}}, pace="fair")


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
            {"model": "vgg16@ada-srsf[parallel=parameter-server,servers=1,apart=true]", "gpus": 2, "iterations": 3}
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
