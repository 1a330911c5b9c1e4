"""Ledger: how much work is still to be done on each GPU (L_g of the Ada-SRSF paper, section IV-A).

A job that has I iterations to go adds I x (compute + communication) x GPUs to every GPU it is on, communication being
what one iteration waits for the network when the job is alone on it, and nothing on a single server (Eqs. 7 and 8).
The sum is formed anew from the view whenever it is asked for: there is no account that could drift from the truth, and
a scheduler that is started again knows as much as before. Only answers given earlier in the same cycle, which the view
does not show yet, are kept in the policy's state, and dropped when the cycle ends.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.model.plan import Placement, State
from weft.model.view import ClusterView, Fact, JobView, Offer, Spread

NEEDS = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})

_EARLIER = "answered this cycle"


def workload_gpu_s(view: ClusterView, job: JobView, gpus: Placement) -> float:
    """L_J = (C_J + E_J) x GPUs: what is left of a job on these GPUs, alone on the network."""
    estimate = view.estimate(job.job, len(gpus), Spread.of(view.cluster, gpus))
    return view.iterations_left(job.id) * estimate.iteration_s * len(gpus)


def workloads(view: ClusterView, state: State) -> npt.NDArray[np.float64]:
    """L_g of every GPU, with the answers of this cycle so far."""
    left = np.zeros(view.cluster.n_gpus)
    for job in view.running.values():
        left[list(job.gpus)] += workload_gpu_s(view, job, job.gpus)
    for gpus, work in state.get(_EARLIER, ()):
        left[gpus] += work
    return left


def noted(view: ClusterView, job: JobView, gpus: Placement, state: State) -> State:
    """The state after this answer."""
    entry = [list(gpus), workload_gpu_s(view, job, gpus)]
    return {_EARLIER: [*state.get(_EARLIER, ()), entry]}


def big_enough(job: JobView, gpus: int, offer: Offer) -> npt.NDArray[np.int64]:
    """GPUs with enough memory left for a worker of the job, by number."""
    return np.flatnonzero(offer.usable & (offer.memory >= job.job.profiles[gpus].memory_bytes))


def with_room(job: JobView, gpus: int, offer: Offer, shared: bool) -> npt.NDArray[np.int64]:
    """GPUs that a worker of the job may have, by number: with enough memory left if GPUs are shared, else free ones."""
    return big_enough(job, gpus, offer) if shared else np.flatnonzero(offer.free)
