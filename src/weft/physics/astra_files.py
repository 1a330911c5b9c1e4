"""ASTRA-sim 1.0 network and system files: read, and written for the shape of a placement.

Layer files are read in workload/profiles/layers.py. Bandwidths there are GB of 2^30 bytes per second,
latencies nanoseconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.physics.hierarchy import Dimension, Hierarchy
from weft.workload.profiles.layers import CYCLE_S, read_text

__all__ = ["AstraNetwork", "AstraSystem", "layer_text", "network_text", "read_network", "read_system", "system_text"]

GIB = float(2**30)
_KINDS = {"Ring": "ring", "Switch": "switch", "FullyConnected": "fully-connected"}
_WORDS = {kind: word for word, kind in _KINDS.items()}
_ALGORITHM = {"ring": "ring", "switch": "halvingDoubling", "fully-connected": "direct"}
_LISTS = ("topologies-per-dim", "units-count", "link-latency", "link-bandwidth")


@dataclass(frozen=True)
class AstraNetwork:
    """A network file: dimensions from the inside out, with the number of units of each."""

    name: str
    dimensions: tuple[Dimension, ...]
    units: tuple[int, ...]
    types: tuple[str, ...] = ()  # T tile, N node, P pod
    links: tuple[int, ...] = ()  # of each unit

    def hierarchy(self, shrinking: bool = True) -> Hierarchy:
        """As machine, rack and network. Of more than three dimensions the last three count; of fewer the last one is
        repeated for the tiers that are not there."""
        dims = self.dimensions[-3:]
        machine, rack, network = (*dims, *[dims[-1]] * (3 - len(dims)))
        return Hierarchy(machine, rack, network, shrinking)


@dataclass(frozen=True)
class AstraSystem:
    """A system file: the algorithm of each collective by dimension, and the rest as it is."""

    all_reduce: tuple[str, ...]
    optimization: str = "baseline"
    others: dict[str, str] = field(default_factory=dict)

    @property
    def shrinking(self) -> bool:
        """Whether outer dimensions carry only their part of an all-reduce."""
        return self.optimization == "localBWAware"

    def applied(self, hierarchy: Hierarchy) -> Hierarchy:
        """A hierarchy whose dimensions move data as these algorithms do: a ring on a switch is a ring."""
        names = self.all_reduce[-3:] or ("ring",)
        names = (*names, *[names[-1]] * (3 - len(names)))
        kinds = {"ring": "ring", "direct": "fully-connected", "halvingDoubling": "switch"}
        dims = [replace(d, kind=kinds.get(name, d.kind)) for d, name in zip(hierarchy.dimensions, names, strict=True)]
        return Hierarchy(dims[0], dims[1], dims[2], self.shrinking)


def read_network(path: str | Path) -> AstraNetwork:
    """Read a network file."""
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
    nic = raw.get("nic-latency", [0] * n)
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
    counts = tuple(int(_number(u, "units-count", path)) for u in lists["units-count"])
    if min(counts) < 1:
        raise InputError(f"{path}: units-count has {min(counts)}; a dimension has at least 1 unit")
    types = tuple(str(t) for t in raw.get("dimension-type", ()))
    links = tuple(int(_number(x, "links-count", path)) for x in raw.get("links-count", ()))
    return AstraNetwork(str(raw.get("topology-name", Path(path).stem)), tuple(dimensions), counts, types, links)


def read_system(path: str | Path) -> AstraSystem:
    """Read a system file: `key: value` lines."""
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
    names = tuple(found.pop("all-reduce-implementation").split("_"))
    return AstraSystem(names, found.pop("collective-optimization", "baseline"), found)


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
