"""Crux's baselines as paces: the same strict levels, found in other ways."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.flows import FlowSet
from weft.policies.pace.crux import Crux, CruxRule
from weft.policies.pace.rates import RateRule


def _one_by_one(order: list[int], levels: int) -> dict[int, int]:
    """A level for each job from the first, and the last level for all that are left (Sincronia's compression)."""
    return {uid: min(at, levels - 1) for at, uid in enumerate(order)}


class SincroniaRule(CruxRule):
    """Jobs by bottleneck-select: on the link that is needed longest, the job that needs it longest goes last."""

    def _levels(self, flows: FlowSet) -> dict[int, int]:
        found = {uid: self._load(rows, flows) for uid, rows in sorted(self.rows.items())}
        left = {uid: dict.fromkeys(links, load.comm_s) for uid, (load, links) in found.items()}
        last: list[int] = []
        while left:
            need: dict[int, float] = {}
            for links in left.values():
                for link, seconds in links.items():
                    need[link] = need.get(link, 0.0) + seconds
            worst = max(sorted(need), key=need.__getitem__)
            gone = max(sorted(left), key=lambda uid: left[uid].get(worst, 0.0))
            del left[gone]
            last.append(gone)
        return _one_by_one(last[::-1], self.levels)


class TacclRule(CruxRule):
    """Jobs whose flows have the longer way go first."""

    def _levels(self, flows: FlowSet) -> dict[int, int]:
        hops = {uid: int((flows.path[rows] >= 0).sum(axis=1).max()) for uid, rows in sorted(self.rows.items())}
        ways = sorted(set(hops.values()), reverse=True)
        return {uid: min(ways.index(way), self.levels - 1) for uid, way in hops.items()}


@dataclass(eq=False)
class Sincronia(Crux):
    """`sincronia`, or `sincronia:N` for N levels (8): coflows in Sincronia's order, one on each level but the last.

    A coflow is what a job sends in an iteration. It needs each of its links for the time on its busiest one.
    """

    name = "sincronia"

    def rates(self) -> RateRule:
        """The rule of one run."""
        return SincroniaRule(self.levels)


@dataclass(eq=False)
class Taccl(Crux):
    """`taccl`: TACCL* of the Crux paper, traffic with the longer way first; its paths are `--route least-loaded`."""

    name = "taccl"

    def rates(self) -> RateRule:
        """The rule of one run."""
        return TacclRule(self.levels)
