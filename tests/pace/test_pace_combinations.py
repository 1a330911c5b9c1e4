"""Every pace that sets rates, under several orders and places, and with CASSINI's shifts: all jobs are finished."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.errors import StackError

PACES = ("flow", "flow:host-only", "mcs", "ccml", "pcc", "tcp:cubic", "tcp:reno", "tcp:bbr", "tcp:dctcp", "equal")
PLANS = (
    ("fifo", "first-fit"), ("srsf:preemptive", "best-fit"), ("las", "skew"), ("nw-sens", "delay"),
    ("time-slice", "affinity"), ("sjf", "titan"), ("fifo:backfill", "random"),
)  # fmt: skip
SCENE: dict[str, Any] = {
    "cluster": {"topology": "leaf-spine", "racks": 2, "servers_per_rack": 2, "gpus_per_server": 2, "nic_gbps": 10.0},
    "workload": {
        "source": "poisson", "jobs": 5, "load": 1.2, "gpus": {"2": 1, "4": 1}, "iterations": [3, 8],
        "models": ["resnet50", "vgg16[parallel=parameter-server,servers=2]"],
    },
    "stack": {"name": "fifo"},
}  # fmt: skip


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("interleave", ["none", "cassini"])
def test_under_any_order_and_place(pace: str, interleave: str) -> None:
    for order, place in PLANS:
        run = weft.simulate(SCENE, order=order, place=place, interleave=interleave, pace=pace, seed=2)
        assert run.jobs["finish_s"].null_count() == 0, (order, place)
        assert (run.links["bytes"] <= run.links["bytes_per_s"] * run.jobs["finish_s"].max() * (1 + 1e-6)).all()  # type: ignore[operator]


def test_shifts_act_on_paced_flows() -> None:
    """Plan first, pace the rest: two jobs that meet on a leaf's uplink are held to slots, their flows then paced."""
    scene = {
        **SCENE,
        "cluster": {
            "topology": "leaf-spine", "racks": 2, "servers_per_rack": 4, "nic_gbps": 25.0, "oversubscription": 4.0,
            "spines": 1,
        },
        "workload": {"source": "jobs", "job": [{"model": "resnet50", "gpus": 4, "iterations": 60}] * 2},
    }  # fmt: skip
    plain, shifted = (
        weft.simulate(scene, order="fifo", place="random", interleave=i, pace="flow", seed=1)
        for i in ("none", "cassini")
    )
    assert plain.jobs["gate_s"].to_list() == [0.0, 0.0]
    assert min(shifted.jobs["gate_s"]) > 0.0
    assert "gate" in shifted.decisions["action"].to_list()
    assert shifted.links["bytes"].sum() == pytest.approx(plain.links["bytes"].sum())
    slots = [(run.jobs["run_s"] / run.jobs["iterations"]).max() for run in (plain, shifted)]
    assert slots == pytest.approx([0.18, 0.18], abs=0.003)  # periods are those of slots, and none is missed


def test_what_cannot_be_combined_is_refused() -> None:
    with pytest.raises(StackError, match="a place that shares GPUs does not allow"):
        weft.simulate(SCENE, order="fifo", place="lwf", pace="flow")
