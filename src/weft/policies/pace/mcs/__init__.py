"""mcs: coflows of jobs with several stages on one big switch, in the job order of MCS's paper, with backfilling.

A central scheduler sees all flows and all NICs, and no link between them (Tian et al., INFOCOM 2018). Its senders keep
the rates they were given, and foreign traffic gets what they leave. With `mcs:reacts` they slow down for loss, so that
foreign flows get their fair share; with `mcs:leaves=40%` foreign flows get that part of it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Self

import numpy as np

from weft.errors import StackError
from weft.kernels import load
from weft.model.flows import FlowSet
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


class Mcs(RatedPace):
    """`mcs`, `mcs:reacts`, or `mcs:leaves=X%`; see the module."""

    def __init__(self, leaves: float = 0.0) -> None:
        self.leaves = leaves
        self.name = {0.0: "mcs", 1.0: "mcs:reacts"}.get(leaves, f"mcs:leaves={100 * leaves:g}%")

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`mcs`, `mcs:reacts`, or `mcs:leaves=X%`."""
        if arg is None or arg == "reacts":
            return cls(float(arg is not None))
        try:
            leaves = float(arg.removeprefix("leaves=").removesuffix("%")) / 100.0 if arg[-1:] == "%" else -1.0
        except ValueError:
            leaves = -1.0
        if not arg.startswith("leaves=") or not 0.0 <= leaves <= 1.0:
            raise StackError(f"mcs:{arg}: write mcs, mcs:reacts, or mcs:leaves=X% with X from 0 to 100")
        return cls(leaves)

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows that start after one another."""
        return Transport.leaving(self.leaves, start_after=True)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return McsRule()
