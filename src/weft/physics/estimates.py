"""Estimates: how fast a job would run alone at some size and spread, for both worlds and for workload generators."""

from __future__ import annotations

from collections.abc import Callable

from weft.model.cluster import Cluster
from weft.model.plan import Placement
from weft.model.profile import Profile
from weft.model.view import Estimate, Spread
from weft.physics.iteration import MAX_MIN, Sharing, play_on

__all__ = ["Estimates", "example_placement"]

Exposed = Callable[[Profile, str, Placement], float]  # profile, model, GPUs: seconds of exposed communication


def example_placement(cluster: Cluster, workers: int, spread: Spread) -> Placement:
    """GPUs for so many workers on so many servers of so many racks, as evenly as possible.

    Where the cluster has no such shape (not enough servers in a rack, or GPUs in a server), the nearest wider one is
    taken.
    """
    by_rack: dict[int, list[int]] = {}
    for server in cluster.servers:
        by_rack.setdefault(server.rack, []).append(server.id)
    racks = sorted(by_rack, key=lambda r: (-len(by_rack[r]), r))
    n_servers, n_racks = max(1, min(spread.servers, workers)), max(1, spread.racks)
    while True:
        pools = [by_rack[r] for r in racks[:n_racks]]
        chosen = [pool[i] for i in range(max(map(len, pools))) for pool in pools if i < len(pool)][:n_servers]
        room = sum(len(cluster.servers[s].gpus) for s in chosen)
        widest = n_racks >= len(racks) and n_servers >= len(cluster.servers)
        if (len(chosen) == n_servers and room >= workers) or widest:
            break
        if len(chosen) < n_servers:
            n_racks += 1
        else:
            n_servers += 1
    gpus: list[int] = []
    taken = dict.fromkeys(chosen, 0)
    while len(gpus) < workers:
        before = len(gpus)
        for s in chosen:
            if len(gpus) < workers and taken[s] < len(cluster.servers[s].gpus):
                gpus.append(cluster.servers[s].gpus[taken[s]])
                taken[s] += 1
        if len(gpus) == before:
            break
    return tuple(gpus)


class Estimates:
    """Estimates for one cluster and one network; each (profile, model, spread) is worked out once.

    `sharing` and `collective` say how transfers go over links. With `exposed` a cost model stands in for the links.
    """

    def __init__(
        self,
        cluster: Cluster,
        sharing: Sharing = MAX_MIN,
        collective: str = "ring",
        exposed: Exposed | None = None,
    ) -> None:
        self.cluster = cluster
        self.sharing = sharing
        self.collective = collective
        self.exposed = exposed
        self.asked = 0  # estimates that had to be worked out
        self._known: dict[tuple[int, str, Spread], tuple[Profile, Estimate]] = {}  # the profile is kept, and so its id

    def of(self, profile: Profile, model: str, spread: Spread) -> Estimate:
        """Seconds of one iteration on an example of such a placement, and its compute part."""
        key = (id(profile), model, spread)
        if key not in self._known:
            self.asked += 1
            gpus = example_placement(self.cluster, profile.workers, spread)
            self._known[key] = (profile, Estimate(self.seconds(profile, gpus, model), profile.compute_s))
        return self._known[key][1]

    def seconds(
        self, profile: Profile, gpus: Placement, model: str = "", flow_key: int = 0, compute_factor: float = 1.0
    ) -> float:
        """Seconds of one iteration on these GPUs, in which computing takes `compute_factor` times as long."""
        if self.exposed is not None:
            return profile.compute_s * compute_factor + self.exposed(profile, model, gpus)
        played = play_on(self.cluster, profile, gpus, self.collective, flow_key, self.sharing, compute_factor)
        return played.seconds
