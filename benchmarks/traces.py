"""Reading public traces: CPU seconds until all jobs are in one table.

The files are found through WEFT_TRACES, as everywhere; what is not there is left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# name of the figure: file or folder under WEFT_TRACES
FILES = {
    "elasticflow_raw": "elasticflow/raw",
    "elasticflow_sim": "elasticflow/sim",
    "helios_venus": "helios/venus_gpu_jobs.csv.gz",
    "philly": "philly/philly_jobs.csv.gz",
    "pai": "alibaba_pai_2020/pai_tasks_sample.csv.gz",
}
REPEATS = 3


def present(traces: Mapping[str, str], say: Callable[[str], None]) -> dict[str, Path]:
    """Those of the traces that are under WEFT_TRACES; says what is not."""
    store = os.environ.get("WEFT_TRACES")
    if not store:
        say("WEFT_TRACES is not set: no trace is read; let it name the folder of public traces")
        return {}
    found = {name: Path(store) / place for name, place in traces.items()}
    for name, path in found.items():
        if not path.exists():
            say(f"{traces[name]} is not in {store}: left out")
    return {name: path for name, path in found.items() if path.exists()}


def run(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Jobs of each trace and the CPU seconds that this process, all its threads together, spends on reading them.

    The least of several readings counts, since other programs on the machine can only add.
    """
    from weft.workload.traces.reading import read

    figures: dict[str, Any] = {}
    for name, path in present(dict(list(FILES.items())[: 1 if quick else None]), say).items():
        took = []
        for _ in range(1 if quick else REPEATS):
            began = time.process_time()
            trace = read(path)
            took.append(time.process_time() - began)
        figures[f"{name}_jobs"] = trace.frame.height
        figures[f"{name}_cpu_s"] = min(took)
    return figures
