"""mcs: coflows with start-after dependencies on one big switch, smallest bottleneck first (the paper's MCS).

A central scheduler that sees all flows and all NICs, and no link between them. mcs_plan.py has it to be read,
mcs_kernel.py for thousands of jobs.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
import numpy.typing as npt

from weft.compiled import load
from weft.model.flow_set import FlowSet
from weft.pace.base import RatedPace
from weft.pace.rates import Demand, Floats, RateRule

__all__ = ["Mcs", "McsRule"]


class McsRule(RateRule):
    """Coflow by coflow: all of its flows end together, as early as what is left of the NICs allows."""

    start_after = True

    def begin(self, demand: Demand) -> None:
        """NICs are the first and last links of paths."""
        self.capacity = demand.capacity

    @property
    def kernel(self) -> ModuleType:
        """weft.pace.mcs_kernel, compiled by numba when first called."""
        return load("weft.pace.mcs_kernel", ("pace",))

    def decide(self, slot: int, flows: FlowSet, live: npt.NDArray[np.int64]) -> Floats:
        """Rates by the smallest remaining bottleneck; a flow that still waits for those before it gets none."""
        rates = np.zeros(len(flows))
        self.kernel.decide(
            live, flows.path, flows.job, flows.feed0, flows.feed1, flows.chunk, flows.sent, flows.size, self.capacity,
            self.slot_s, rates,
        )  # fmt: skip
        return rates


class Mcs(RatedPace):
    """See the module."""

    name = "mcs"

    def rates(self) -> RateRule:
        """The rule of one run."""
        return McsRule()
