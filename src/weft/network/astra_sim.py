"""AstraSim: an installed ASTRA-sim 1.0 (analytical network), run as a program on files made for each placement."""

from __future__ import annotations

import csv
import math
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from weft.errors import InputError
from weft.model.profile import Profile
from weft.network.astra_files import layer_text, network_text, system_text
from weft.network.cost import CostModel
from weft.network.hierarchy import Hierarchy
from weft.network.shape import Shape, units
from weft.workload.layer_files import CYCLE_S

__all__ = ["AstraSim"]

_TIMEOUT_S = 600
_COMPUTE, _EXPOSED = ("total comp", 12), ("total exposed comm", 13)  # column of EndToEnd.csv, by name or else by place


class AstraSim(CostModel):
    """Runs the program once for each profile and shape and takes the exposed communication from its EndToEnd.csv."""

    name = "astra-sim"

    def __init__(self, program: str | Path, hierarchy: Hierarchy, scale: Mapping[str, float] | None = None) -> None:
        self.program = Path(program)
        self.hierarchy = hierarchy
        self.scale = scale or {}
        if not self.program.is_file():
            raise InputError(f"network.program: {program} is no file; give the path of ASTRA-sim's AnalyticalAstra")

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """As the program says, as a share of the compute time it saw."""
        if profile.workers == 1 or profile.message_bytes <= 0:
            return 0.0
        with tempfile.TemporaryDirectory(prefix="weft-astra-") as folder:
            command = self.write(Path(folder), profile, model, shape)
            self._run(command)
            compute_s, exposed_s = _read(Path(folder) / "EndToEnd.csv")
        return exposed_s * (profile.compute_s / compute_s if compute_s > 0 else 1.0)

    def write(self, folder: Path, profile: Profile, model: str, shape: Shape) -> list[str]:
        """Write workload, system and network files; returns the command that runs them."""
        over = units(shape)
        files = {
            "network.json": network_text(self.hierarchy, over),
            "system.txt": system_text(self.hierarchy, over),
            "workload.txt": layer_text(profile, self.scale.get(model, 1.0)),
        }
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        return [
            str(self.program), f"--network-configuration={folder}/network.json",
            f"--system-configuration={folder}/system.txt", f"--workload-configuration={folder}/workload.txt",
            f"--path={folder}/", "--run-name=weft", "--num-passes=1", "--total-stat-rows=1", "--stat-row=0",
        ]  # fmt: skip

    def _run(self, command: list[str]) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{self.program}: it could not be run ({error}); give an ASTRA-sim 1.0 program") from error
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
            raise InputError(f"{self.program}: exit code {done.returncode} ({last[0]}); run it by hand on such files")


def _read(path: Path) -> tuple[float, float]:
    """Seconds of computing and of exposed communication, from the first row (times there are cycles of 1 ns)."""
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        head = [cell.strip() for cell in rows[0]]
        found = [float(rows[1][head.index(name) if name in head else place]) for name, place in (_COMPUTE, _EXPOSED)]
    except (OSError, IndexError, ValueError) as error:
        raise InputError(f"ASTRA-sim left no readable {path.name} ({error}); is the program ASTRA-sim 1.0?") from error
    if not all(math.isfinite(x) and x >= 0 for x in found):
        raise InputError(f"ASTRA-sim's {path.name} has times {found}; is the program ASTRA-sim 1.0?")
    return found[0] * CYCLE_S, found[1] * CYCLE_S
