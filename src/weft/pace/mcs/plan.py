"""MCS, to be read: coflows on one big switch, smallest remaining bottleneck first; mcs_kernel.py does the same.

Flows are given by job, the NIC they leave and the NIC they enter, and the bytes they have left. Both do the same
operations in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["FULL", "bottleneck_s", "coflow_rates"]

FULL = 1e-6  # a NIC with no more than this part of its capacity left is full


def bottleneck_s(
    flows: Sequence[tuple[int, int, float]], room: Sequence[float], capacity: Sequence[float]
) -> float:  # fmt: skip
    """Seconds that the busiest NIC of a coflow needs for it; infinite if one of its NICs is full."""
    load: dict[int, float] = {}
    for out, into, left in flows:
        load[out] = load.get(out, 0.0) + left
        load[into] = load.get(into, 0.0) + left
    longest = 0.0
    for link, amount in load.items():
        if room[link] <= FULL * capacity[link]:
            return float("inf")
        longest = max(longest, amount / room[link])
    return longest


def coflow_rates(
    job: Sequence[int], nics: Sequence[tuple[int, int]], left: Sequence[float], capacity: Sequence[float]
) -> list[float]:
    """Rates of flows that may send; the flows of a job (side by side) are a coflow and end together."""
    coflows: dict[int, list[int]] = {}
    for i, name in enumerate(job):
        coflows.setdefault(name, []).append(i)
    room, rates = list(capacity), [0.0] * len(job)
    flows = {name: [(*nics[i], left[i]) for i in members] for name, members in coflows.items()}
    need = {name: bottleneck_s(flows[name], capacity, capacity) for name in coflows}
    for name in sorted(coflows, key=need.__getitem__):  # stable: earlier rows first
        seconds = bottleneck_s(flows[name], room, capacity)
        if not 0.0 < seconds < float("inf"):
            continue
        for i in coflows[name]:
            rates[i] = left[i] / seconds
            for link in nics[i]:
                room[link] = max(room[link] - rates[i], 0.0)
    return rates
