"""The Ada-SRSF experiment: 160 jobs on 64 shared GPUs, 1,000-6,000 iterations each, k-way contention.

Every worker queues for its GPU and every transfer for admission, so little repeats and nearly all is simulated event
by event. The authors' own simulator takes 20 to 44 s for one hundredth of these iterations.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

AUTHORS_S = (20.0, 44.0)  # seconds of the authors' simulator for one hundredth of the iterations, least and most
STACKS = {
    "ada-srsf": "ada-srsf",
    "srsf-1": "srsf-1",
    "srsf-2": "srsf-2",
    "ada-srsf-rand": "ada-srsf[place=random:shared]",
}


def run(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Wall seconds of one run on one core, for each stack; iterations and worker tasks per second of the first.

    It also shows what the authors' simulator took for one hundredth of the iterations.
    """
    import weft
    from weft.runs.prepare import compile_kernels
    from weft.scenario.shipped import scenario_path

    compile_kernels(say)
    figures: dict[str, Any] = {}
    for name, stack in list(STACKS.items())[: 1 if quick else None]:
        began = time.perf_counter()
        result = weft.simulate(scenario_path("ada-srsf-16gb"), stack=stack, seed=1)
        whole_s = time.perf_counter() - began
        if not figures:
            iterations = float(result.iterations["count"].sum())
            tasks = float((result.jobs["iterations"] * result.jobs["gpus"] * 2).sum())
            figures = {
                "iterations": iterations,
                "worker_tasks": tasks,
                "events": result.events,
                "iterations_per_s": iterations / whole_s,
                "worker_tasks_per_s": tasks / whole_s,
            }
        figures[f"{name}_s"] = whole_s
    figures["authors_hundredth_least_s"], figures["authors_hundredth_most_s"] = AUTHORS_S
    return figures
