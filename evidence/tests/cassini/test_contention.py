from typing import Any

import pytest

from weft_evidence.cassini.contention import contention

PAIR: dict[str, Any] = {
    "cluster": {
        "topology": "leaf-spine", "racks": 2, "servers_per_rack": 6, "nic_gbps": 50, "spines": 1,
        "oversubscription": 6, "gpu": "A100", "gpu_memory_gb": 40,
    },
    "workload": {
        "source": "jobs",
        "job": [{"id": f"j{i}", "model": "vgg16@cassini", "gpus": 4, "iterations": 200} for i in range(2)],
    },
}  # fmt: skip


def test_a_pair_on_one_uplink() -> None:
    """255 ms, 114 of them at 45 of 50 Gbit/s. In step each has 25: 114 x 45 / 25 = 205, so 346 of 255 ms; shifted, 1.

    By chance they overlap for 114^2 / 255^2 of the time, at 40 of 50 too much.
    """
    plain, shifted = contention(PAIR, ["fifo[place=random]", "fifo+cassini[place=random]"], 1)
    assert plain["alone_mean"] == pytest.approx((141 + 114 * 45 / 25) / 255, rel=0.01)
    assert shifted["alone_mean"] == pytest.approx(1.0, abs=0.005)
    for row in (plain, shifted):
        assert row["meets"] == pytest.approx(1.0, abs=0.01)  # one ends before the other
        assert row["workers"] == pytest.approx(4.0)
        assert row["score_best"] == pytest.approx(1.0)
        assert row["score_free"] == pytest.approx(1.0 - (114 / 255) ** 2 * 0.8, rel=1e-3)
