"""equal: every flow asks for all it can get, and the links share themselves out; slotted as `flow` is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.model.flow_set import FlowSet
from weft.pace.base import RatedPace
from weft.pace.rates import Demand, Floats, RateRule

__all__ = ["Equal", "EqualRule"]


class EqualRule(RateRule):
    """Line rate for everybody."""

    def begin(self, demand: Demand) -> None:
        """Nothing to remember."""

    def decide(self, slot: int, flows: FlowSet, live: npt.NDArray[np.int64]) -> Floats:
        """The line's rate."""
        return flows.line.copy()


class Equal(RatedPace):
    """Equal shares: what a slotted simulation without any scheduler gives."""

    name = "equal"

    def rates(self) -> RateRule:
        """The rule of one run."""
        return EqualRule()
