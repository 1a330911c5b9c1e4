"""mcs: coflows with start-after dependencies on one big switch, smallest bottleneck first (the paper's MCS).

A central scheduler sees all flows and all NICs, and no link between them. `coflow_rates` is meant to be read;
mcs_kernel.py does the same operations in the same order for thousands of jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np

from weft.compiled import load
from weft.model.flows import FlowSet
from weft.pace.base import RatedPace
from weft.pace.rates import Demand, Ints, Limits, Moment, RateRule, Transport

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


class McsRule(RateRule):
    """Coflow by coflow: all of its flows end together, as early as what is left of the NICs allows."""

    everyone = True

    def begin(self, demand: Demand) -> None:
        """NICs are the first and last links of paths."""
        self.capacity = demand.capacity

    @property
    def kernel(self) -> ModuleType:
        """weft.pace.mcs.mcs_kernel, compiled by numba when first called."""
        return load("weft.pace.mcs.mcs_kernel")

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Rates by the smallest remaining bottleneck."""
        rates = np.zeros(len(flows))
        self.kernel.decide(live, flows.path, flows.job, flows.sent, flows.size, self.capacity, rates)
        return Limits(rates)


class Mcs(RatedPace):
    """See the module."""

    name = "mcs"

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows that start after one another, whose senders keep the rate they were given."""
        return Transport(opened=True, start_after=True, reacts=False)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return McsRule()
