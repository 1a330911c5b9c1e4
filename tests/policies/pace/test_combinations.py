from functools import cache
from typing import Any

import pytest

import weft
from testkit.draws import share
from weft.errors import StackError
from weft.results.run import RunResult

PACES = (
    "flow", "flow:host-only", "flow:quantised", "flow:fill", "flow:pauses,leaves=40%", "mcs",
    "ccml", "crux", "mltcp", "pcc", "pcc:vivace", "priority", "shortest", "tcp:cubic", "tcp:bbr", "tcp:dctcp",
    "tcp:ideal-reno", "equal",
)  # fmt: skip
PLANS = (
    ("fifo", "first-fit"), ("srsf:preemptive", "best-fit"), ("las", "skew"), ("nw-sens", "delay"),
    ("time-slice", "affinity"), ("sjf", "titan"), ("fifo:backfill", "random"),
)  # fmt: skip
SHARED = (
    ("srsf", "lwf"), ("fifo", "rand"), ("las", "ls"), ("srsf:preemptive", "ff"), ("time-slice", "packing"),
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
    """Places that give a GPU to one job at a time with and without shifts, those on which jobs share GPUs without. Each
    pace has every third, and the next pace the next ones; WEFT_THOROUGH=1 asks for all."""
    plans = PLANS if interleave != "none" else (*PLANS, *SHARED)
    first, step = (PACES.index(pace) % 3, 3) if share() < 1 else (0, 1)
    for order, place in plans[first::step]:
        _finishes(order=order, place=place, interleave=interleave, pace=pace)


@pytest.mark.parametrize("pace", PACES)
def test_with_jitter_and_stragglers(pace: str) -> None:
    """Chance slows the same iterations of the same workers under every pace: GPU seconds are the same for all."""
    for place in ("first-fit", "lwf"):
        assert _gpu_s(place, pace) == pytest.approx(_gpu_s(place, "fair"), rel=1e-12)


@cache
def _gpu_s(place: str, pace: str) -> list[float]:
    scene = {**SCENE, "run": {"jitter": 0.1, "stragglers": 0.05, "straggler_factor": 3.0}}
    found: list[float] = _finishes(scene, order="srsf", place=place, pace=pace).jobs["gpu_s"].to_list()
    return found


def _finishes(scene: dict[str, Any] = SCENE, **layers: str) -> RunResult:
    """A run in which all jobs finish and no link carries more than it can."""
    run = weft.simulate(scene, **layers, seed=2)
    assert run.jobs["finish_s"].null_count() == 0, layers
    assert (run.links["bytes"] <= run.links["bytes_per_s"] * run.jobs["finish_s"].max() * (1 + 1e-6)).all()  # type: ignore[operator]
    return run


def test_shifts_act_on_paced_flows() -> None:
    """Plan first, pace the rest: two jobs that meet on a leaf's uplink are shifted, their flows then paced."""
    scene = {
        **SCENE,
        "cluster": {
            "topology": "leaf-spine", "racks": 2, "servers_per_rack": 4, "nic_gbps": 25.0, "oversubscription": 4.0,
            "spines": 1,
        },
        "workload": {"source": "jobs", "job": [{"model": "resnet50", "gpus": 4, "iterations": 60}] * 2},
    }  # fmt: skip
    plain, shifted, fair = (
        weft.simulate(scene, order="fifo", place="random", interleave=i, pace=pace, seed=1)
        for i, pace in (("none", "flow"), ("cassini", "flow"), ("none", "fair"))
    )
    one = {**scene, "workload": {"source": "jobs", "job": [{"model": "resnet50", "gpus": 4, "iterations": 60}]}}
    alone = weft.simulate(one, order="fifo", place="random", pace="flow", seed=1)
    assert plain.jobs["gate_s"].to_list() == [0.0, 0.0]
    assert max(shifted.jobs["gate_s"]) > 0.05  # half a period, once
    assert "gate" in shifted.decisions["action"].to_list()
    assert shifted.links["bytes"].sum() == pytest.approx(plain.links["bytes"].sum())
    slowest = [(run.jobs["run_s"] / run.jobs["iterations"]).max() for run in (plain, shifted, fair, alone)]
    # shifted apart, or paced apart, both are as fast as alone but for one wait at the start; shared fairly they are not
    for mean_s, at_least, at_most in zip(slowest[:3], (1.0, 1.0, 1.4), (1.01, 1.01, 2.0), strict=True):
        assert at_least * (1 - 1e-6) <= mean_s / slowest[3] <= at_most  # type: ignore[operator]


def test_what_cannot_be_combined_is_refused() -> None:
    with pytest.raises(StackError, match="cassini assumes that a GPU has one job, and fifo/lwf:1 shares GPUs"):
        weft.simulate(SCENE, order="fifo", place="lwf", interleave="cassini", pace="flow")
