"""Analytical: exposed communication by a hierarchy of links, layer by layer, with the overlap of the backward pass.

The model follows the analytical network of ASTRA-sim 1.0. A dimension joins n units by a ring, by a switch or all to
all. A phase in which every unit hands on its part of S bytes (reduce-scatter; all-gather is the same backwards) takes,
with B bytes per second and l seconds per message:

    ring              (n - 1) (S / n / B + l)          n - 1 steps to the neighbour
    switch            (n - 1) / n S / B + ceil(log2 n) l    halving and doubling
    fully connected   S / n / B + l                    all at once, over a link of its own to each

A message pays the latency of its link, and once that of its network card.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from weft.errors import InputError
from weft.model.flows import FlowGroup
from weft.model.profile import Compute, Profile, Transfer
from weft.model.units import gbps_to_bytes_per_s
from weft.network.cost import CostModel, Shape, units
from weft.network.iteration import play

KINDS = ("ring", "switch", "fully-connected")


@dataclass(frozen=True, slots=True)
class Dimension:
    """Links of one tier: their kind, bytes per second of each, and what a message costs besides its bytes."""

    kind: str
    bytes_per_s: float
    latency_s: float = 0.0
    nic_latency_s: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"hierarchy: {self.kind!r} is no kind of network; use one of {', '.join(KINDS)}")
        if not 0 < self.bytes_per_s < math.inf or self.latency_s < 0 or self.nic_latency_s < 0:
            raise InputError("hierarchy: bandwidth must be more than 0 and latencies at least 0")

    def scatter_s(self, size: float, n: int) -> float:
        """Reduce-scatter (or all-gather) of `size` bytes over n units."""
        if n <= 1:
            return 0.0
        message_s = self.latency_s + self.nic_latency_s
        if self.kind == "ring":
            return (n - 1) * (size / n / self.bytes_per_s + message_s)
        if self.kind == "switch":
            return (n - 1) / n * size / self.bytes_per_s + math.ceil(math.log2(n)) * message_s
        return size / n / self.bytes_per_s + message_s

    def all_to_all_s(self, size: float, n: int) -> float:
        """Every unit sends size / n bytes to every other one."""
        if n <= 1:
            return 0.0
        message_s = self.latency_s + self.nic_latency_s
        if self.kind == "ring":  # n^2 / 4 pairs cross each of the two directions' bisection
            return (n - 1) * (size / n / self.bytes_per_s * n / 4 + message_s)
        if self.kind == "switch":
            return (n - 1) * (size / n / self.bytes_per_s + message_s)
        return size / n / self.bytes_per_s + message_s


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Three dimensions, from the inside out.

    `shrinking`: an all-reduce scatters on the way out, so that outer tiers carry only their part, and gathers on the
    way back (ASTRA-sim's localBWAware); otherwise it is a whole all-reduce on each tier in turn (its baseline).
    """

    machine: Dimension
    rack: Dimension
    network: Dimension
    shrinking: bool = True

    @property
    def dimensions(self) -> tuple[Dimension, Dimension, Dimension]:
        """The tiers, from the inside out."""
        return (self.machine, self.rack, self.network)

    def all_reduce_s(self, size: float, units: Sequence[int]) -> float:
        """Seconds of an all-reduce of `size` bytes over the given number of units in each dimension."""
        total, part = 0.0, size
        for dimension, n in zip(self.dimensions, units, strict=True):
            total += 2.0 * dimension.scatter_s(part, n)
            part = part / n if self.shrinking else part
        return total

    def all_to_all_s(self, size: float, units: Sequence[int]) -> float:
        """An all-to-all, tier by tier."""
        return sum(d.all_to_all_s(size, n) for d, n in zip(self.dimensions, units, strict=True))


def dimension(kind: str, gbps: float, latency_us: float, nic_latency_us: float = 0.0) -> Dimension:
    """Links as a scenario describes them, in Gbit/s and microseconds."""
    return Dimension(kind, gbps_to_bytes_per_s(gbps), latency_us * 1e-6, nic_latency_us * 1e-6)


# Dally, section III-C: NVSwitch 900 GB/s (both directions), Quantum 400 Gbit/s, Spectrum 800 Gbit/s.
# The latencies are ours.
MODERN = Hierarchy(
    dimension("switch", 3600, 1.0), dimension("switch", 400, 2.0, 1.0), dimension("switch", 800, 10.0, 1.0)
)
# The older set: PCIe, InfiniBand of 50 Gbit/s with tens of microseconds; 10 Gbit/s Ethernet between racks is ours.
OLDER = Hierarchy(dimension("ring", 64, 5.0), dimension("switch", 50, 20.0, 5.0), dimension("switch", 10, 50.0, 5.0))


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
        from weft.network.astra import hierarchy_of

        return cls(hierarchy_of(said, folder), said["scale"])

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """Iteration time over this shape, less the compute time."""
        if profile.workers == 1:
            return 0.0
        whole = iteration_s(profile, self.hierarchy, units(shape), self.scale.get(model, 1.0))
        return max(0.0, whole - profile.compute_s)


def iteration_s(profile: Profile, hierarchy: Hierarchy, shape: tuple[int, int, int], scale: float = 1.0) -> float:
    """Seconds of one iteration: computing as the graph orders it, transfers one at a time as they are ready."""
    chains = []
    for i in _by_readiness(profile):
        task = profile.tasks[i]
        if isinstance(task, Transfer):
            delay_s = _transfer_s(profile, task, hierarchy, shape, scale)
            chains.append((i, (FlowGroup(0.0, (), latency_s=delay_s),)))
    return play(profile, tuple(chains), in_turn=[i for i, _ in chains]).seconds


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
