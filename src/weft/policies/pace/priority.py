"""priority: on every link the transfers of the job that came first go first."""

from __future__ import annotations

import math

import numpy as np

from weft.model.flows import FlowSet
from weft.policies.pace.base import RatedPace
from weft.policies.pace.rates import Demand, Ints, Limits, Moment, RateRule, Transport


class PriorityRule(RateRule):
    """Levels by age. What an older job leaves of a link the younger ones have."""

    slot_s = math.inf
    everyone = True
    moves = True

    def begin(self, demand: Demand) -> None:
        """Nothing to remember."""

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """The oldest job that sends is on level 0, the next on level 1, ..."""
        levels = np.zeros(len(flows), np.int64)
        levels[live] = np.unique(flows.uid[live], return_inverse=True)[1]
        return Limits(np.full(len(flows), math.inf), levels=levels)


class Priority(RatedPace):
    """`priority`. Two jobs whose communication fits beside the other's computing fall into step by it."""

    name = "priority"

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that react to congestion."""
        return Transport(opened=True)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return PriorityRule()
