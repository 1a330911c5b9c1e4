"""NetworkSpec and RunSpec: the physics, the circumstances and the noise of a simulated run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from weft.errors import ScenarioError
from weft.model.cluster import Cluster
from weft.model.units import K_WAY_B_S_PER_BYTE, K_WAY_ETA_S_PER_BYTE
from weft.network.collectives.on_servers import check_sums
from weft.network.cost import CostModel, shape_of
from weft.network.estimates import Estimates
from weft.network.iteration import Sharing
from weft.sim.failures import FailureSpec


@dataclass(frozen=True)
class Foreign:
    """A TCP flow that is not ours, between two servers given by name, and the rate that it asks for. It shares links
    fairly."""

    src: str
    dst: str
    start_s: float = 0.0
    end_s: float = float("inf")
    bytes_per_s: float = float("inf")


@dataclass(frozen=True)
class CrossTraffic:
    """Foreign flows drawn at random: every `every_s` each server sends to another for a while."""

    every_s: float
    shortest_s: float
    longest_s: float
    bytes_per_s: float = float("inf")


@dataclass(frozen=True)
class NetworkSpec:
    """How transfers share links and what they cost. The constants belong to k-way sharing (Ada-SRSF, Eq. 5)."""

    sharing: str = "max-min"  # ideal, max-min, k-way
    cost: CostModel | None = None  # stands in for links
    collective: str = "ring"  # for transfers whose profile does not say
    a_s: float = 0.0
    b_s_per_byte: float = K_WAY_B_S_PER_BYTE
    eta_s_per_byte: float = K_WAY_ETA_S_PER_BYTE
    packet_loss: float = 0.0  # share of packets lost at random
    foreign: tuple[Foreign, ...] = ()  # traffic of others
    cross_traffic: CrossTraffic | None = None  # the same, drawn

    @property
    def alone(self) -> Sharing:
        """How the transfers of one job share the network. What a pace costs a job that is alone (packets that are lost,
        rates that change at slots only) is not counted; sim/played.py plays it."""
        if self.sharing == "k-way":
            return Sharing(self.sharing, self.a_s, self.b_s_per_byte, self.eta_s_per_byte)
        return Sharing(self.sharing)


def estimates(cluster: Cluster, network: NetworkSpec) -> Estimates:
    """How fast jobs run alone on this cluster and network."""
    cost = network.cost
    if network.sharing == "k-way" and not cluster.plain:
        raise ScenarioError(
            'network.sharing is "k-way", which counts transfers on servers with one NIC each; use "max-min" with '
            "cluster.nics_per_server or cluster.nvlink_domain"
        )
    if cost is None:
        check_sums(network.collective, cluster.topology, "network.")
        return Estimates(cluster, network.alone, network.collective)
    return Estimates(
        cluster, exposed=lambda profile, model, gpus: cost.exposed_s(profile, model, shape_of(cluster, gpus))
    )


@dataclass(frozen=True)
class RunSpec:
    """Seed, exactness, and what goes wrong on purpose."""

    seed: int = 0
    exact: bool = True
    effort: float = 1.0  # effort of estimates (exact is False), relative to the usual one
    skip: bool = True
    restart_s: float = 0.0
    jitter: float = 0.0
    task_jitter: float = 0.0
    task_shape: str = "even"  # even, sequences
    stragglers: float = 0.0
    straggler_factor: float = 2.0
    start_latency_s: float = 0.0
    failure_rate: float = 0.0
    outages: tuple[tuple[str, float, float], ...] = ()  # servers that are lost: name, when, for how long
    failures: FailureSpec | None = None
    checkpoint_every: int = 1
    until_s: float | None = None

    def slowest(self, workers: int) -> tuple[bool, float, float]:
        """Whether compute times vary, and mean and deviation of the slowest worker's factor on them. Here the jitter of
        tasks counts as one of iterations."""
        if self.jitter <= 0.0 and self.stragglers <= 0.0 and self.task_jitter <= 0.0:
            return False, 1.0, 0.0
        jitter = math.hypot(self.jitter, self.task_jitter)
        return True, *slowest_worker(workers, jitter, self.stragglers, self.straggler_factor)

    @property
    def chance(self) -> dict[str, Any]:
        """How compute times vary, as the engine takes it."""
        return {
            "jitter": self.jitter, "straggle_p": self.stragglers, "straggle_x": self.straggler_factor,
            "task_jitter": self.task_jitter, "uneven": self.task_shape == "sequences",
        }  # fmt: skip


_ITERATIONS = 4096


@lru_cache(maxsize=1024)
def slowest_worker(workers: int, jitter: float, stragglers: float, straggler_factor: float) -> tuple[float, float]:
    """Mean and standard deviation of the slowest worker's factor on compute time in an ordinary iteration.

    Ordinary iterations are the middle nine tenths, and the deviation is half the width of the middle 68 %, so that a
    rare straggler does not count as jitter.

    The draws have the engine's distribution (random_kernel.py) but are different ones, because the iterations that are
    profiled are not those that will be run.
    """
    bits = np.random.Philox(key=workers).random_raw(_ITERATIONS * workers * 5)
    draws = ((bits >> np.uint64(11)) * 2.0**-53).reshape(_ITERATIONS, workers, 5)
    factor = np.maximum(1.0 + jitter * (draws[..., :4].sum(axis=2) - 2.0) * 1.7320508075688772, 0.05)
    factor = np.where(draws[..., 4] < stragglers, factor * straggler_factor, factor).max(axis=1)
    low, below, above, high = np.quantile(factor, (0.05, 0.16, 0.84, 0.95))
    return float(factor[(factor >= low) & (factor <= high)].mean()), float(above - below) / 2.0
