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

    `nw-sens:one-gpu` (`one-gpu@SECONDS`) takes the ideal time to be that of one GPU, as the authors' simulator does:
    the value is then the speed-up over one GPU, so that of jobs that no network slows down the small ones go first.
    """

    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})

    def __init__(self, lease_s: float = LEASE_S, one_gpu: bool = False) -> None:
        self.lease_s = lease_s
        self.one_gpu = one_gpu
        own = "" if lease_s == LEASE_S else f"{lease_s:g}"
        parameter = "@".join(filter(None, ("one-gpu" if one_gpu else "", own)))
        self.name = f"nw-sens:{parameter}" if parameter else "nw-sens"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`nw-sens`, `nw-sens:SECONDS`, `nw-sens:one-gpu` or `nw-sens:one-gpu@SECONDS`."""
        one_gpu = arg is not None and arg.partition("@")[0] == "one-gpu"
        lease = arg if not one_gpu else arg.partition("@")[2] if arg and "@" in arg else None
        what = f"nw-sens:{arg}: the lease in seconds (nw-sens:SECONDS or nw-sens:one-gpu@SECONDS)"
        return cls(one_gpu=one_gpu) if lease is None else cls(positive(lease, what), one_gpu)

    def key_of_running(self, view: ClusterView, job: JobView) -> float:
        """Nw_sens up to now."""
        found = _nw_sens(view.iterations_done(job.id), job, job.run_time_s(view.now))
        return found * job.job.gpus if self.one_gpu else found

    @property
    def key_of_waiting(self) -> Callable[[JobView], float]:
        """Nw_sens of what is saved."""
        return _waiting_one_gpu if self.one_gpu else _waiting

    def words(self, key: float) -> str:
        """The value."""
        return f"Nw_sens {key:.3g}"


def _waiting(job: JobView) -> float:
    return _nw_sens(job.saved_iterations, job, job.run_s)


def _waiting_one_gpu(job: JobView) -> float:
    return _waiting(job) * job.job.gpus


def _nw_sens(done: int, job: JobView, run_s: float) -> float:
    if run_s <= 0.0 or done <= 0:
        return 0.0
    return round(done * job.job.profile.compute_s / run_s, _DIGITS)
