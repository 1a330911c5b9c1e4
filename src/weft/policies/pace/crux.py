"""crux: strict priority between a few levels, max-min inside one; levels follow from how intense jobs are (Crux).

What a job computes and sends is known from its profile. Its busiest link says its intensity, two jobs played on one
link say how much a priority is worth to each, and the order of all jobs is cut into levels (`weft.policies.crux`).
Levels change when a job comes or goes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weft.model.flows import FlowSet
from weft.model.policy import setting
from weft.policies.crux import Load, ranked
from weft.policies.crux.levels import compressed
from weft.policies.pace.base import RatedPace
from weft.policies.pace.rates import Demand, Ints, Limits, Moment, RateRule, Transport

LEVELS = 8  # as in the paper's replay of a trace; its test bed had fewer


class CruxRule(RateRule):
    """A level for all flows of a job."""

    slot_s = math.inf
    moves = True
    everyone = True

    def __init__(self, levels: int = LEVELS) -> None:
        self.levels = levels

    def begin(self, demand: Demand) -> None:
        """No job is known yet."""
        self.capacity, self.seed = demand.capacity, demand.seed
        self.loads: dict[int, Load] = {}  # by a job's uid
        self.links: dict[int, frozenset[int]] = {}
        self.level: dict[int, int] | None = {}  # None: to be found anew

    def came(self, rows: Ints, flows: FlowSet) -> None:
        """Its intensity is known from its profile. Communication is taken to follow computing, as the rule knows no
        more of a job than the sums of both."""
        busy: dict[int, float] = {}
        for row in rows[flows.size[rows] > 0.0].tolist():
            for link in flows.path[row].tolist():
                if link >= 0:
                    busy[link] = busy.get(link, 0.0) + float(flows.size[row] / self.capacity[link])
        if busy:
            uid, first = int(flows.uid[rows[0]]), rows[0]
            comm_s, compute_s = round(max(busy.values()), 12), float(flows.compute_s[first])
            self.loads[uid] = Load(float(flows.work_gpu_s[first]), comm_s, compute_s)
            self.links[uid] = frozenset(busy)
            self.level = None

    def gone(self, rows: Ints, flows: FlowSet) -> None:
        """The others have the levels to themselves."""
        for uid in {*flows.uid[rows].tolist()} & self.loads.keys():
            del self.loads[uid], self.links[uid]
            self.level = None

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Levels as they are; they are found anew after jobs have come or gone."""
        if self.level is None:
            self.level = self._levels()
        uids, of_row = np.unique(flows.uid[live], return_inverse=True)
        levels = np.zeros(len(flows), np.int64)
        levels[live] = np.array([self.level.get(uid, 0) for uid in uids.tolist()], np.int64)[of_row]
        return Limits(np.full(len(flows), math.inf), levels=levels)

    def _levels(self) -> dict[int, int]:
        order = ranked(dict(sorted(self.loads.items())))
        weight = np.zeros((len(order), len(order)))
        for a, strong in enumerate(order):
            for b in range(a + 1, len(order)):
                if self.links[strong] & self.links[order[b]]:
                    weight[a, b] = self.loads[strong].intensity
        drawn = np.random.default_rng([self.seed, len(order)])
        return dict(zip(order, compressed(weight, self.levels, drawn), strict=True))


@dataclass(eq=False)
class Crux(RatedPace):
    """`crux`, or `crux:N` for N levels (8).

    Kept: intensity, the correction factor k, priorities that all differ, their compression by the best cuts of ten
    random topological orders, strict priority between levels. Left out: profiling (profiles are known), semaphores on
    PCIe, which is not modelled, and the links inside servers; paths are `--route crux`. Ours: "most traffic" is the
    longest time on a busiest link, and k comes from 300 iterations.
    """

    name = "crux"
    levels: int = setting(LEVELS, within="[1, 64]", whole=True)

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that react to congestion."""
        return Transport(opened=True)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return CruxRule(self.levels)
