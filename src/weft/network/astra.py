"""ASTRA-sim 1.0: an installed copy that is run on files made for each placement (astra_files.py).

Two things are relied on: the options of its AnalyticalAstra program, and its EndToEnd.csv,
whose first row names the columns (the first two have no name) and whose second row has the totals of the run in
microseconds.
"""

from __future__ import annotations

import csv
import math
import subprocess
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from weft.errors import InputError
from weft.model.profile import Profile
from weft.network.analytical import Analytical
from weft.network.astra_files import by_ring, hierarchy_of, layer_text, network_text, system_text
from weft.network.cost import CostModel, Shape, units
from weft.network.hierarchy import Hierarchy

_UNIT_S = 1e-6  # seconds in the unit of EndToEnd.csv; the files that the program reads have nanoseconds
_COMPUTE, _EXPOSED = ("total comp", 12), ("total exposed comm", 13)  # column of EndToEnd.csv, by name or else by place


class AstraSim(CostModel):
    """Runs the program once for each profile and shape and takes the exposed communication from its EndToEnd.csv.

    Where it cannot halve and double (3, 5, 6, 12 units) it runs a ring, and a warning says so.
    """

    name = "astra-sim"
    reads = Analytical.reads | {"program"}
    timeout_s = 600.0

    def __init__(self, program: str | Path, hierarchy: Hierarchy, scale: Mapping[str, float] | None = None) -> None:
        self.program = Path(program)
        self.hierarchy = hierarchy
        self.scale = scale or {}
        if not self.program.is_file():
            raise InputError(f"network.program: {program} is no file; give the path of ASTRA-sim's AnalyticalAstra")

    @classmethod
    def from_network(cls, said: Mapping[str, Any], folder: Path) -> Self:
        """The program, and the tiers that [network] describes."""
        if said["program"] is None:
            raise InputError('network.program is missing; cost "astra-sim" needs the path of the program')
        return cls(folder / said["program"], hierarchy_of(said, folder), said["scale"])

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """The program's answer, as a share of the compute time that it saw."""
        if profile.workers == 1 or profile.message_bytes <= 0:
            return 0.0
        with tempfile.TemporaryDirectory(prefix="weft-astra-") as folder:
            command = self.write(Path(folder), profile, model, shape)
            compute_s, exposed_s = self.answer(command, Path(folder))
        return exposed_s * (profile.compute_s / compute_s if compute_s > 0 else 1.0)

    def write(self, folder: Path, profile: Profile, model: str, shape: Shape) -> list[str]:
        """Write workload, system and network files; returns the command that runs them."""
        over = units(shape)
        for dimension, n in zip(self.hierarchy.dimensions, over, strict=True):
            if by_ring(dimension, n):
                warnings.warn(f"ASTRA-sim cannot halve and double over {n} units: a ring does it", stacklevel=2)
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

    def answer(self, command: list[str], folder: Path) -> tuple[float, float]:
        """Run a command of `write`: seconds of computing and of exposed communication."""
        self._run(command)
        return _read(folder / "EndToEnd.csv")

    def _run(self, command: list[str]) -> None:
        try:
            done = subprocess.run(command, capture_output=True, timeout=self.timeout_s, check=False)
        except subprocess.TimeoutExpired as error:
            raise InputError(
                f"network.program: {self.program} did not end within {self.timeout_s:g} s; run it by hand to see why"
            ) from error
        except OSError as error:
            raise InputError(
                f"network.program: {self.program} cannot be run ({error.strerror or error}); give ASTRA-sim 1.0's "
                "AnalyticalAstra, built for this machine and executable"
            ) from error
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip()).decode("utf-8", "replace").splitlines()
            last = said[-1].strip() if said else "it said nothing"
            ended = f"exit code {done.returncode}" if done.returncode > 0 else f"killed by signal {-done.returncode}"
            raise InputError(f"network.program: {self.program}: {ended} ({last}); is it ASTRA-sim 1.0?")


def _read(path: Path) -> tuple[float, float]:
    """Seconds of computing and of exposed communication."""
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        head = [cell.strip() for cell in rows[0]]
        found = [float(rows[1][head.index(name) if name in head else place]) for name, place in (_COMPUTE, _EXPOSED)]
    except OSError as error:
        raise InputError(f"network.program: it left no {path.name}; is it ASTRA-sim 1.0?") from error
    except (IndexError, ValueError, csv.Error) as error:
        raise InputError(f"network.program: its {path.name} cannot be read ({error}); is it ASTRA-sim 1.0?") from error
    if not all(math.isfinite(x) and x >= 0 for x in found):
        raise InputError(f"network.program: its {path.name} has times {found}; is it ASTRA-sim 1.0?")
    return found[0] * _UNIT_S, found[1] * _UNIT_S
