"""Shape: how a placement is spread, and nothing else about it. Placements of one shape cost the same."""

from __future__ import annotations

from collections import Counter

import numpy as np

from weft.model.cluster import Cluster
from weft.model.plan import Placement

__all__ = ["Shape", "shape_of", "tier", "units"]

Shape = tuple[tuple[int, ...], ...]  # GPUs on each server, largest first, rack by rack


def shape_of(cluster: Cluster, gpus: Placement) -> Shape:
    """The shape of a placement."""
    servers = Counter(cluster.server_of_gpu[np.asarray(gpus, dtype=np.int64)].tolist())
    racks: dict[int, list[int]] = {}
    for server, count in servers.items():
        racks.setdefault(int(cluster.rack_of_server[server]), []).append(count)
    return tuple(sorted((tuple(sorted(counts, reverse=True)) for counts in racks.values()), reverse=True))


def tier(shape: Shape) -> int:
    """0 on one machine, 1 in one rack, 2 over several racks."""
    return 2 if len(shape) > 1 else 1 if len(shape[0]) > 1 else 0


def units(shape: Shape) -> tuple[int, int, int]:
    """GPUs on each machine, machines in each rack, racks: the regular hierarchy that stands for a shape.

    A shape that is not regular has no hierarchy to reduce over: all its workers then stand side by side on the tier
    where it is irregular (as in the Dally authors' simulator).
    """
    machines = [len(rack) for rack in shape]
    counts = [count for rack in shape for count in rack]
    workers = sum(counts)
    if len(set(counts)) == 1 and len(set(machines)) == 1:
        return counts[0], machines[0], len(shape)
    if len(shape) == 1:
        return 1, workers, 1
    per_rack = [sum(rack) for rack in shape]
    if len(set(per_rack)) == 1:
        return 1, per_rack[0], len(shape)
    return 1, 1, workers
