"""Limits: any order, without the jobs that would take their user or queue beyond what it may hold.

A job over a limit is passed over: it blocks nobody, even under an order in which nobody may pass. A limit holds before
anybody gives way, so such a job displaces nobody either. Quotas are lent: a queue may go beyond its own as long as all
queues with a quota together stay within the sum (the cohorts of Kueue; what was lent comes back when its job ends).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from weft.model.job import Job
from weft.model.plan import State
from weft.model.view import ClusterView, JobStatus, JobView
from weft.policies.order.base import Order, Ranking


@dataclass(frozen=True)
class Limits:
    """GPUs that the running jobs of one user, or of one queue (`vc`), may hold together."""

    per_user: int | None = None
    users: Mapping[str, int] = field(default_factory=dict)  # instead of per_user
    per_queue: int | None = None
    queues: Mapping[str, int] = field(default_factory=dict)  # instead of per_queue
    quotas: Mapping[str, int] = field(default_factory=dict)  # of queues that lend each other what they do not use
    borrow: bool = True  # whether they do

    def held(self, jobs: Iterable[JobView]) -> Held:
        """What jobs hold at the start of a cycle."""
        found = Held(self)
        for job in jobs:
            if job.status is not JobStatus.STOPPING:
                found.take(job.job, len(job.gpus))
        return found


class Held:
    """GPUs by user and by queue in the course of one cycle."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.users: Counter[str] = Counter()
        self.queues: Counter[str] = Counter()
        self._left: set[str] = set()

    def take(self, job: Job, gpus: int) -> None:
        """A job starts on so many GPUs more."""
        self.users[job.user] += gpus
        self.queues[job.vc] += gpus

    def without(self, leaving: Collection[str], running: Mapping[str, JobView]) -> None:
        """Jobs give way; each counts once, however often it is named."""
        for name in set(leaving) - self._left:
            self.take(running[name].job, -len(running[name].gpus))
            self._left.add(name)

    def refuses(self, job: Job, gpus: int) -> str:
        """Why a job may not have so many GPUs more; empty if it may."""
        limits = self.limits
        user, queue = limits.users.get(job.user, limits.per_user), limits.queues.get(job.vc, limits.per_queue)
        if user is not None and self.users[job.user] + gpus > user:
            return f"user {job.user} may hold {user} GPUs"
        if queue is not None and self.queues[job.vc] + gpus > queue:
            return f"queue {job.vc} may hold {queue} GPUs"
        quota = limits.quotas.get(job.vc)
        if quota is None:
            return ""
        if not limits.borrow and self.queues[job.vc] + gpus > quota:
            return f"queue {job.vc} has a quota of {quota} GPUs"
        if sum(self.queues[name] for name in limits.quotas) + gpus > sum(limits.quotas.values()):
            return f"the queues that share quotas with {job.vc} hold all of their GPUs"
        return ""


class Limited(Order):
    """An order whose claims are served within limits. It keeps the order's name: results say what was compared."""

    def __init__(self, order: Order, limits: Limits) -> None:
        self.order, self.limits = order, limits
        self.name, self.needs = order.name, order.needs
        self.resizes = order.resizes
        self.idle_without_jobs = order.idle_without_jobs

    def initial_state(self) -> State:
        """The order's."""
        return self.order.initial_state()

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """The order's claims, to be served within limits."""
        ranking = self.order.rank(view, state)
        return replace(ranking, limits=self.limits) if isinstance(ranking, Ranking) else ranking

    def turn(self, view: ClusterView, job: JobView) -> tuple[float, float]:
        """The order's."""
        return self.order.turn(view, job)
