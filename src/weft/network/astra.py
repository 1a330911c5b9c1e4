"""ASTRA-sim 1.0: its network and system files, and an installed copy that is run on files made for each placement.

Bandwidths in its files are GB of 2^30 bytes per second, latencies are nanoseconds. Its layer files are read in
workload/profiles/layers.py. Two things are relied on: the options of its AnalyticalAstra program, and its EndToEnd.csv,
whose first row names the columns (the first two have no name) and whose second row has the totals of the run in
microseconds.
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.network.analytical import MODERN, OLDER, Analytical, Dimension, Hierarchy, dimension
from weft.network.cost import CostModel, Shape, units
from weft.workload.profiles.layers import CYCLE_S, read_text

GIB = float(2**30)
_T = TypeVar("_T")
_KINDS = {"Ring": "ring", "Switch": "switch", "FullyConnected": "fully-connected"}
_WORDS = {kind: word for word, kind in _KINDS.items()}
_ALGORITHM = {"ring": "ring", "switch": "halvingDoubling", "fully-connected": "direct"}
_KIND_OF = {algorithm: kind for kind, algorithm in _ALGORITHM.items()}
_LISTS = ("topologies-per-dim", "units-count", "link-latency", "link-bandwidth")


def read_network(path: str | Path) -> Hierarchy:
    """The dimensions of a network file as a hierarchy of machine, rack and cluster, from the inside out."""
    try:
        raw = json.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"{path}: it is not JSON ({error}); give an ASTRA-sim 1.0 network file") from error
    if not isinstance(raw, dict):
        raise InputError(f"{path}: it is no JSON object; give an ASTRA-sim 1.0 network file")
    lists = {name: _list(raw, name, path) for name in _LISTS}
    n = len(lists["units-count"])
    for name, values in lists.items():
        if len(values) != n or not n:
            raise InputError(f"{path}: {name} has {len(values)} entries, units-count {n}; give one for each dimension")
    nic = _list(raw, "nic-latency", path) if "nic-latency" in raw else []
    dimensions = []
    for i in range(n):
        kind = str(lists["topologies-per-dim"][i])
        if kind not in _KINDS:
            raise InputError(f"{path}: topologies-per-dim has {kind!r}; known are {', '.join(_KINDS)}")
        gb = _number(lists["link-bandwidth"][i], "link-bandwidth", path)
        latency = _number(lists["link-latency"][i], "link-latency", path)
        card = _number(nic[i] if i < len(nic) else 0, "nic-latency", path)
        if gb <= 0:
            raise InputError(f"{path}: link-bandwidth has {gb:g}; it must be more than 0")
        dimensions.append(Dimension(_KINDS[kind], gb * GIB, latency * 1e-9, card * 1e-9))
    least = min(int(_number(u, "units-count", path)) for u in lists["units-count"])
    if least < 1:
        raise InputError(f"{path}: units-count has {least}; a dimension has at least 1 unit")
    return Hierarchy(*_three(dimensions))


def read_system(path: str | Path, hierarchy: Hierarchy) -> Hierarchy:
    """A hierarchy whose dimensions move data as the algorithms of a system file (`key: value` lines) do: a ring on a
    switch is a ring. With localBWAware, outer dimensions carry only their part of an all-reduce."""
    found: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        key, colon, value = line.partition(":")
        if not colon:
            raise InputError(f"{path}:{number}: {line.strip()!r} is no `key: value`; give an ASTRA-sim 1.0 system file")
        found[key.strip()] = value.strip()
    if "all-reduce-implementation" not in found:
        raise InputError(f"{path}: all-reduce-implementation is missing; give an ASTRA-sim 1.0 system file")
    algorithms = _three(found["all-reduce-implementation"].split("_"))
    dimensions = zip(hierarchy.dimensions, algorithms, strict=True)
    machine, rack, network = (replace(d, kind=_KIND_OF.get(name, d.kind)) for d, name in dimensions)
    return Hierarchy(machine, rack, network, found.get("collective-optimization") == "localBWAware")


def hierarchy_of(said: Mapping[str, Any], folder: Path) -> Hierarchy:
    """The tiers of links that a [network] section describes; its files are relative to `folder`."""
    own = said["hierarchy"]
    if own is not None and said["astra_network"] is not None:
        raise InputError("network.hierarchy excludes astra_network; remove one of them")
    if said["astra_network"] is not None:
        hierarchy = read_network(folder / said["astra_network"])
    elif isinstance(own, str) or own is None:
        hierarchy = OLDER if own == "older" else MODERN
    else:
        machine, rack, network = (dimension(**own[tier]) for tier in ("machine", "rack", "network"))
        hierarchy = Hierarchy(machine, rack, network, own["shrinking"])
    return hierarchy if said["astra_system"] is None else read_system(folder / said["astra_system"], hierarchy)


def _three(items: Sequence[_T]) -> tuple[_T, _T, _T]:
    """The last three of what a file has by dimension; if it has fewer, the last one is repeated."""
    last = [*items[-3:], items[-1], items[-1]]
    return last[0], last[1], last[2]


def network_text(hierarchy: Hierarchy, units: Sequence[int]) -> str:
    """A network file for the part of a hierarchy that a placement uses: dimensions of one unit are left out."""
    used = [(d, n, t) for d, n, t in zip(hierarchy.dimensions, units, ("N", "P", "PP"), strict=True) if n > 1]
    used = used or [(hierarchy.machine, 1, "N")]
    count = len(used)
    content = {
        "topology-name": "Hierarchical",
        "topologies-per-dim": [_WORDS[d.kind] for d, _, _ in used],
        "dimension-type": [t for _, _, t in used],
        "dimensions-count": count,
        "units-count": [n for _, n, _ in used],
        "links-count": [_links(d.kind, n) for d, n, _ in used],
        "link-latency": [round(d.latency_s * 1e9) for d, _, _ in used],
        "link-bandwidth": [d.bytes_per_s / GIB for d, _, _ in used],
        "nic-latency": [round(d.nic_latency_s * 1e9) for d, _, _ in used],
        "router-latency": [0] * count,
        "hbm-latency": [500] * count,
        "hbm-bandwidth": [370] * count,
        "hbm-scale": [0] * count,
    }
    return json.dumps(content, indent=2) + "\n"


def system_text(hierarchy: Hierarchy, units: Sequence[int]) -> str:
    """A system file with one algorithm for each dimension of the network file."""
    used = [d for d, n in zip(hierarchy.dimensions, units, strict=True) if n > 1] or [hierarchy.machine]
    algorithms = "_".join(_ALGORITHM[d.kind] for d in used)
    return (
        "scheduling-policy: LIFO\nendpoint-delay: 10\nactive-chunks-per-dimension: 1\npreferred-dataset-splits: 1\n"
        f"boost-mode: 1\nall-reduce-implementation: {algorithms}\nall-gather-implementation: {algorithms}\n"
        f"reduce-scatter-implementation: {algorithms}\nall-to-all-implementation: {algorithms}\n"
        f"collective-optimization: {'localBWAware' if hierarchy.shrinking else 'baseline'}\n"
    )


def layer_text(profile: Profile, scale: float = 1.0) -> str:
    """A layer file for one iteration of a data-parallel job: a layer for each transfer, the first to be sent last.

    What is computed before a transfer is the weight gradient of its layer. What is left at the end goes into the
    forward pass of the first layer: ASTRA-sim does not compute that layer's input gradient.
    """
    pending = 0.0
    rows: list[tuple[float, Transfer]] = []  # computed before it, the transfer
    for task in profile.tasks:
        if profile.n_workers(task) < profile.workers:
            raise InputError(
                f"profile {profile.name}: {task.name} is not of all workers; ASTRA-sim 1.0 gets data-parallel jobs only"
            )
        if isinstance(task, Compute):
            pending += task.seconds
        else:
            rows.append((pending, task))
            pending = 0.0
    if not rows:
        raise InputError(f"profile {profile.name}: it sends nothing; there is no communication to ask ASTRA-sim about")
    lines = ["DATA", str(len(rows))]
    for i, (computed, task) in reversed(list(enumerate(rows))):
        kind = "ALLTOALL" if task.collective == "all-to-all" else "ALLREDUCE"
        rest = pending if i == len(rows) - 1 else 0.0
        forward = f"{round(rest / CYCLE_S)}\tNONE\t0"
        weights = f"{round(computed / CYCLE_S)}\t{kind}\t{math.ceil(task.bytes * scale)}"
        lines.append(f"{task.name.replace(' ', '-')}\t-1\t{forward}\t0\tNONE\t0\t{weights}\t0")
    return "\n".join(lines) + "\n"


def _links(kind: str, n: int) -> int:
    """Links of a unit, as the authors' files count them: both ways around a ring, one to a switch, one to each."""
    return 1 if kind == "switch" else n - 1 if kind == "fully-connected" else 4 if n == 2 else n + n % 2


def _list(raw: dict[str, Any], name: str, path: str | Path) -> list[Any]:
    value = raw.get(name)
    if not isinstance(value, list):
        raise InputError(f"{path}: {name} is missing or no list; give an ASTRA-sim 1.0 network file")
    return value


def _number(value: Any, name: str, path: str | Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"{path}: {name} has {value!r}; it must be a number of at least 0")
    return float(value)


_UNIT_S = 1e-6  # seconds in the unit of EndToEnd.csv; the files that the program reads have nanoseconds
_COMPUTE, _EXPOSED = ("total comp", 12), ("total exposed comm", 13)  # column of EndToEnd.csv, by name or else by place


class AstraSim(CostModel):
    """Runs the program once for each profile and shape and takes the exposed communication from its EndToEnd.csv."""

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
