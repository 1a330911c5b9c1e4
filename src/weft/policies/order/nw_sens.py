"""nw-sens: Dally's network-sensitive priority, with preemption when leases end."""

from __future__ import annotations

from collections.abc import Callable

from weft.model.view import ClusterView, Fact, JobView
from weft.policies.order.leases import Key, OwnLeases, last_lease_s

_DIGITS = 3  # decimals of Nw_sens that count: smaller differences come from leases that iterations do not fill


class NetworkSensitive(OwnLeases):
    """Jobs that the network has slowed down most go first (Dally, section IV-B1).

    Nw_sens = (iterations done / all) / (time on GPUs / ideal running time), the ideal time being compute time per
    iteration x iterations: the share of its time on GPUs that a job has computed. Lowest first; a job that has not
    completed an iteration has 0.
    """

    name = "nw-sens"
    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})

    def key_of_running(self, view: ClusterView, job: JobView) -> float:
        """Nw_sens up to now."""
        return _nw_sens(view.iterations_done(job.id), job, job.run_time_s(view.now))

    @property
    def key_of_waiting(self) -> Callable[[JobView], Key]:
        """Nw_sens of what is saved."""
        return _waiting

    def words(self, key: float) -> str:
        """The value."""
        return f"Nw_sens {key:.3g}"


def _waiting(job: JobView) -> Key:
    return _nw_sens(job.saved_iterations, job, job.run_s), last_lease_s(job)


def _nw_sens(done: int, job: JobView, run_s: float) -> float:
    if run_s <= 0.0 or done <= 0:
        return 0.0
    return round(done * job.job.profile.compute_s / run_s, _DIGITS)
