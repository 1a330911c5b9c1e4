"""fifo: first come, first served."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.plan import State
from weft.model.policy import setting
from weft.model.view import ClusterView, JobView
from weft.policies.order.base import Claim, Order, Ranking


@dataclass(eq=False)
class Fifo(Order):
    """Jobs in order of submission; nobody passes the first one that does not fit, unless backfilling (`fifo:backfill`).

    Backfilling here is the plain kind, without reservations: a big job may be passed again and again.
    """

    idle_without_jobs = True

    name = "fifo"
    backfill: bool = setting(False, words={"backfill": True})

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting jobs as they came."""
        waiting = view.waiting_by(_as_they_came) if self.backfill else view.waiting.values()
        claims = (Claim(job.id, job.job.gpus, "first come, first served") for job in waiting)
        return Ranking(claims, state, strict=not self.backfill)


def _as_they_came(job: JobView) -> float:
    """No key: those that are alike stay in order of submission."""
    return 0.0
