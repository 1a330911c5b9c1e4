"""lwf: least workload first, server by server (LWF-kappa of the Ada-SRSF paper, Algorithm 1)."""

from __future__ import annotations

from typing import Self

import numpy as np

from weft.errors import StackError
from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Offer
from weft.place.base import Answer, Place
from weft.place.ledger import NEEDS, big_enough, noted, workloads


class LeastWorkloadFirst(Place):
    """`lwf:K` (by default `lwf:1`): jobs of up to K GPUs take the GPUs with the least work left, wherever they are.

    Larger jobs take GPUs server by server, the server with the least work left in all first, and inside a server the
    least loaded GPU first. A GPU must have the memory; at a tie the lower number wins. Algorithm 1's S_chosen is never
    used there: all servers are gone through, in that order.
    """

    needs = NEEDS
    shares_gpus = True

    def __init__(self, kappa: int = 1) -> None:
        self.kappa = kappa
        self.name = f"lwf:{kappa}"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`lwf` or `lwf:K`."""
        if arg is None:
            return cls()
        if not (arg.isascii() and arg.isdecimal()):
            raise StackError(
                f"lwf:{arg}: write lwf:K with a whole number K, the largest job that may be scattered (0: none)"
            )
        return cls(int(arg))

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Scattered over the least loaded GPUs, or server by server."""
        fit = big_enough(job, gpus, offer)
        if len(fit) < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer have the memory", state)
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
