"""las: least attained service first, GPUs x seconds (2D-LAS of Tiresias), continuous or in queues."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge

from weft.model.plan import State
from weft.model.policy import setting
from weft.model.view import ClusterView, JobView
from weft.policies.order.base import Claim, Order, Ranking
from weft.policies.order.leases import Key, OwnLeases, last_lease_s


class LeastAttainedService(OwnLeases):
    """Jobs by GPU seconds held so far, ranked anew when leases end (continuous 2D-LAS).

    Tiresias (NSDI 2019) as the Dally paper compares with it; it does not migrate: a job that is not displaced stays. A
    lease is an hour from each start (`las:600`; all end at once with `las:together`). Left out: the promotion of jobs
    that starve.
    """

    name = "las"
    moves = False

    def key_of_running(self, view: ClusterView, job: JobView) -> float:
        """GPU seconds up to now."""
        return job.attained_gpu_s(view.now)

    def key_ahead(self, job: JobView, at_s: float) -> float:
        """GPU seconds up to then."""
        return job.attained_gpu_s(at_s)

    @property
    def key_of_waiting(self) -> Callable[[JobView], Key]:
        """GPU seconds of earlier assignments."""
        return _attained

    def words(self, key: float) -> str:
        """The value."""
        return f"least attained service first: {key:.4g} GPU s"


@dataclass(eq=False)
class QueuedLeastAttainedService(Order):
    """Discretised 2D-LAS (Tiresias, section 4.1): jobs move to the next queue when their GPU seconds pass a threshold.

    A higher queue goes before a lower one and takes its GPUs at once; inside a queue running jobs keep theirs and
    waiting ones come in order of submission. `las-queues:3200/36000` sets the thresholds (3200 by default).

    Left out: the promotion of jobs that starve.
    """

    name = "las-queues"
    thresholds: tuple[float, ...] = setting((3200.0,), within="(0, inf)", several=True, shown=True)

    def __post_init__(self) -> None:
        """Thresholds in order."""
        self.thresholds = tuple(sorted(self.thresholds))
        super().__post_init__()

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Queue by queue: running jobs, then waiting ones."""
        if not view.waiting:
            return Ranking((), state, pooled=True)
        running = sorted(
            ((self._queue(job.attained_gpu_s(view.now)), 0, job) for job in view.running.values()), key=_key
        )
        waiting = ((self._of_waiting(job), 1, job) for job in view.waiting_by(self._of_waiting))
        highest = min((-job.job.priority, self._of_waiting(job)) for job in view.waiting.values())
        released = frozenset(job.id for queue, _, job in running if (-job.job.priority, queue) > highest)
        claims = self._claims(merge(running, waiting, key=_key))
        return Ranking(claims, state, wake_s=self._next_demotion(view, released), pooled=True, released=released)

    def _claims(self, entries: Iterator[tuple[float, int, JobView]]) -> Iterator[Claim]:
        for queue, waits, job in entries:
            yield Claim(job.id, job.job.gpus if waits else len(job.gpus), f"queue {queue + 1:.0f}")

    def _queue(self, gpu_s: float) -> float:
        """The number of a job's queue; 0 is the highest. A threshold belongs to the lower queue, however sums of
        seconds were rounded."""
        return float(bisect_right(self.thresholds, gpu_s * (1 + 1e-12)))

    def _of_waiting(self, job: JobView) -> float:
        return self._queue(job.service_gpu_s)

    def _next_demotion(self, view: ClusterView, released: frozenset[str]) -> float | None:
        """When the next job passes a threshold: one that runs, or one that may be started now."""
        room = view.offer.n_free + sum(len(view.running[name].gpus) for name in released)
        soon = [job for job in view.waiting.values() if job.job.gpus <= room]
        times = []
        for job in (*view.running.values(), *soon):
            gpu_s = job.attained_gpu_s(view.now)
            queue = int(self._queue(gpu_s))
            if queue < len(self.thresholds):
                times.append(view.now + (self.thresholds[queue] - gpu_s) / (len(job.gpus) or job.job.gpus))
        return min((t for t in times if t > view.now), default=None)


def _attained(job: JobView) -> Key:
    return job.service_gpu_s, last_lease_s(job)


def _key(entry: tuple[float, int, JobView]) -> tuple[int, float, int]:
    queue, waits, job = entry
    return -job.job.priority, queue, waits
