"""When communication starts and how fast it runs, together: two jobs over a leaf uplink, with CASSINI's shifts or not.

Seconds of an iteration under each pace; docs/papers/flow-scheduling.md says what to make of them.
"""

from __future__ import annotations

import weft

CLUSTER = {
    "topology": "leaf-spine", "racks": 2, "servers_per_rack": 4, "nic_gbps": 25.0, "oversubscription": 4.0, "spines": 1,
}  # fmt: skip
PACES = ("fair", "tcp:ideal", "flow", "flow:slot=10ms,slots=60")


def main() -> None:
    """Every pace without and with shifts."""
    print(f"{'model':10}{'pace':26}{'none':>8}{'cassini':>9}")
    for model in ("resnet50", "vgg16"):
        jobs = [{"model": model, "gpus": 4, "iterations": 200}] * 2
        scenario = {"cluster": CLUSTER, "workload": {"source": "jobs", "job": jobs}, "stack": {"name": "fifo"}}
        for pace in PACES:
            plain, shifted = (
                weft.simulate(scenario, place="random", interleave=interleave, pace=pace, seed=1).jobs
                for interleave in ("none", "cassini")
            )
            seconds = [float((jobs["run_s"] / jobs["iterations"]).to_numpy().mean()) for jobs in (plain, shifted)]
            print(f"{model:10}{pace:26}{seconds[0]:8.3f}{seconds[1]:9.3f}")


if __name__ == "__main__":
    main()
