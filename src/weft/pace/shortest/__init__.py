"""shortest (ours): on every link the job whose communication is nearest to its end goes first, with the weight of all.

Shortest remaining iteration first, on levels: a job is on the first level on which no job before it shares a link with
it, and what an earlier level leaves of a link the next one has. Who goes first weighs as much as all of our flows on
its links together, so traffic of others beside it has what it would have if ours shared the link fairly. Senders react
to congestion. `ranks` is meant to be read; shortest_kernel.py does the same for thousands of jobs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import ModuleType

import numpy as np

from weft.compiled import load
from weft.model.flows import FlowSet
from weft.pace.base import RatedPace
from weft.pace.rates import MOST_RANK, Demand, Ints, Limits, Moment, RateRule, Transport

FINE = 840  # weight of a foreign flow, and of a flow that has its links to itself


def ranks(jobs: Sequence[Mapping[int, tuple[float, int]]]) -> list[tuple[int, int]]:
    """Level and weight of jobs, given for each of their links the seconds that they still need of it and the number of
    their flows there."""
    flows: dict[int, int] = {}
    for links in jobs:
        for link, (_, count) in links.items():
            flows[link] = flows.get(link, 0) + count
    left = [max((seconds for seconds, _ in links.values()), default=0.0) for links in jobs]
    taken: dict[int, int] = {}  # levels of a link that are taken
    found = [(0, FINE)] * len(jobs)
    for j in sorted(range(len(jobs)), key=left.__getitem__):  # stable: of several the one that came first
        level = max((taken.get(link, 0) for link in jobs[j]), default=0)
        share = max((flows[link] / count for link, (_, count) in jobs[j].items()), default=1.0)
        for link in jobs[j]:
            taken[link] = level + 1
        found[j] = (level, min(round(FINE * share), MOST_RANK))
    return found


class ShortestRule(RateRule):
    """Asked when transfers start or end: between these the order does not change, since who goes first gets shorter."""

    slot_s = math.inf
    everyone = True

    def begin(self, demand: Demand) -> None:
        """Nothing to remember."""
        self.capacity = demand.capacity

    @property
    def kernel(self) -> ModuleType:
        """weft.pace.shortest.shortest_kernel, compiled by numba when first called."""
        return load("weft.pace.shortest.shortest_kernel")

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Levels and weights by job; all flows of a job have the same."""
        levels, weights = np.zeros(len(flows), np.int64), np.ones(len(flows), np.int64)
        _, job = np.unique(flows.uid[live], return_inverse=True)
        self.kernel.ranks(live, job, flows.path, flows.size - flows.sent, self.capacity, FINE, levels, weights)
        return Limits(np.full(len(flows), math.inf), weights, levels)


class Shortest(RatedPace):
    """See the module."""

    name = "shortest"

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that react to congestion."""
        return Transport(opened=True, foreign_weight=FINE)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return ShortestRule()
