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
    everyone = True
    moves = True

    def __init__(self, levels: int = LEVELS) -> None:
        self.levels = levels

    def begin(self, demand: Demand) -> None:
        """No job is known yet."""
        self.capacity, self.seed = demand.capacity, demand.seed
        self.rows: dict[int, Ints] = {}  # that send something over links, by a job's uid
        self.level: dict[int, int] = {}
        self.known: tuple[list[int], bytes] = ([], b"")  # jobs, paths and bytes for which the levels were found

    def came(self, rows: Ints, flows: FlowSet) -> None:
        """Its intensity is known from its profile."""
        mine = rows[(flows.size[rows] > 0.0) & (flows.path[rows, 0] >= 0)]
        if len(mine):
            self.rows[int(flows.uid[mine[0]])] = mine

    def gone(self, rows: Ints, flows: FlowSet) -> None:
        """The others have the levels to themselves."""
        for uid in {*flows.uid[rows].tolist()}:
            self.rows.pop(uid, None)

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Levels as they are; they are found anew after jobs have come or gone, or gone over other paths."""
        rows = np.concatenate([*self.rows.values(), live[:0]])
        known = [*self.rows], flows.path[rows].tobytes() + flows.size[rows].tobytes()
        if known != self.known:
            self.known, self.level = known, self._levels(flows)
        uids, of_row = np.unique(flows.uid[live], return_inverse=True)
        levels = np.zeros(len(flows), np.int64)
        levels[live] = np.array([self.level.get(uid, 0) for uid in uids.tolist()], np.int64)[of_row]
        return Limits(np.full(len(flows), math.inf), levels=levels)

    def _load(self, rows: Ints, flows: FlowSet) -> tuple[Load, frozenset[int]]:
        """A job and its links. Communication is taken to follow computing: no more is known than the sums of both."""
        busy = np.zeros(len(self.capacity))
        for hop in flows.path[rows].T:
            np.add.at(busy, hop[hop >= 0], flows.size[rows][hop >= 0])
        links = np.flatnonzero(busy)
        comm_s = round(float((busy[links] / self.capacity[links]).max()), 12)
        load = Load(float(flows.work_gpu_s[rows[0]]), comm_s, float(flows.compute_s[rows[0]]))
        return load, frozenset(links.tolist())

    def _levels(self, flows: FlowSet) -> dict[int, int]:
        found = {uid: self._load(self.rows[uid], flows) for uid in sorted(self.rows)}
        order = ranked({uid: load for uid, (load, _) in found.items()})
        weight = np.zeros((len(order), len(order)))
        for a, strong in enumerate(order):
            for b in range(a + 1, len(order)):
                if found[strong][1] & found[order[b]][1]:
                    weight[a, b] = found[strong][0].intensity
        drawn = np.random.default_rng([self.seed, len(order)])
        return dict(zip(order, compressed(weight, self.levels, drawn), strict=True))


@dataclass(eq=False)
class Crux(RatedPace):
    """`crux`, or `crux:N` for N levels (8).

    Kept: intensity, the correction factor k, priorities that all differ, their compression by the best cuts of ten
    random topological orders, strict priority between levels. Left out: profiling (profiles are known), semaphores on
    PCIe, which is not modelled, the links inside servers, and the part of its computing after which a job may send: it
    computes all of it first. Paths are `--route crux`. Ours: "most traffic" is the longest time on a busiest link, and
    k comes from 300 iterations, or fewer if iterations differ by much.
    """

    name = "crux"
    levels: int = setting(LEVELS, within="[1, 64]", whole=True)

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that react to congestion."""
        return Transport(opened=True)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return CruxRule(self.levels)
