"""Estimator: how fast a job would run alone, at some size and spread. Found by running it alone, once per shape."""

from __future__ import annotations

from weft.model.cluster import Cluster
from weft.model.plan import Placement
from weft.model.profile import Profile
from weft.model.view import Estimate, Spread
from weft.sim.engine import Engine, EngineSpec
from weft.sim.lower import Lowering
from weft.sim.spec import NetworkSpec

__all__ = ["Estimator", "example_placement"]


def example_placement(cluster: Cluster, workers: int, spread: Spread) -> Placement:
    """GPUs for so many workers on so many servers of so many racks, as evenly as it goes.

    Where the cluster has no such shape (not enough servers in a rack, or GPUs in a server) the nearest wider one.
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


class Estimator:
    """Remembers what it has measured: each (profile, spread) is run once."""

    def __init__(self, cluster: Cluster, network: NetworkSpec) -> None:
        self.cluster = cluster
        self.network = network
        self._lowering = Lowering(cluster, network)
        self._known: dict[tuple[int, str, Spread], tuple[Profile, Estimate]] = {}
        self.asked = 0  # shapes that had to be run

    def estimate(self, profile: Profile, model: str, spread: Spread) -> Estimate:
        """Seconds of one iteration alone on the network, and its compute part."""
        key = (id(profile), model, spread)
        if key not in self._known:
            self.asked += 1
            gpus = example_placement(self.cluster, profile.workers, spread)
            program = self._lowering.program(profile, gpus, model)
            engine = Engine(
                EngineSpec(
                    self._lowering.capacity,
                    self._lowering.ports,
                    sharing=self.network.sharing,
                    b_s_per_byte=self.network.b_s_per_byte,
                    eta_s_per_byte=self.network.eta_s_per_byte,
                )
            )
            engine.attach(0, program, 1)
            engine.run()
            self._known[key] = (profile, Estimate(engine.now, profile.compute_s))
        return self._known[key][1]
