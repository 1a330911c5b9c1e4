"""A whole `weft simulate` at scale: 10,000 jobs at load 0.9 on 1,024 GPUs, `exact = false`; seconds and memory.

FIFO with best-fit placement on 32 racks of 4 servers of 8 GPUs, 10 Gbit/s, 2:1 oversubscribed; jobs of 1 to 64 GPUs,
durations log-normal with a median of one hour.

The large size (`python -m benchmarks scale --large`) is srsf at load 0.8 and 4:1, with ten jobs per GPU, on 25,600 and
on 102,400 GPUs. It also says how much more four times the work costs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_GPUS_PER_RACK = 32
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


def scenario(jobs: int, gpus: int = 1024, load: float = 0.9, oversubscription: float = 2.0, stack: str = "fifo") -> str:
    """The scenario, as a file."""
    return f"""\
[cluster]
topology = "leaf-spine"
racks = {gpus // _GPUS_PER_RACK}
servers_per_rack = 4
gpus_per_server = 8
gpu = "V100"
gpu_memory_gb = 16
nic_gbps = 10
oversubscription = {oversubscription}
intra_server_gbps = 300
[workload]
source = "poisson"
jobs = {jobs}
load = {load}
models = ["vgg16", "resnet50", "inception-v3", "lstm-ptb"]
gpus = {{1 = 0.5, 2 = 0.1, 4 = 0.2, 8 = 0.17, 16 = 0.01, 32 = 0.01, 64 = 0.01}}
duration_median_s = 3600
[stack]
name = "{stack}"
[network]
sharing = "max-min"
[run]
seed = 1
exact = false
restart_s = 30
"""


def run(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """One run in a process of its own, kernels compiled."""
    return _measured(scenario(200 if quick else 10_000), say)


def large(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Two runs, the second with four times the GPUs and jobs of the first."""
    few, per_gpu = (64, 2) if quick else (25_600, 10)
    found: dict[str, Any] = {}
    for gpus in (few, 4 * few):
        say(f"{gpus:,} GPUs, {per_gpu * gpus:,} jobs ...")
        figures = _measured(scenario(per_gpu * gpus, gpus, 0.8, 4.0, "srsf"), say)
        found |= {f"{gpus}_gpus_{name}": value for name, value in figures.items()}
    found["cost_of_four_times_the_work"] = found[f"{4 * few}_gpus_cpu_s"] / found[f"{few}_gpus_cpu_s"]
    return found


def _measured(text: str, say: Callable[[str], None]) -> dict[str, Any]:
    from weft.runs.prepare import compile_kernels

    compile_kernels(say)
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        file = Path(folder) / "scale.toml"
        file.write_text(text, encoding="utf-8")
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
