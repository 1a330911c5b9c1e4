"""Analytical: exposed communication by a hierarchy of links, layer by layer, with the overlap of the backward pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from weft.errors import InputError
from weft.model.flows import FlowGroup
from weft.model.profile import Compute, Profile, Transfer
from weft.physics.cost import CostModel
from weft.physics.hierarchy import Hierarchy
from weft.physics.iteration import play
from weft.physics.shape import Shape, units

__all__ = ["Analytical", "calibrated", "compute_factor", "iteration_s", "scaled", "slowed"]

_TOLERANCE = 1e-4  # of a calibration; a hundredth of what is asked


class Analytical(CostModel):
    """Every transfer of an iteration takes the time of its collective over the hierarchy, one after another.

    `scale` multiplies a model's bytes (what `weft calibrate` finds).
    """

    name = "analytical"

    def __init__(self, hierarchy: Hierarchy, scale: Mapping[str, float] | None = None) -> None:
        self.hierarchy = hierarchy
        self.scale = scale or {}

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """Iteration time over this shape, less the compute time."""
        if profile.workers == 1:
            return 0.0
        whole = iteration_s(profile, self.hierarchy, units(shape), self.scale.get(model, 1.0))
        return max(0.0, whole - profile.compute_s)


def iteration_s(profile: Profile, hierarchy: Hierarchy, shape: tuple[int, int, int], scale: float = 1.0) -> float:
    """Seconds of one iteration: computing as the graph orders it, transfers one at a time as they are ready."""
    transfers = [i for i in _by_readiness(profile) if isinstance(profile.tasks[i], Transfer)]
    chains = tuple((i, (_delay(profile, i, hierarchy, shape, scale),)) for i in transfers)
    return play(profile, chains, in_turn=transfers).seconds


def _delay(profile: Profile, i: int, hierarchy: Hierarchy, shape: tuple[int, int, int], scale: float) -> FlowGroup:
    task = profile.tasks[i]
    assert isinstance(task, Transfer)
    return FlowGroup(0.0, (), latency_s=_transfer_s(profile, task, hierarchy, shape, scale))


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
    """Among all workers the shape counts; a group of some is taken to be as compact as can be."""
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


def scaled(profile: Profile, scale: float) -> Profile:
    """The profile with every transfer's bytes multiplied."""
    tasks = tuple(replace(t, bytes=t.bytes * scale) if isinstance(t, Transfer) else t for t in profile.tasks)
    return replace(profile, tasks=tasks)


def slowed(profile: Profile, factor: float) -> Profile:
    """The profile with every computation's seconds multiplied."""
    tasks = tuple(replace(t, seconds=t.seconds * factor) if isinstance(t, Compute) else t for t in profile.tasks)
    return replace(profile, tasks=tasks)


def compute_factor(profile: Profile, hierarchy: Hierarchy, shape: Shape, share: float) -> float:
    """The factor of a profile's computing with which exposed communication over `shape` is that share of it.

    The Dally authors calibrate so: bytes are what they are, and the GPU is as much faster. The share falls as the
    factor grows, so it is found by halving.
    """

    def found(factor: float) -> float:
        faster = slowed(profile, factor)
        return iteration_s(faster, hierarchy, units(shape)) / faster.compute_s - 1.0

    low, high = 1e-9, 1e9  # halved as powers: factors of a ten thousandth are usual
    if not found(high) <= share <= found(low):
        raise InputError(f"calibrate {profile.name}: no speed of computing gives a share of {share:.4g}")
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if found(middle) > share else (low, middle)
        if high / low <= 1.0 + 1e-12:
            break
    return high


def calibrated(profile: Profile, hierarchy: Hierarchy, shape: Shape, exposed_s: float) -> float:
    """The factor of a profile's bytes with which the exposed communication over `shape` is `exposed_s`.

    Exposed communication grows with the factor, so it is found by halving. Raises InputError where no factor does it:
    latencies alone take longer.
    """

    def exposed(scale: float) -> float:
        return iteration_s(profile, hierarchy, units(shape), scale) - profile.compute_s

    least = exposed(0.0)
    if exposed_s < least * (1 - _TOLERANCE):
        raise InputError(
            f"calibrate {profile.name}: {exposed_s:.4g} s were measured, but latencies alone hold it up for "
            f"{least:.4g} s; lower the latencies of the network"
        )
    low, high = 0.0, 1.0
    while exposed(high) < exposed_s:
        low, high = high, 2.0 * high
        if high > 1e12:
            raise InputError(f"calibrate {profile.name}: it sends nothing, so no factor gives {exposed_s:.4g} s")
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exposed(middle) < exposed_s else (low, middle)
        if high - low <= 1e-12 * high:
            break
    return high
