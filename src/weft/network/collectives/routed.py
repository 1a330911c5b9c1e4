"""Flows between NICs, as a route policy sees them, and the paths that were chosen for them.

A flow on several paths loads each of its links with a part. Parts are counted in whole numbers, `finest` to a flow, so
that sums are exact; a link then has room for `finest` times as much. Where no flow is split, `finest` is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.model.cluster import Cluster, Route, Router
from weft.model.plan import Parts, Placement, Routes
from weft.model.profile import Profile, Transfer
from weft.model.routes import Flow
from weft.network.collectives.algorithms import NCCL
from weft.network.collectives.lowering import standing_for
from weft.network.collectives.on_servers import placed_stages, spread_key

FINEST = 2**6 * 3**2 * 5 * 7 * 11 * 13  # every number of equal paths up to 16, and most of those up to 64, divides it
_Ends = tuple[int, int, int]  # source NIC, destination NIC, key


@dataclass(frozen=True)
class Chosen:
    """The paths of a job's flows, each with its parts; a flow that is not among them takes ECMP's."""

    router: Router
    flows: Mapping[_Ends, tuple[tuple[Route, int], ...]]
    finest: int = 1

    def of(self, src: int, dst: int, key: int) -> tuple[tuple[Route, int], ...]:
        """Links and parts of each path of a flow."""
        found = self.flows.get((src, dst, key))
        return found if found is not None else ((self.router(src, dst, key), self.finest),)


def chosen(cluster: Cluster, flows: Sequence[Flow], routes: Routes | None, finest: int = 1) -> Chosen:
    """What a route policy chose for these flows."""
    router = cluster.topology.router
    found: dict[_Ends, tuple[tuple[Route, int], ...]] = {}
    for flow, parts in zip(flows, routes, strict=True) if routes is not None else ():
        counts = in_parts(parts, finest)
        paths = [(router.path(flow.src, flow.dst, number), n) for (number, _), n in zip(parts, counts, strict=True)]
        found[flow.src, flow.dst, flow.key] = tuple((path, n) for path, n in paths if n)
    return Chosen(router, found, finest)


def in_parts(parts: Parts, finest: int) -> list[int]:
    """Shares as whole numbers that sum to `finest`; what rounding leaves over goes to the largest remainders."""
    exact = [share * finest for _, share in parts]
    counts = [int(x + 1e-6) for x in exact]
    for i in sorted(range(len(parts)), key=lambda i: counts[i] - exact[i])[: finest - sum(counts)]:
        counts[i] += 1
    return counts


def flows_of(
    profile: Profile, gpus: Placement, cluster: Cluster, collective: str, flow_key: int = 0
) -> tuple[Flow, ...]:
    """All that a job on these GPUs sends from NIC to NIC in one iteration; `collective` is what transfers use that do
    not name one."""
    sent: dict[_Ends, float] = {}
    for task in profile.tasks:
        if not isinstance(task, Transfer) or task.bytes <= 0:
            continue
        where = [gpus[r] for r in profile.ranks(task)]
        name = task.collective or collective
        if name == NCCL:
            name = standing_for(where, cluster, flow_key, task.bytes)
        for stage in placed_stages(name, where, cluster, task.servers, flow_key):
            for pair in stage.between:
                key = spread_key(flow_key, pair)
                for _, src, dst in stage.ends(pair):
                    if src >= 0:
                        ends = (src, dst, key)
                        sent[ends] = sent.get(ends, 0.0) + stage.share * task.bytes
    return tuple(Flow(src, dst, key, size) for (src, dst, key), size in sent.items())
