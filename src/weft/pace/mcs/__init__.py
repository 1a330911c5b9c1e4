"""mcs: coflows with start-after dependencies on one big switch, smallest bottleneck first (the paper's MCS).

A central scheduler that sees all flows and all NICs, and no link between them. plan.py has it to be read,
mcs_kernel.py for thousands of jobs.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from weft.compiled import load
from weft.model.flow_set import FlowSet
from weft.pace.base import RatedPace
from weft.pace.rates import Demand, Ints, Limits, Moment, RateRule, Transport

__all__ = ["Mcs", "McsRule"]


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
        """Single flows that start after one another, of senders that keep the rate they are told."""
        return Transport(opened=True, start_after=True, reacts=False)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return McsRule()
