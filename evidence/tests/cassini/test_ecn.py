"""ECN estimate: the model's own equations, and that overlap is what marks."""

from typing import Any

import pytest

import weft
from weft.scenario import Scenario
from weft.scenario.build import build_cluster, build_workload
from weft_evidence.cassini.ecn import Ecn, ecn_marks, marked_share


def test_share_by_hand() -> None:
    """90 Gbit/s offered to 50 for 50 us: 250 kB = 3,125 cells of 80 bytes, all marked; 62 Gbit/s: 937 cells, none."""
    gbps = 1e9 / 8
    assert marked_share(90 * gbps, 50 * gbps, Ecn()) == 1.0
    assert marked_share(62 * gbps, 50 * gbps, Ecn()) == 0.0
    assert marked_share((50 + 19.2) * gbps, 50 * gbps, Ecn()) == pytest.approx(0.5)


def marks(stack: str) -> dict[str, float]:
    scenario: dict[str, Any] = {
        "cluster": {
            "topology": "leaf-spine", "racks": 2, "servers_per_rack": 4, "nic_gbps": 50, "spines": 1,
            "oversubscription": 4, "gpu": "A100", "gpu_memory_gb": 40,
        },
        "workload": {
            "source": "jobs",
            "job": [{"id": f"j{i}", "model": "vgg16@cassini", "gpus": 4, "iterations": 100} for i in range(2)],
        },
    }  # fmt: skip
    run = weft.simulate(scenario, stack=stack, seed=1, record=True)
    given = Scenario.load(scenario)
    cluster = build_cluster(given, 1)
    return ecn_marks(run, cluster, build_workload(given, cluster, 1).jobs)


def test_interleaved_jobs_are_not_marked() -> None:
    """Together: all packets, 114 ms at 45 Gbit/s in packets of 1,024 bytes. Apart: none but at first."""
    together, apart = marks("fifo[place=random]"), marks("fifo+cassini[place=random]")
    for job in ("j0", "j1"):
        assert together[job] == pytest.approx(0.114 * 45e9 / 8 / 1024, rel=0.05)
        assert apart[job] < 0.05 * together[job]
