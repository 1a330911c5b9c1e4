"""mcs: coflows with start-after dependencies on one big switch, smallest bottleneck first (the paper's MCS).

A central scheduler that sees all flows and all NICs, and no link between them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.model.flow_set import FlowSet
from weft.pace.base import Admission, Pace
from weft.pace.rates import Demand, Floats, RateRule

__all__ = ["Mcs", "McsRule"]


class McsRule(RateRule):
    """Coflow by coflow: all of its flows end together, as early as what is left of the NICs allows."""

    start_after = True

    def begin(self, demand: Demand) -> None:
        """NICs are the first and last links of paths."""
        self.capacity = demand.capacity

    def decide(self, slot: int, flows: FlowSet, live: npt.NDArray[np.int64]) -> Floats:
        """Rates by the smallest remaining bottleneck; a flow that still waits for those before it gets none."""
        rates = np.zeros(len(flows))
        ready = live[_may_start(flows, live)]
        out = flows.path[ready, 0]
        hops = (flows.path[ready] >= 0).sum(axis=1)
        into = flows.path[ready, hops - 1]
        left = (flows.size - flows.sent)[ready]
        jobs, member = np.unique(flows.job[ready], return_inverse=True)
        order = np.argsort(member, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(member, minlength=len(jobs)))[:-1]) if len(jobs) else []
        need = [_bottleneck_s(out[g], into[g], left[g], self.capacity) for g in groups]
        room = self.capacity.copy()
        for g in (groups[k] for k in np.argsort(need, kind="stable")):
            seconds = _bottleneck_s(out[g], into[g], left[g], room)
            if not 0.0 < seconds < np.inf:
                continue
            rate = left[g] / max(seconds, self.slot_s)
            rates[ready[g]] = rate
            np.subtract.at(room, out[g], rate)
            np.subtract.at(room, into[g], rate)
            np.maximum(room, 0.0, out=room)
        return rates


def _may_start(flows: FlowSet, live: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Flows of a ring, and those whose feeders are complete."""
    ok = np.ones(len(live), np.bool_)
    for n, i in enumerate(live):
        low, high = flows.feed0[i], flows.feed1[i]
        if flows.chunk[i] == 0.0 and high > low:
            ok[n] = bool((flows.sent[low:high] >= flows.size[low:high]).all())
    return ok


def _bottleneck_s(
    out: npt.NDArray[np.int32], into: npt.NDArray[np.int32], left: Floats, room: Floats
) -> float:  # fmt: skip
    """Seconds that the busiest NIC of a coflow needs for it alone; infinite if one of its NICs is full."""
    links = np.concatenate([out, into])
    used, where = np.unique(links, return_inverse=True)
    load = np.bincount(where, weights=np.concatenate([left, left]))
    free = room[used]
    with np.errstate(divide="ignore"):
        return float((load / np.where(free > 1e-6 * room.max(), free, 0.0)).max())


class Mcs(Pace):
    """See the module."""

    name = "mcs"
    steers = True

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        """Everything at once; rates do the rest."""
        return Admission("all")

    def rates(self) -> RateRule:
        """The rule of one run."""
        return McsRule()
