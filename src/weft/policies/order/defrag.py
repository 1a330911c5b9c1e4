"""defrag: first come, first served; now and then jobs that keep a machine busy alone move into fragments elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.model.plan import State
from weft.model.policy import setting
from weft.model.view import ClusterView, JobStatus, JobView
from weft.policies.order.base import Claim, Order, Ranking
from weft.policies.order.leases import PERIODS

OLD_ENOUGH = 2.0  # periods that a job stays on its GPUs before it is moved, so that the last move has paid off


@dataclass(eq=False)
class Defragment(Order):
    """`defrag:SECONDS` (every hour by default): fifo, with migration that empties machines.

    When a period ends, every job that is alone on one machine, and for which another machine in use has enough free
    GPUs, asks for a place anew; a place that fills fragments first (`titan`, `hived`, `best-fit`) moves it there. A
    move is a stop and a start: what the world charges for those is its cost.
    """

    name = "defrag"
    period_s: float = setting(3600.0, within=PERIODS)

    def initial_state(self) -> State:
        """No period has ended."""
        return {"periods": 0}

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Jobs that may move, if a period has ended; then those that wait, as they came."""
        periods = math.floor(view.now / self.period_s + 1e-9)
        movers = _movers(view, OLD_ENOUGH * self.period_s) if periods > state["periods"] else []
        wake = (periods + 1) * self.period_s if view.running else None
        return Ranking(_claims(view, movers), {"periods": periods}, strict=True, wake_s=wake, pooled=True)


def _claims(view: ClusterView, movers: list[JobView]) -> Iterator[Claim]:
    for job in movers:
        yield Claim(job.id, len(job.gpus), "moves to empty a machine", anew=True)
    for job in view.waiting.values():
        yield Claim(job.id, job.job.gpus, "first come, first served")


def _movers(view: ClusterView, old_s: float) -> list[JobView]:
    """Jobs alone on one machine that fit into the fragments of others, smallest first; each takes the tightest."""
    sizes, server_of = view.cluster.gpus_per_server, view.cluster.server_of_gpu
    free = view.offer.free_per_server.copy()
    taken = sizes - free
    found = []
    for job in sorted(view.running.values(), key=lambda job: len(job.gpus)):
        if job.status is not JobStatus.RUNNING or job.started_s is None or view.now - job.started_s < old_s:
            continue
        homes = set(server_of[list(job.gpus)].tolist())
        home = next(iter(homes))
        if len(homes) > 1 or taken[home] != len(job.gpus):
            continue
        fits = np.flatnonzero((free >= len(job.gpus)) & (taken > 0) & (np.arange(len(free)) != home))
        if not len(fits):
            continue
        there = fits[np.argmin(free[fits])]
        free[there] -= len(job.gpus)
        taken[there] += len(job.gpus)
        free[home], taken[home] = sizes[home], 0
        found.append(job)
    return found
