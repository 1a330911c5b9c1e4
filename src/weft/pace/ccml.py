"""ccml: jobs that share a NIC share it unfairly, so that their communication moves apart (the paper's CCML).

Host-side only: a host knows its own jobs and its NIC. Jobs are aggressive in the order in which they came.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from weft.errors import StackError
from weft.model.flow_set import FlowSet
from weft.pace.base import RatedPace
from weft.pace.rates import Demand, Floats, RateRule

__all__ = ["Ccml", "CcmlRule"]


class CcmlRule(RateRule):
    """On a NIC each job gets `unfair` times the share of the next one; what a job cannot use the others have."""

    fills = True

    def __init__(self, unfair: float = 4.0) -> None:
        self.unfair = unfair

    def begin(self, demand: Demand) -> None:
        """Links are known by their first hop only."""
        self.capacity = demand.capacity

    def decide(self, slot: int, flows: FlowSet, live: npt.NDArray[np.int64]) -> Floats:
        """Shares of the NIC by rank of the job among those that send there now."""
        rates = np.zeros(len(flows))
        nic, job = flows.path[live, 0].astype(np.int64), flows.uid[live].astype(np.int64)
        order = np.lexsort((job, nic))
        nic, job = nic[order], job[order]
        new_nic = np.diff(nic, prepend=-1) != 0
        new_job = new_nic | (np.diff(job, prepend=-1) != 0)
        jobs_so_far = np.cumsum(new_job)
        first = np.maximum.accumulate(np.where(new_nic, jobs_so_far, 0))
        group = jobs_so_far - 1
        weight = self.unfair ** -(jobs_so_far - first).astype(np.float64) / np.bincount(group)[group]
        port = np.cumsum(new_nic) - 1
        rates[live[order]] = self.capacity[nic] * weight / np.bincount(port, weights=weight)[port]
        return rates


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

    def rates(self) -> RateRule:
        """The rule of one run."""
        return CcmlRule(self.unfair)
