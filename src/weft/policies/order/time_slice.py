"""time-slice: every job runs for a slice of time (as in Gandiva), and running jobs look for a better place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from weft.model.plan import State
from weft.model.policy import setting
from weft.model.view import ClusterView, JobView
from weft.policies.order.base import Claim, Ranking
from weft.policies.order.leases import PERIODS, Key, LeaseOrder, scattered


@dataclass(eq=False)
class TimeSlice(LeaseOrder):
    """Round robin: while jobs wait, every slice ends with the GPUs going to those that have waited longest, then to
    those that have run least since they started (Gandiva, section 3.1). A job that nobody displaces runs on.

    Jobs on more servers than they need ask for a better place when a slice ends, and when GPUs become free for which
    nobody waits (introspective migration, section 3.3). `time-slice:SECONDS` sets the slice, a minute by default.

    Slices end together. Left out: growing and shrinking.
    """

    name = "time-slice"
    lease_s: float = setting(60.0, within=PERIODS)

    def __post_init__(self) -> None:
        """A job in whose place others wait has one slice."""
        super().__post_init__()
        self.shortest_stay_s = self.lease_s

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting jobs first; at the end of a slice running ones give way to them; then those that might move."""
        ranking = super().rank(view, state)
        if view.waiting:
            return ranking
        moves = () if ranking.released or not view.offer.n_free else self.restless(view)
        claims = (*ranking.claims, *(Claim(job.id, len(job.gpus), "", anew=True) for job in moves))
        wake = ranking.wake_s if _packed(view) else None
        return replace(ranking, claims=claims, wake_s=wake, state={**ranking.state, "awaited": wake is not None})

    def restless(self, view: ClusterView) -> list[JobView]:
        """Jobs on more servers than they need, and jobs that share their GPUs."""
        return [*scattered(view, view.running.values()), *_packed(view)]

    def key_of_running(self, view: ClusterView, job: JobView) -> float:
        """Behind all waiting jobs; those that have run longest come last."""
        return view.now + (0.0 if job.started_s is None else view.now - job.started_s)

    @property
    def key_of_waiting(self) -> Callable[[JobView], Key]:
        """Since when it waits."""
        return _since

    def words(self, key: float) -> str:
        """The rule."""
        return "its turn"


def _packed(view: ClusterView) -> list[JobView]:
    return [job for job in view.running.values() if len(view.residents(job.gpus[0])) > 1]


def _since(job: JobView) -> Key:
    return job.waiting_since_s, 0.0
