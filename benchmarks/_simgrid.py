"""SimGrid beside the engine: an outside oracle of max-min sharing, and the speed to compare with."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

PYTHON = "/usr/bin/python3"  # Debian's python3-simgrid serves the system's own interpreter only


def find() -> str | None:
    """An interpreter that can import SimGrid, if there is one."""
    if not os.path.exists(PYTHON):
        return None
    asked = subprocess.run([PYTHON, "-c", "import simgrid"], capture_output=True, check=False)
    return PYTHON if asked.returncode == 0 else None


def run(python: str, case: dict[str, Any]) -> tuple[list[float], float]:
    """When each job of a case (see _simgrid_twin.py) ends, and the CPU seconds of the simulation itself."""
    script = Path(__file__).with_name("_simgrid_twin.py")
    done = subprocess.run([python, str(script)], input=json.dumps(case), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"SimGrid failed: {done.stderr.strip()}")
    answer = json.loads(done.stdout)
    return answer["ends"], answer["cpu_s"]
