"""Files of ASTRA-sim 1.0: networks and systems that are read as a hierarchy, and what the program is given to read.

Bandwidths in them are GB of 2^30 bytes per second, latencies are nanoseconds. The files count by link, hop and card, a
Dimension by message: the program multiplies a ring's and a switch's bandwidth by its number of links (full connection:
by the links to each other unit), and a message pays two hops through a switch, and a card at both ends. Layer files are
read in workload/profiles/layers.py."""

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
_ALGORITHM = {"ring": "ring", "halving-doubling": "halvingDoubling", "direct": "direct"}
_NAMED = {word: algorithm for algorithm, word in _ALGORITHM.items()}
_HOPS = {"ring": 1, "switch": 2, "fully-connected": 1}  # links of a message between neighbours
_CARDS = 2  # that a message passes
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
    counts = _list(raw, "links-count", path) if "links-count" in raw else []
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
        units = int(_number(lists["units-count"][i], "units-count", path))
        links = int(_number(counts[i], "links-count", path)) if i < len(counts) else 1
        side = _KINDS[kind]
        dimensions.append(
            Dimension(
                side, gb * GIB * _side_by_side(side, links, units), latency * _HOPS[side] * 1e-9, card * _CARDS * 1e-9
            )
        )
    least = min(int(_number(u, "units-count", path)) for u in lists["units-count"])
    if least < 1:
        raise InputError(f"{path}: units-count has {least}; a dimension has at least 1 unit")
    return Hierarchy(*_three(dimensions))


def read_system(path: str | Path, hierarchy: Hierarchy) -> Hierarchy:
    """A hierarchy whose dimensions move data by the algorithms of a system file (`key: value` lines). With
    localBWAware, outer dimensions carry only their part of an all-reduce."""
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
    machine, rack, network = (replace(d, algorithm=_NAMED.get(name, d.algorithm)) for d, name in dimensions)
    return Hierarchy(
        machine, rack, network, found.get("collective-optimization") == "localBWAware", hierarchy.overlapping
    )


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
        hierarchy = Hierarchy(machine, rack, network, own["shrinking"], own["overlapping"])
    return hierarchy if said["astra_system"] is None else read_system(folder / said["astra_system"], hierarchy)


def _three(items: Sequence[_T]) -> tuple[_T, _T, _T]:
    """The last three of what a file has by dimension; if it has fewer, the last one is repeated."""
    last = [*items[-3:], items[-1], items[-1]]
    return last[0], last[1], last[2]


def network_text(hierarchy: Hierarchy, units: Sequence[int]) -> str:
    """A network file for the part of a hierarchy that a placement uses: dimensions of one unit are left out."""
    used = [(d, n, t) for d, n, t in zip(hierarchy.dimensions, units, ("N", "P", "P"), strict=True) if n > 1]
    used = used or [(hierarchy.machine, 1, "N")]
    links = [_links(d.kind, n) for d, n, _ in used]
    count = len(used)
    content = {
        "topology-name": "Hierarchical",
        "topologies-per-dim": [_WORDS[d.kind] for d, _, _ in used],
        "dimension-type": [t for _, _, t in used],
        "dimensions-count": count,
        "units-count": [n for _, n, _ in used],
        "links-count": links,
        "link-latency": [d.latency_s / _HOPS[d.kind] * 1e9 for d, _, _ in used],
        "link-bandwidth": [
            d.bytes_per_s / GIB / _side_by_side(d.kind, k, n) for (d, n, _), k in zip(used, links, strict=True)
        ],
        "nic-latency": [d.nic_latency_s / _CARDS * 1e9 for d, _, _ in used],
        "router-latency": [0] * count,
        "hbm-latency": [500] * count,
        "hbm-bandwidth": [370] * count,
        "hbm-scale": [0] * count,
    }
    return json.dumps(content, indent=2) + "\n"


def system_text(hierarchy: Hierarchy, units: Sequence[int]) -> str:
    """A system file with one algorithm for each dimension of the network file.

    The program leaves no times for halving and doubling over a number of units that is no power of two; a ring, which
    sends the same bytes in more steps, does it there.
    """
    used = [(d, n) for d, n in zip(hierarchy.dimensions, units, strict=True) if n > 1] or [(hierarchy.machine, 1)]
    algorithms = "_".join(_ALGORITHM["ring" if by_ring(d, n) else d.moves] for d, n in used)
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


def by_ring(dimension: Dimension, n: int) -> bool:
    """Whether the program cannot halve and double over so many units, so that a ring does it."""
    return dimension.moves == "halving-doubling" and n & (n - 1) != 0


def _links(kind: str, n: int) -> int:
    """Links of a unit: one each way around a ring, one to a switch, one to each other unit."""
    return {"ring": 2, "switch": 1}.get(kind, max(1, n - 1))


def _side_by_side(kind: str, links: int, n: int) -> int:
    """By how many the program multiplies the bandwidth of a link; a ring has an even number, anything at least one."""
    return max(1, links // max(1, n - 1) if kind == "fully-connected" else links - links % 2 * (kind == "ring"))


def _list(raw: dict[str, Any], name: str, path: str | Path) -> list[Any]:
    value = raw.get(name)
    if not isinstance(value, list):
        raise InputError(f"{path}: {name} is missing or no list; give an ASTRA-sim 1.0 network file")
    return value


def _number(value: Any, name: str, path: str | Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"{path}: {name} has {value!r}; it must be a number of at least 0")
    return float(value)
