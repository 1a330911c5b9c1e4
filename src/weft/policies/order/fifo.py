"""fifo: first come, first served."""

from __future__ import annotations

from typing import Self

from weft.errors import StackError
from weft.model.plan import State
from weft.model.view import ClusterView
from weft.policies.order.base import Claim, Order, Ranking


class Fifo(Order):
    """Jobs in order of submission; nobody passes the first one that does not fit, unless backfilling (`fifo:backfill`).

    Backfilling here is the plain kind, without reservations: a big job may be passed again and again.
    """

    idle_without_jobs = True

    def __init__(self, backfill: bool = False) -> None:
        self.backfill = backfill
        self.name = "fifo:backfill" if backfill else "fifo"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`fifo` or `fifo:backfill`."""
        if arg not in (None, "backfill"):
            raise StackError(f"fifo:{arg}: write fifo or fifo:backfill")
        return cls(arg == "backfill")

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting jobs as they came."""
        claims = (Claim(job.id, job.job.gpus, "first come, first served") for job in view.waiting.values())
        return Ranking(claims, state, strict=not self.backfill)
