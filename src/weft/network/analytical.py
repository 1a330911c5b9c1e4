"""Analytical: exposed communication by a hierarchy of links, layer by layer, with the overlap of the backward pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from weft.model.flows import FlowGroup
from weft.model.profile import Compute, Profile, Task, Transfer
from weft.network.astra_files import hierarchy_of
from weft.network.cost import CostModel, Shape, units
from weft.network.hierarchy import Hierarchy
from weft.network.iteration import play
from weft.network.overlap import Passage, ends, passage


class Analytical(CostModel):
    """Every transfer of an iteration takes the time of its collective over the hierarchy, one after another.

    `scale` multiplies a model's bytes (what `weft calibrate` finds).
    """

    name = "analytical"
    reads = frozenset({"hierarchy", "astra_network", "astra_system", "scale"})

    def __init__(self, hierarchy: Hierarchy, scale: Mapping[str, float] | None = None) -> None:
        self.hierarchy = hierarchy
        self.scale = scale or {}

    @classmethod
    def from_network(cls, said: Mapping[str, Any], folder: Path) -> Self:
        """Over the tiers that [network] describes."""
        return cls(hierarchy_of(said, folder), said["scale"])

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """Iteration time over this shape, less the compute time."""
        if profile.workers == 1:
            return 0.0
        whole = iteration_s(profile, self.hierarchy, units(shape), self.scale.get(model, 1.0))
        return max(0.0, whole - profile.compute_s)


def iteration_s(profile: Profile, hierarchy: Hierarchy, shape: tuple[int, int, int], scale: float = 1.0) -> float:
    """Seconds of one iteration: computing as the graph orders it, transfers one at a time as they are ready."""
    return max(ends_s(profile, hierarchy, shape, scale))


def ends_s(
    profile: Profile, hierarchy: Hierarchy, shape: tuple[int, int, int], scale: float = 1.0
) -> tuple[float, ...]:
    """When each task ends; on tiers that overlap transfers are one at a time on each tier (overlap.py)."""
    if hierarchy.overlapping:
        return tuple(ends(profile, [_passage(profile, task, hierarchy, shape, scale) for task in profile.tasks]))
    chains = []
    for i in _by_readiness(profile):
        task = profile.tasks[i]
        if isinstance(task, Transfer):
            delay_s = _transfer_s(profile, task, hierarchy, shape, scale)
            chains.append((i, (FlowGroup(0.0, (), latency_s=delay_s),)))
    return play(profile, tuple(chains), in_turn=[i for i, _ in chains]).end_s


def _passage(profile: Profile, task: Task, hierarchy: Hierarchy, shape: tuple[int, int, int], scale: float) -> Passage:
    """The tiers that a transfer of all workers takes in turn; any other one has the outermost tier to itself."""
    if isinstance(task, Compute):
        return ()
    if task.collective not in ("all-to-all", "point-to-point") and profile.n_workers(task) == profile.workers:
        return passage(hierarchy, task.bytes * scale, shape)
    outermost = max((k for k, n in enumerate(shape) if n > 1), default=0)
    return ((outermost, _transfer_s(profile, task, hierarchy, shape, scale)),)


def _by_readiness(profile: Profile) -> list[int]:
    """Tasks in an order in which each comes after those it waits for, transfers by when computing lets them start."""
    at = [0.0] * len(profile.tasks)
    for i, task in enumerate(profile.tasks):
        begin = max((at[p] for p in task.after), default=0.0)
        at[i] = begin + (task.seconds if isinstance(task, Compute) else 0.0)
    return sorted(range(len(profile.tasks)), key=lambda i: (at[i], i))


def _transfer_s(
    profile: Profile, task: Transfer, hierarchy: Hierarchy, shape: tuple[int, int, int], scale: float
) -> float:
    """Seconds of one transfer. All workers have the given shape; a smaller group is assumed to be as compact as
    possible."""
    n = profile.n_workers(task)
    if n < profile.workers:
        on_machine = math.gcd(n, shape[0])
        in_rack = math.gcd(n // on_machine, shape[1])
        shape = (on_machine, in_rack, n // on_machine // in_rack)
    size = task.bytes * scale
    if task.collective == "all-to-all":
        return hierarchy.all_to_all_s(size, shape)
    if task.collective == "point-to-point":
        outermost = [d for d, k in zip(hierarchy.dimensions, shape, strict=True) if k > 1][-1]
        return size / outermost.bytes_per_s + outermost.latency_s + outermost.nic_latency_s
    return hierarchy.all_reduce_s(size, shape)
