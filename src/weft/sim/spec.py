"""NetworkSpec and RunSpec: the physics and the circumstances of a simulated run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["NetworkSpec", "RunSpec", "Tier"]


@dataclass(frozen=True, slots=True)
class Tier:
    """Exposed communication as a fraction of compute time, by how far apart the workers are."""

    machine: float
    rack: float
    network: float


@dataclass(frozen=True)
class NetworkSpec:
    """How transfers share links and what they cost. The constants belong to k-way sharing (Ada-SRSF, Eq. 5)."""

    sharing: str = "max-min"  # ideal, max-min, k-way
    cost: str = "links"  # links, tiers
    collective: str = "ring"  # for transfers whose profile does not say
    a_s: float = 0.0
    b_s_per_byte: float = 8.56e-10
    eta_s_per_byte: float = 2.35e-10
    tiers: Mapping[str, Tier] = field(default_factory=dict)


@dataclass(frozen=True)
class RunSpec:
    """Seed, exactness, and what goes wrong on purpose."""

    seed: int = 0
    exact: bool = True
    skip: bool = True
    restart_s: float = 0.0
    jitter: float = 0.0
    stragglers: float = 0.0
    straggler_factor: float = 2.0
    start_latency_s: float = 0.0
    failure_rate: float = 0.0
    checkpoint_every: int = 1
    until_s: float | None = None
