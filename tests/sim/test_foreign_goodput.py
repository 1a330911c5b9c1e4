import pytest

import weft


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
