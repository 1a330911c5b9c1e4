"""RateRule: a pace that sets the rate of every single flow, slot by slot.

A rule sees flows, links and what became of its earlier rates; it knows no clock and no network. The world asks for
rates at the start of each slot, lets the network carry what it can, and tells the rule what was carried.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.model.flow_set import FlowSet

__all__ = ["Carried", "Demand", "RateRule"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Carried:
    """What a slot came to, by link: bytes per second of our flows, and whether more was asked of it than it has.

    `loss` is the share of packets that are lost at random, which a sender notices.
    """

    link: Floats
    full: Bools
    loss: float = 0.0


@dataclass(frozen=True)
class Demand:
    """How a run begins: capacity of every link, and the seed of what is drawn."""

    capacity: Floats
    seed: int = 0
    loss: float = 0.0


class RateRule(ABC):
    """Rates for the flows of one run; it may remember."""

    slot_s: float = 0.06
    start_after: bool = False  # a broadcast waits for all of its pushes, a ring's step for the whole step before
    goodput: float = 1.0  # part of what it sends that counts, losses aside
    fills: bool = False  # what nobody has planned for and nobody else takes is shared among flows that have bytes left

    @abstractmethod
    def begin(self, demand: Demand) -> None:
        """Before the first slot."""

    @abstractmethod
    def decide(self, slot: int, flows: FlowSet, live: npt.NDArray[np.int64]) -> Floats:
        """Rates that the live flows ask for in this slot, in bytes per second, by row (other rows are ignored)."""

    def carried(self, slot: int, flows: FlowSet, live: npt.NDArray[np.int64], came: Carried) -> None:  # noqa: B027 - most need nothing
        """What the slot came to; `flows.rate` and `flows.sent` are those after it."""

    def over(self, low: int, high: int, flows: FlowSet) -> None:  # noqa: B027 - most need nothing
        """Flows of these rows have ended, all bytes sent, or are gone with their job."""
