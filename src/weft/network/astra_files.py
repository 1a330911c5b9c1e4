"""Files of ASTRA-sim 1.0: networks and systems that are read as a hierarchy, and what the program is given to read.

Bandwidths in them are GB of 2^30 bytes per second, latencies are nanoseconds. Layer files are read in
workload/profiles/layers.py."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.network.hierarchy import MODERN, OLDER, Dimension, Hierarchy, dimension
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
