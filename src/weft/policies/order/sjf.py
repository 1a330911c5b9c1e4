"""sjf: shortest job first."""

from __future__ import annotations

from weft.model.plan import State
from weft.model.view import ClusterView, Fact, JobView
from weft.policies.order.base import Claim, Order, Ranking


class ShortestJobFirst(Order):
    """Jobs by the compute time of all their iterations, whatever their size; a job that does not fit is passed."""

    name = "sjf"
    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})
    idle_without_jobs = True

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting jobs, shortest first."""
        claims = (
            Claim(job.id, job.job.gpus, f"shortest job first: {_length_s(job):.4g} s in all")
            for job in view.waiting_by(_length_s)
        )
        return Ranking(claims, state)

    def turn(self, view: ClusterView, job: JobView) -> tuple[float, float]:
        """By length, which does not change as the job goes on."""
        return (_length_s(job), 0.0)


def _length_s(job: JobView) -> float:
    return job.job.compute_s
