"""nw-sens: Dally's network-sensitive priority, with preemption when leases end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from weft.model.view import ClusterView, Fact, JobView
from weft.order.leases import LeaseOrder, positive

__all__ = ["NetworkSensitive"]

LEASE_S = 3600.0
_DIGITS = 3  # of Nw_sens: smaller differences are whole iterations that do not fill a lease, and no reason to swap jobs


class NetworkSensitive(LeaseOrder):
    """Jobs that the network has slowed down most go first (Dally, section IV-B1).

    Nw_sens = (iterations done / all) / (time on GPUs / ideal running time), the ideal time being compute time per
    iteration x iterations: the share of its time on GPUs that a job has computed. Lowest first; a job that has not
    completed an iteration has 0. `nw-sens:SECONDS` sets the lease, an hour by default.
    """

    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})

    def __init__(self, lease_s: float = LEASE_S) -> None:
        self.lease_s = lease_s
        self.name = "nw-sens" if lease_s == LEASE_S else f"nw-sens:{lease_s:g}"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`nw-sens` or `nw-sens:SECONDS`."""
        return cls() if arg is None else cls(positive(arg, f"nw-sens:{arg}: the lease in seconds"))

    def key_of_running(self, view: ClusterView, job: JobView) -> float:
        """Nw_sens up to now."""
        return _nw_sens(view.iterations_done(job.id), job, job.run_time_s(view.now))

    @property
    def key_of_waiting(self) -> Callable[[JobView], float]:
        """Nw_sens of what is saved."""
        return _waiting

    def words(self, key: float) -> str:
        """The value."""
        return f"Nw_sens {key:.3g}"


def _waiting(job: JobView) -> float:
    return _nw_sens(job.saved_iterations, job, job.run_s)


def _nw_sens(done: int, job: JobView, run_s: float) -> float:
    if run_s <= 0.0 or done <= 0:
        return 0.0
    return round(done * job.job.profile.compute_s / run_s, _DIGITS)
