"""Flow scheduling at its paper's scale: 1,000 servers with 8 GPUs, 1,000 jobs at once, 10 simulated minutes.

The three-tier tree of the paper (10, 20 and 40 Gbit/s), jobs of 4 and 8 GPUs over parameter servers and rings, workers
anywhere. Also the time that one host takes to decide for one flow, as a batch of one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

TWO_SERVERS = "[parallel=parameter-server,servers=2]"


def scenario(servers: int, jobs: int, until_s: float) -> dict[str, Any]:
    """The paper's tree with jobs that last."""
    return {
        "cluster": {
            "topology": "three-tier", "racks": servers // 10, "servers_per_rack": 10, "racks_per_edge": 10,
            "gpus_per_server": 8, "nic_gbps": 10.0, "uplink_gbps": [20.0, 40.0],
        },
        "workload": {
            "source": "bursty", "jobs": jobs, "load": 20.0, "iterations": [2000, 4000], "gpus": {"4": 1, "8": 1},
            "models": [f"vgg16{TWO_SERVERS}", f"resnet50{TWO_SERVERS}", "vgg19", "gpt2"],
        },
        "stack": {"order": "fifo", "place": "random", "pace": "flow"},
        "run": {"until_s": until_s},
    }  # fmt: skip


def run(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds for the run on one core, flows decided in it, and the time of a decision."""
    import weft
    from weft.runs.prepare import compile_kernels

    compile_kernels(say)
    weft.simulate(scenario(20, 4, 5.0), seed=1)  # kernels of the pace are compiled here
    size = (200, 100, 60.0) if quick else (1000, 1000, 600.0)
    began, cpu = time.perf_counter(), time.process_time()
    result = weft.simulate(scenario(*size), seed=1)
    figures: dict[str, Any] = {
        "servers": float(size[0]),
        "jobs_started": float(result.jobs["start_s"].is_not_null().sum()),
        "simulated_s": size[2],
        "flow_decisions": float(result.events),
        "whole_s": time.perf_counter() - began,
        "cpu_s": time.process_time() - cpu,
    }
    return figures | _decisions(200 if quick else 2000)


def _decisions(n: int) -> dict[str, float]:
    """Time of one host's decisions, in milliseconds."""
    import numpy as np

    from weft_evidence.flows.lab import decision_ms

    took = decision_ms(n)
    return {"decision_ms_median": float(np.median(took)), "decision_ms_p90": float(np.percentile(took, 90))}
