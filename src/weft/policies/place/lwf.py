"""lwf and ls: the GPUs with the least work left (LWF-kappa, Algorithm 1, and LS of the Ada-SRSF paper, section IV-A).

A job that has I iterations to go adds I x (compute + communication) x GPUs to the work left (L_g) on each of its GPUs,
communication being what one iteration waits for the network when the job is alone on it, and nothing on a single server
(Eqs. 7 and 8). The sum is formed anew from the view whenever it is asked for: there is no account that could drift from
the truth, and a scheduler that is started again knows as much as before. Only answers given earlier in the same cycle,
which the view does not show yet, are kept in the policy's state, and dropped when the cycle ends.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weft.model.plan import Placement, State
from weft.model.policy import setting
from weft.model.view import ClusterView, Fact, JobView, Offer, Spread
from weft.policies.place.base import Answer, Place
from weft.policies.place.fitting import big_enough

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


@dataclass(eq=False)
class LeastWorkloadFirst(Place):
    """`lwf:K` (by default `lwf:1`): jobs of up to K GPUs take the GPUs with the least work left, wherever they are.

    Larger jobs take GPUs server by server, the server with the least work left in all first, and inside a server the
    least loaded GPU first. A GPU must have the memory; at a tie the lower number wins. Algorithm 1 never uses its
    S_chosen: it goes through all servers, in that order. Its network is one switch: racks and further levels are not
    looked at. Communication costs what it costs on the network at hand; the
    authors' code charges 1 Gbit/s.

    With `whole` (`lwf:1,whole`, `ls:whole`) a GPU has one job: the same rule among free GPUs, as live worlds need it.
    """

    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})

    name = "lwf"
    kappa: int = setting(1, within="[0, inf)", whole=True, shown=True)
    shares_gpus: bool = setting(True, words={"whole": False})

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Scattered over the least loaded GPUs, or server by server."""
        fit = big_enough(job, gpus, offer) if self.shares_gpus else np.flatnonzero(offer.free)
        if len(fit) < gpus:
            what = "have the memory" if self.shares_gpus else "are free"
            return Answer(None, f"wants {gpus} GPUs; fewer {what}", state)
        left = workloads(view, state)
        if gpus <= self.kappa:
            order = np.argsort(left[fit], kind="stable")
            reason = "GPUs with the least work left"
        else:
            server = view.cluster.server_of_gpu
            per_server = np.bincount(server, weights=left, minlength=len(view.cluster.servers))
            order = np.lexsort((fit, left[fit], server[fit], per_server[server[fit]]))
            reason = "servers with the least work left"
        placement = tuple(fit[order[:gpus]].tolist())
        return Answer(placement, reason, noted(view, job, placement, state))

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """From now on the view shows what was answered."""
        return {}


@dataclass(eq=False)
class ListScheduling(LeastWorkloadFirst):
    """`ls`: the GPUs with the least work left for jobs of every size, wherever they are (LS of the Ada-SRSF paper)."""

    name = "ls"

    kappa: int = field(default=sys.maxsize, init=False)
