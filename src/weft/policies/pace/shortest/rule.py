"""The rule of `shortest`: what others are owed first, then job by job, the shortest remaining iteration first."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np

from weft.kernels import load
from weft.model.flows import FlowSet
from weft.policies.pace.rates import NOBODY, Demand, Ints, Limits, Moment, Others, RateRule

WEIGHT = 8.0  # a job of ours weighs as much as so many foreign flows on a link
ROUNDS = 40  # in which prices are settled; where flows meet on one link the first is exact


class ShortestRule(RateRule):
    """Asked when transfers start or end, foreign ones too: between these the order does not change, since who goes
    first gets shorter."""

    slot_s = math.inf
    everyone = True
    minds_others = True

    def __init__(self, weight: float = WEIGHT) -> None:
        self.weight = weight

    def begin(self, demand: Demand) -> None:
        """Nobody else sends yet."""
        self.capacity = demand.capacity
        self.part: dict[int, float] = {}  # by a job's uid: the fraction of an iteration alone for which it sends
        self.others(NOBODY)

    @property
    def kernel(self) -> ModuleType:
        """weft.policies.pace.shortest.shortest_kernel, compiled by numba when first called."""
        return load("weft.policies.pace.shortest.shortest_kernel")

    def came(self, rows: Ints, flows: FlowSet) -> None:
        """What a job computes and sends in an iteration is known from its profile."""
        busy: dict[int, float] = {}
        for row in rows[flows.size[rows] > 0.0].tolist():
            for link in flows.path[row].tolist():
                if link >= 0:
                    busy[link] = busy.get(link, 0.0) + float(flows.size[row] / self.capacity[link])
        if busy:
            uid, sends_s, compute_s = int(flows.uid[rows[0]]), max(busy.values()), float(flows.compute_s[rows].max())
            self.part[uid] = sends_s / (sends_s + compute_s)

    def gone(self, rows: Ints, flows: FlowSet) -> None:
        """Forget it."""
        for uid in set(flows.uid[rows].tolist()):
            self.part.pop(uid, None)

    def others(self, there: Others) -> None:
        """Remember them."""
        self.there = there

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Caps, job by job, on what each link has left when others have had what they are owed."""
        uids, job = np.unique(flows.uid[live], return_inverse=True)
        part = np.array([self.part.get(uid, 1.0) for uid in uids.tolist()])
        weights, caps = self.weight * (part.mean() if len(part) else 1.0) / part, np.zeros(len(flows))
        self.kernel.decide(
            live, job, flows.path, flows.size - flows.sent, self.capacity, self.there.path, self.there.most, weights,
            ROUNDS, caps,
        )  # fmt: skip
        return Limits(caps)
