"""ccml: jobs that share a NIC share it unfairly, so that their communication moves apart (the paper's CCML).

Host-side only: a host knows its own jobs and its NIC. Jobs are aggressive in the order in which they came. Their flows
have weights, by which links share themselves out; so what one cannot use the others have.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from weft.errors import StackError
from weft.model.flow_set import FlowSet
from weft.pace.base import RatedPace
from weft.pace.rates import Demand, Ints, Limits, Moment, RateRule, Transport

__all__ = ["Ccml", "CcmlRule"]

FINE = 840.0  # the weight of the last job of a queue: a number that up to 8 flows of a job share evenly
MOST = float(1 << 18)  # the weight of the first job of a long queue; weights are whole numbers, and their sums small


class CcmlRule(RateRule):
    """On a NIC each job weighs `unfair` times as much as the next one, whatever the number of its flows there."""

    slot_s = math.inf
    everyone = True

    def __init__(self, unfair: float = 4.0) -> None:
        self.unfair = unfair

    def begin(self, demand: Demand) -> None:
        """Nothing to remember."""

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Weights by the place of a job in the queue of its busiest NIC; one weight for all flows of a job, since they
        keep step with each other."""
        nic, uid = flows.path[live, 0].astype(np.int64), flows.uid[live]
        pairs, count = np.unique(np.stack([nic, uid], axis=1), axis=0, return_counts=True)
        first = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1) != 0)
        place = np.arange(len(pairs)) - np.repeat(first, np.diff(first, append=len(pairs)))
        jobs, of_pair = np.unique(pairs[:, 1], return_inverse=True)
        behind, beside = np.zeros(len(jobs)), np.ones(len(jobs))
        np.maximum.at(behind, of_pair, place)
        np.maximum.at(beside, of_pair, count)
        deepest = math.log(MOST / FINE) / math.log(self.unfair) if self.unfair > 1.0 else 0.0
        whole = FINE * self.unfair ** min(float(behind.max(initial=0.0)), deepest)
        by_job = np.maximum(np.rint(whole * self.unfair**-behind / beside), 1.0).astype(np.int64)
        weights = np.ones(len(flows), np.int64)
        weights[live] = by_job[np.searchsorted(jobs, uid)]
        return Limits(np.full(len(flows), math.inf), weights)


class Ccml(RatedPace):
    """`ccml`, or `ccml:X` for X times the share of the next job."""

    def __init__(self, unfair: float = 4.0) -> None:
        self.unfair = unfair
        self.name = "ccml" if unfair == 4.0 else f"ccml:{unfair:g}"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`ccml` or `ccml:X`."""
        if arg is None:
            return cls()
        try:
            unfair = float(arg)
        except ValueError:
            unfair = 0.0
        if not 1.0 <= unfair <= 1e6:
            raise StackError(f"ccml:{arg}: write ccml, or ccml:X with a number X from 1 to 1000000")
        return cls(unfair)

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that react to congestion; a foreign flow is as aggressive as the last job of a
        queue."""
        return Transport(opened=True, foreign_weight=int(FINE))

    def rates(self) -> RateRule:
        """The rule of one run."""
        return CcmlRule(self.unfair)
