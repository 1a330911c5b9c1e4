"""Limits: any order, without the jobs that would take their user or queue beyond what it may hold.

A job over a limit is passed over: it blocks nobody, even under an order in which nobody may pass. A limit holds before
anybody gives way, so such a job displaces nobody either. Quotas are lent: a queue may go beyond its own as long as all
queues with a quota together stay within the sum (the cohorts of Kueue). Under an order that stops jobs, the owner takes
back what it has lent as soon as a job of its own waits (core/layered/reclaim.py); under any other, what was lent comes
back when its job ends.
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
    reclaim: bool = True  # whether they take back what they lent, where the order stops jobs

    @property
    def lends(self) -> bool:
        """Whether GPUs are lent."""
        return bool(self.quotas) and self.borrow

    def held(self, jobs: Iterable[JobView], waiting: Iterable[JobView] = ()) -> Held:
        """What jobs hold at the start of a cycle. What `waiting` jobs want within their quotas is not lent."""
        found = Held(self)
        for job in jobs:
            if job.status is not JobStatus.STOPPING:
                found.take(job.job, len(job.gpus))
        for job in waiting:
            if found.within_quota(job.job, found.wanted[job.job.vc] + job.job.gpus):
                found.wanted[job.job.vc] += job.job.gpus
        return found


class Held:
    """GPUs by user and by queue in the course of one cycle."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.users: Counter[str] = Counter()
        self.queues: Counter[str] = Counter()
        self.wanted: Counter[str] = Counter()  # what waiting jobs want within the quota of their queue
        self._left: set[str] = set()

    def take(self, job: Job, gpus: int) -> None:
        """A job starts on so many GPUs more."""
        self.users[job.user] += gpus
        self.queues[job.vc] += gpus
        if self.wanted[job.vc]:
            self.wanted[job.vc] = max(0, self.wanted[job.vc] - gpus)

    def without(self, leaving: Collection[str], running: Mapping[str, JobView]) -> None:
        """Jobs give way; each counts once, however often it is named."""
        for name in set(leaving) - self._left:
            self.take(running[name].job, -len(running[name].gpus))
            self._left.add(name)

    def refuses(self, job: Job, gpus: int) -> str:
        """Why a job may not have so many GPUs more; empty if it may."""
        limits = self.limits
        if why := self._over(job, gpus):
            return why
        quota = limits.quotas.get(job.vc)
        if quota is None:
            return ""
        own = self.queues[job.vc] + gpus <= quota
        if not (limits.borrow or own):
            return f"queue {job.vc} has a quota of {quota} GPUs"
        if self.short(gpus if own else gpus + sum(self.wanted.values()) - self.wanted[job.vc]) > 0:
            return f"the queues that share quotas with {job.vc} hold all of their GPUs"
        return ""

    def within_quota(self, job: Job, gpus: int) -> bool:
        """Whether its queue would stay within its own quota with so many GPUs more, and no other limit is met."""
        quota = self.limits.quotas.get(job.vc)
        return quota is not None and self.queues[job.vc] + gpus <= quota and not self._over(job, gpus)

    def short(self, gpus: int) -> int:
        """By how many GPUs all queues with quotas would be beyond their sum with so many more."""
        quotas = self.limits.quotas
        return sum(self.queues[name] for name in quotas) + gpus - sum(quotas.values())

    def _over(self, job: Job, gpus: int) -> str:
        """The limit of its user or queue that a job would go beyond."""
        limits = self.limits
        user, queue = limits.users.get(job.user, limits.per_user), limits.queues.get(job.vc, limits.per_queue)
        if user is not None and self.users[job.user] + gpus > user:
            return f"user {job.user} may hold {user} GPUs"
        if queue is not None and self.queues[job.vc] + gpus > queue:
            return f"queue {job.vc} may hold {queue} GPUs"
        return ""


class Limited(Order):
    """An order whose claims are served within limits. It keeps the order's name: results say what was compared."""

    def __init__(self, order: Order, limits: Limits) -> None:
        self.order, self.limits = order, limits
        self.name, self.needs = order.name, order.needs
        self.resizes = order.resizes
        self.shortest_stay_s = order.shortest_stay_s
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
