"""mcs: coflows of jobs with several stages on one big switch, in the job order of MCS's paper, with backfilling.

A central scheduler sees all flows and all NICs, and no link between them (Tian et al., INFOCOM 2018). Its senders keep
the rates they were given, and foreign traffic gets what they leave. With `mcs:reacts` they slow down for loss, so that
foreign flows get their fair share; with `mcs:leaves=40%` foreign flows get that part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from weft.kernels import load
from weft.model.flows import FlowSet
from weft.model.policy import setting
from weft.policies.pace.base import RatedPace
from weft.policies.pace.rates import Bools, Demand, Ints, Limits, Moment, RateRule, Transport, resized


class McsRule(RateRule):
    """Coflow by coflow: all of its flows end together, as early as what is left of the NICs allows; then the rest.

    Jobs are ordered anew at every slot and when one begins an iteration.
    """

    everyone = True

    def begin(self, demand: Demand) -> None:
        """NICs are the first and last links of paths."""
        self.capacity = demand.capacity
        self.place: Ints = np.zeros(0, np.int64)  # by row: its job's place in the order
        self.done: Bools = np.zeros(0, np.bool_)  # rows that have ended in this iteration of their job
        self.owner: Ints = np.zeros(0, np.int64)  # whose rows they are

    @property
    def kernel(self) -> ModuleType:
        """weft.policies.pace.mcs.mcs_kernel, compiled by numba when first called."""
        return load("weft.policies.pace.mcs.mcs_kernel")

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Rates by the order of jobs."""
        if len(flows) != len(self.place):
            self.place, self.owner = (resized(old, len(flows), -1) for old in (self.place, self.owner))
            self.done = resized(self.done, len(flows))
        others = self.owner != flows.uid
        self.place[others], self.done[others], self.owner[others] = -1, False, flows.uid[others]
        again = live[self.done[live] | (self.place[live] < 0)]
        if when.begins or len(again):
            self.done[self.kernel.rows_of_jobs(again, flows.uid)] = False
            self._order(flows, live)
        rates = np.zeros(len(flows))
        self.kernel.decide(live, flows.path, flows.uid, flows.sent, flows.size, self.capacity, self.place, rates)
        return Limits(rates)

    def _order(self, flows: FlowSet, live: Ints) -> None:
        """Places of the jobs that send, by what all stages of their iterations still have to send."""
        theirs = self.kernel.rows_of_jobs(live, flows.uid)
        rows = np.flatnonzero(theirs & ~self.done & (flows.path[:, 0] >= 0))
        left = np.where(flows.active[rows], flows.size[rows] - flows.sent[rows], flows.size[rows])
        _, job = np.unique(flows.uid[rows], return_inverse=True)
        self.place[rows] = self.kernel.job_order(job, flows.path[rows], left, self.capacity)[job]

    def over(self, rows: Ints, flows: FlowSet) -> None:
        """They count no more in this iteration."""
        self.done[rows[rows < len(self.done)]] = True


@dataclass(eq=False)
class Mcs(RatedPace):
    """`mcs`, `mcs:reacts`, or `mcs:leaves=X%`; see the module."""

    name = "mcs"
    leaves: float = setting(0.0, "leaves", within="[0, 100]", unit="%", words={"reacts": 1.0})

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows that start after one another."""
        return Transport.leaving(self.leaves, start_after=True)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return McsRule()
