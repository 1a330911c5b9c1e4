"""The Dally experiment: 500 jobs at once on 16 racks (1,024 GPUs), network costs by Table I.

The authors' jobs where WEFT_TRACES has them, else as many drawn from their published figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

STACKS = ("dally", "dally-manual", "dally-nowait", "dally-consolidated", "tiresias", "gandiva:14400")


def run(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """CPU seconds of one run, for each stack, from reading the jobs to the result; quick: 2,000 s of one stack."""
    import weft
    from weft.runs.prepare import compile_kernels
    from weft_evidence.dally.runs import scenario

    compile_kernels(say)
    figures: dict[str, Any] = {}
    given = scenario("batch-16", 0)
    if quick:
        given["run"] = {**given.get("run", {}), "until_s": 2000.0}
    for stack in STACKS[: 1 if quick else None]:
        began = time.process_time()
        result = weft.simulate(given, stack=stack, seed=0)
        name = stack.partition(":")[0].replace("-", "_")
        figures[f"{name}_cpu_s"] = time.process_time() - began
        figures[f"{name}_starts"] = result.spans.height
        figures[f"{name}_jobs"] = result.jobs.height
    return figures
