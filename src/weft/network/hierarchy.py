"""A network as three tiers of links, from the inside of a machine out: how long a collective takes over them.

The model follows the analytical network of ASTRA-sim 1.0. A dimension joins n units by a ring, by a switch or all to
all, and data move over it by an algorithm. A phase in which every unit hands on its part of S bytes (reduce-scatter;
all-gather is the same backwards) takes, with B bytes per second and l seconds per message:

    ring               (n - 1) (S / n / B + l)               n - 1 steps to the neighbour
    halving-doubling   (n - 1) / n S / B + ceil(log2 n) l    what a switch does if nothing else is said
    direct             S / n / B + l                         all at once; what full connection does

A message pays the latency of its link, and once that of its network card. On a ring a message to a unit further away
pays the link once for each hop: n - 1 in all by halving and doubling, n / 2 directly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.errors import InputError
from weft.model.units import gbps_to_bytes_per_s

KINDS = ("ring", "switch", "fully-connected")
ALGORITHMS = ("ring", "halving-doubling", "direct")
_USUAL = dict(zip(KINDS, ALGORITHMS, strict=True))


@dataclass(frozen=True, slots=True)
class Dimension:
    """Links of one tier: their kind, bytes per second of each, and what a message costs besides its bytes.

    `algorithm` is how data move over them; by default what is usual for the kind.
    """

    kind: str
    bytes_per_s: float
    latency_s: float = 0.0
    nic_latency_s: float = 0.0
    algorithm: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"hierarchy: {self.kind!r} is no kind of network; use one of {', '.join(KINDS)}")
        if self.algorithm not in ("", *ALGORITHMS):
            raise InputError(f"hierarchy: {self.algorithm!r} is no algorithm; use one of {', '.join(ALGORITHMS)}")
        if not 0 < self.bytes_per_s < math.inf or self.latency_s < 0 or self.nic_latency_s < 0:
            raise InputError("hierarchy: bandwidth must be more than 0 and latencies at least 0")

    @property
    def moves(self) -> str:
        """How data move: the algorithm that was named, or the usual one of the kind."""
        return self.algorithm or _USUAL[self.kind]

    def scatter_s(self, size: float, n: int) -> float:
        """Reduce-scatter (or all-gather) of `size` bytes over n units."""
        if n <= 1:
            return 0.0
        message_s = self.latency_s + self.nic_latency_s
        if self.moves == "ring":
            return (n - 1) * (size / n / self.bytes_per_s + message_s)
        if self.moves == "halving-doubling":
            steps = math.ceil(math.log2(n))
            further_s = (n - 1 - steps) * self.latency_s if self.kind == "ring" else 0.0
            return (n - 1) / n * size / self.bytes_per_s + steps * message_s + further_s
        further_s = (n // 2 - 1) * self.latency_s if self.kind == "ring" else 0.0
        return size / n / self.bytes_per_s + message_s + further_s

    def all_to_all_s(self, size: float, n: int) -> float:
        """Every unit sends size / n bytes to every other one."""
        if n <= 1:
            return 0.0
        message_s = self.latency_s + self.nic_latency_s
        if self.moves == "ring":  # n^2 / 4 pairs cross each of the two directions' bisection
            return (n - 1) * (size / n / self.bytes_per_s * n / 4 + message_s)
        if self.moves == "halving-doubling":
            return (n - 1) * (size / n / self.bytes_per_s + message_s)
        return size / n / self.bytes_per_s + message_s


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Three dimensions, from the inside out.

    `shrinking`: an all-reduce scatters on the way out, so that outer tiers carry only their part, and gathers on the
    way back (ASTRA-sim's localBWAware); otherwise it is a whole all-reduce on each tier in turn (its baseline).
    `overlapping`: each tier carries a collective of its own at the same time, as in ASTRA-sim; otherwise one collective
    has all tiers to itself.
    """

    machine: Dimension
    rack: Dimension
    network: Dimension
    shrinking: bool = True
    overlapping: bool = False

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


def dimension(
    kind: str, gbps: float, latency_us: float, nic_latency_us: float = 0.0, algorithm: str | None = None
) -> Dimension:
    """Links as a scenario describes them, in Gbit/s and microseconds."""
    return Dimension(kind, gbps_to_bytes_per_s(gbps), latency_us * 1e-6, nic_latency_us * 1e-6, algorithm or "")


# Dally, section III-C: NVSwitch 900 GB/s (both directions), Quantum 400 Gbit/s, Spectrum 800 Gbit/s.
# The latencies are ours.
MODERN = Hierarchy(
    dimension("switch", 3600, 1.0), dimension("switch", 400, 2.0, 1.0), dimension("switch", 800, 10.0, 1.0)
)
# The older set: PCIe, InfiniBand of 50 Gbit/s with tens of microseconds; 10 Gbit/s Ethernet between racks is ours.
OLDER = Hierarchy(dimension("ring", 64, 5.0), dimension("switch", 50, 20.0, 5.0), dimension("switch", 10, 50.0, 5.0))
