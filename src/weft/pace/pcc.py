"""pcc: every flow tries two rates and moves to where its utility is greater (PCC Allegro), as a fluid model.

One trial takes two slots of 10 ms, one at rate x (1 + eps), one at rate x (1 - eps). Utility is throughput
x (1 - 1 / (1 + exp(-100 (loss - 0.05)))) - rate x loss. Until its utility first falls a flow doubles its rate in every
slot. It keeps its rate from one iteration to the next.
"""

from __future__ import annotations

import numpy as np

from weft.model.flow_set import FlowSet
from weft.pace.base import RatedPace
from weft.pace.rates import Carried, Demand, Floats, Ints, Limits, Moment, RateRule, Transport

__all__ = ["Pcc", "PccRule", "utility"]

EPS, FIRST = 0.05, 0.05  # step of a trial; part of the line's rate at which a flow begins


def utility(rate: Floats, loss: Floats) -> Floats:
    """Allegro's utility: a loss of more than 5 % is not worth its throughput."""
    worth: Floats = rate * (1.0 - loss) * (1.0 - 1.0 / (1.0 + np.exp(-100.0 * (loss - 0.05)))) - rate * loss
    return worth


class PccRule(RateRule):
    """See the module."""

    slot_s = 0.01

    def begin(self, demand: Demand) -> None:
        """No flow has a rate yet."""
        self.rate, self.last, self.asked = np.zeros(0), np.zeros(0), np.zeros(0)
        self.doubling, self.tried = np.zeros(0, np.bool_), np.zeros(0, np.bool_)  # tried: for the whole of a slot
        self.owner = np.zeros(0, np.int64)  # whose rates they are

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """The rate of the trial."""
        more = len(flows) - len(self.rate)
        if more:
            self.rate, self.last, self.asked = (
                np.concatenate([a, np.zeros(more)]) for a in (self.rate, self.last, self.asked)
            )
            self.doubling = np.concatenate([self.doubling, np.ones(more, np.bool_)])
            self.tried = np.concatenate([self.tried, np.zeros(more, np.bool_)])
            self.owner = np.concatenate([self.owner, np.full(more, -1, np.int64)])
        new = live[(self.rate[live] == 0.0) | (self.owner[live] != flows.uid[live])]
        self.owner[new] = flows.uid[new]
        self.rate[new], self.doubling[new], self.last[new] = FIRST * flows.line[new], True, 0.0
        step = np.where(self.doubling[live], 1.0, 1.0 + EPS if when.slot % 2 == 0 else 1.0 - EPS)
        self.asked[live] = np.minimum(self.rate[live] * step, flows.line[live])
        self.tried[live] = when.begins
        return Limits(self.asked.copy())

    def carried(self, slot: int, flows: FlowSet, live: Ints, came: Carried) -> None:
        """What was asked for and not carried is loss; a flow that waits for others, or began within the slot, learns
        nothing."""
        tried = live[self.tried[live]]
        hops = flows.path[tried]
        full = (came.full[np.maximum(hops, 0)] & (hops >= 0)).any(axis=1)
        asked = np.maximum(self.asked[tried], 1e-9)
        lost = np.where(full, np.clip(1.0 - flows.rate[tried] / asked, 0.0, 1.0), came.loss)
        worth = utility(asked, lost)
        starts = self.doubling[tried]
        fell = worth < self.last[tried]
        rate = self.rate[tried]
        better = np.where(worth > self.last[tried], 1.0 - EPS, 1.0 + EPS)  # the second trial is the lower one
        moved = np.where(starts, np.where(fell, rate / 2.0, rate * 2.0), rate * better if slot % 2 else rate)
        self.rate[tried] = np.clip(moved, 1e-3 * flows.line[tried], flows.line[tried])
        self.doubling[tried] = starts & ~fell
        self.last[tried] = worth


class Pcc(RatedPace):
    """`pcc`."""

    name = "pcc"

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that slow down when a rate does not pay."""
        return Transport(opened=True)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return PccRule()
