"""Slots: what the simulated world needs where a pace sets rates: the engine, the work of a job, its traffic."""

from __future__ import annotations

from dataclasses import replace

from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.plan import Placement
from weft.model.profile import Profile
from weft.model.traffic import Traffic
from weft.pace.base import Pace
from weft.pace.rates import RateRule
from weft.sim.foreign import Others, there_are_others
from weft.sim.lower import Lowering
from weft.sim.noise import slowest_worker
from weft.sim.opened import open_flows
from weft.sim.slotted import Iteration, SlottedEngine
from weft.sim.slotted_gpus import Gpus, Noise
from weft.sim.slotted_traffic import PlayedTraffic
from weft.sim.spec import NetworkSpec, RunSpec

__all__ = ["Slots"]


class Slots:
    """See the module. What a network does not allow is refused here, in words."""

    def __init__(self, pace: Pace, cluster: Cluster, network: NetworkSpec, run: RunSpec, lowering: Lowering) -> None:
        objections = {
            f'network.sharing "{network.sharing}"': network.sharing in ("ideal", "k-way"),
            f'network.cost "{network.cost}"': network.cost != "links",
        }
        for what, there in objections.items():
            if there:
                raise StackError(f"pace {pace.name} sets the rate of every flow, which {what} does not allow; drop one")
        self.cluster, self.network, self.run, self.lowering = cluster, network, run, lowering
        self._noisy = run.jitter > 0.0 or run.stragglers > 0.0
        self._queued = lowering.shared_gpus or self._noisy  # otherwise computing takes the same time every time
        self._played = PlayedTraffic(pace, lowering.capacity, network.packet_loss)

    def engine(self, rule: RateRule) -> SlottedEngine:
        """The physics of a run."""
        network, run = self.network, self.run
        others = gpus = None
        if there_are_others(network.foreign, network.cross_traffic):
            others = Others(self.cluster, network.foreign, network.cross_traffic, run.seed, network.packet_loss)
        if self._queued:
            noise = Noise(run.seed, float(run.jitter), float(run.stragglers), float(run.straggler_factor))
            gpus = Gpus(self.cluster.n_gpus, noise)
        return SlottedEngine(
            self.lowering.capacity, rule, seed=run.seed, packet_loss=network.packet_loss, foreign=others, gpus=gpus
        )

    def work(self, profile: Profile, gpus: Placement, uid: int) -> Iteration:
        """An iteration of a job on these GPUs."""
        flows = open_flows(profile, gpus, self.cluster, self.network.collective, uid)
        tasks = self.lowering.computing(profile, gpus) if self._queued else None
        return Iteration(profile.compute_s, profile.gpu_s, flows, tasks)

    def traffic(self, profiled: Traffic, profile: Profile, gpus: Placement, uid: int) -> Traffic:
        """What a job sends, alone; jitter and stragglers as profiling a few iterations would show them: each is slower
        by the mean of its slowest worker, and spread as much as that is."""
        work, run = self.work(profile, gpus, uid), self.run
        if not self._noisy:
            return self._played.of(profiled, work)
        mean, spread = slowest_worker(len(gpus), run.jitter, run.stragglers, run.straggler_factor)
        found = self._played.of(profiled, replace(work, compute_s=work.compute_s * mean))
        return replace(found, spread_s=work.compute_s * spread)
