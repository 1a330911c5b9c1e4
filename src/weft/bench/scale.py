"""A whole `weft simulate` at scale: 10,000 jobs at load 0.9 on 1,024 GPUs, `exact = false`; seconds and memory.

FIFO with best-fit placement on 32 racks of 4 servers of 8 GPUs, 10 Gbit/s, 2:1 oversubscribed; jobs of 1 to 64 GPUs,
durations log-normal with a median of one hour.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["run", "scenario"]

# A child's ru_maxrss begins with the size of the parent that it was forked from; VmHWM, where there is one, does not.
COMMAND = """
import pathlib, re, sys, time
from weft.cli.main import run
code = run(sys.argv[1:])
status = pathlib.Path("/proc/self/status")
peak = re.search(r"VmHWM:\\s+(\\d+)", status.read_text()) if status.exists() else None
print(time.process_time(), peak.group(1) if peak else 0, file=sys.stderr)
sys.exit(code)
"""


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
        command = [sys.executable, "-c", COMMAND, "simulate", str(file), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    cpu_s, peak_kb = (float(word) for word in done.stderr.split()[-2:])
    return {
        "jobs": answer["finished"],
        "cpu_s": cpu_s,
        "wall_s": time.perf_counter() - began,
        "peak_mb": peak_kb / 1024.0 or None,
        "events": answer["events"],
        "iterations": answer["iterations"],
    }
