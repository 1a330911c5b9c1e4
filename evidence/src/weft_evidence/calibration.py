"""Factors on bytes or on computing that make the analytical cost model agree with what was measured or published."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.network.analytical import ends_s, iteration_s
from weft.network.cost import Shape, units
from weft.network.hierarchy import Hierarchy

_TOLERANCE = 1e-4  # relative error at which a calibration ends: a hundredth of the accuracy asked for


def scaled(profile: Profile, scale: float) -> Profile:
    """The profile with every transfer's bytes multiplied."""
    tasks = tuple(replace(t, bytes=t.bytes * scale) if isinstance(t, Transfer) else t for t in profile.tasks)
    return replace(profile, tasks=tasks)


def slowed(profile: Profile, factor: float) -> Profile:
    """The profile with every computation's seconds multiplied."""
    tasks = tuple(replace(t, seconds=t.seconds * factor) if isinstance(t, Compute) else t for t in profile.tasks)
    return replace(profile, tasks=tasks)


def waited_s(profile: Profile, hierarchy: Hierarchy, shape: Shape, delays: Mapping[str, float]) -> float:
    """Exposed communication, and what is waited after it: so many seconds after the end of the tasks of these names."""
    found = zip(profile.tasks, ends_s(profile, hierarchy, units(shape)), strict=True)
    return max(end + delays.get(task.name, 0.0) for task, end in found) - profile.compute_s


def compute_factor(
    profile: Profile, hierarchy: Hierarchy, shape: Shape, share: float, delays: Mapping[str, float] | None = None
) -> float:
    """The factor on a profile's compute time at which exposed communication over `shape` is that share of it.

    The Dally authors calibrate in this way: bytes stay as they are, and the GPU is made faster. The share falls as the
    factor grows, so the factor is found by halving. `delays` as for `waited_s`: they are no computing, and stay.
    """

    def found(factor: float) -> float:
        faster = slowed(profile, factor)
        return waited_s(faster, hierarchy, shape, delays or {}) / faster.compute_s

    low, high = 1e-9, 1e9  # halved on a logarithmic scale: factors of a ten thousandth are usual
    if not found(high) <= share <= found(low):
        raise InputError(f"calibrate {profile.name}: no speed of computing gives a share of {share:.4g}")
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if found(middle) > share else (low, middle)
        if high / low <= 1.0 + 1e-12:
            break
    return high


def calibrated(profile: Profile, hierarchy: Hierarchy, shape: Shape, exposed_s: float) -> float:
    """The factor on a profile's bytes at which the exposed communication over `shape` is `exposed_s`.

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
