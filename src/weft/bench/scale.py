"""A whole `weft simulate` at scale: 10,000 jobs at load 0.9 on 1,024 GPUs, `exact = false`; seconds and memory.

FIFO with best-fit placement on 32 racks of 4 servers of 8 GPUs, 10 Gbit/s, 2:1 oversubscribed; jobs of 1 to 64 GPUs,
durations log-normal with a median of one hour.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["run", "scenario"]


def scenario(jobs: int) -> str:
    """The scenario, as a file."""
    return f"""\
[cluster]
topology = "leaf-spine"
racks = 32
servers_per_rack = 4
gpus_per_server = 8
gpu = "V100"
gpu_memory_gb = 16
nic_gbps = 10
oversubscription = 2.0
intra_server_gbps = 300
[workload]
source = "poisson"
jobs = {jobs}
load = 0.9
models = ["vgg16", "resnet50", "inception-v3", "lstm-ptb"]
gpus = {{1 = 0.5, 2 = 0.1, 4 = 0.2, 8 = 0.17, 16 = 0.01, 32 = 0.01, 64 = 0.01}}
duration_median_s = 3600
[stack]
name = "fifo"
[network]
sharing = "max-min"
[run]
seed = 1
exact = false
restart_s = 30
"""


def run(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """One run in a process of its own, kernels compiled."""
    from weft.api import compile_kernels

    compile_kernels(say)
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        file = Path(folder) / "scale.toml"
        file.write_text(scenario(200 if quick else 10_000), encoding="utf-8")
        began = time.perf_counter()
        command = [sys.executable, "-m", "weft", "simulate", str(file), "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        with process.stdout as out:
            answer = json.loads(out.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "jobs": answer["finished"],
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "wall_s": time.perf_counter() - began,
        "peak_mb": usage.ru_maxrss / 1024.0,  # Linux counts kB
        "events": answer["events"],
        "iterations": answer["iterations"],
    }
