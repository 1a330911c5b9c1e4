"""FlowGroup: a transfer on the wire, once collective, placement and routes are known."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FlowGroup"]


@dataclass(frozen=True, slots=True)
class FlowGroup:
    """Flows that advance in lock step: each carries `bytes`; link l carries an integer number of them.

    `ports` are the servers it uses (empty if it stays inside one), for admission rules and k-way sharing.
    `demand_bytes_per_s` caps each flow; `latency_s` passes before the first byte.
    """

    bytes: float
    links: tuple[tuple[int, int], ...]  # (link id, flows), sorted by link id
    ports: tuple[int, ...] = ()
    demand_bytes_per_s: float = float("inf")
    latency_s: float = 0.0
