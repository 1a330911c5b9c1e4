"""Traffic: what a job sends over each link in one iteration, alone on the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Arcs", "Traffic"]

Arcs = tuple[tuple[float, float, float], ...]  # (start, length, bytes per second) of each time of sending at one rate


@dataclass(frozen=True)
class Traffic:
    """One iteration on given GPUs, as a profile of a few iterations shows it.

    Arcs count from the start of `task`, the first transfer that goes over a link (None if there is none): that is
    where the job can be gated. It begins `offset_s` into the iteration. `iteration_s` is the mean time of an
    iteration, `spread_s` its standard deviation.
    """

    iteration_s: float
    task: int | None = None
    offset_s: float = 0.0
    spread_s: float = 0.0
    links: Mapping[int, Arcs] = field(default_factory=dict)
