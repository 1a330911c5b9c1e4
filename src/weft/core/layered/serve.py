"""Serving claims in order: who starts where, and who gives way for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import chain

from weft.core.layered.pool import Ask, Outcome, Within, serve_pool
from weft.core.occupancy import Draft
from weft.core.table import memory_of, shape_of
from weft.core.view import View
from weft.model.plan import Declined, Placement, State
from weft.model.reason import Why, because, both
from weft.model.view import ClusterView, JobStatus, JobView
from weft.policies.order.base import Cap, Claim, Ranking
from weft.policies.place.base import Answer, Place


def serve(
    view: ClusterView, ranking: Ranking, place: Place, state: State, ask: Ask | None = None, once: bool = False
) -> Outcome:
    """Serve claims, best first.

    A waiting job is offered the free GPUs. Under a preemptive order it is then also offered the GPUs that STOPPING jobs
    are leaving, and after that those of running jobs that rank below it, the worst first, as many as it takes. A
    running job is stopped only when its GPUs are part of an accepted answer. Jobs that nobody displaces keep what they
    have.

    Place is not asked about a job that wants more GPUs than there can be. Only the first such job is declined in words;
    the rest stand behind it. If the claims are read `once` only, the view need not even produce the rest.
    """
    if ranking.pooled:
        return serve_pool(view, ranking, place, ask or _plainly(view, place), state, once)
    if not ranking.preemptive and not view.waiting:
        return Outcome(state)  # nobody to serve
    service = _Service(view, place.shares_gpus, ask or _plainly(view, place), Outcome(state), ranking.cap)
    claims = iter(ranking.claims)
    if ranking.preemptive:
        claims = service.rank_running(claims)
    if once and isinstance(view, View) and not (ranking.strict or place.shares_gpus):
        view.limit(service.passes)
        try:
            return _serve_each(service, ranking, claims)
        finally:
            view.limit(None)
    return _serve_each(service, ranking, claims)


def _serve_each(service: _Service, ranking: Ranking, claims: Iterator[Claim]) -> Outcome:
    within = Within(service.view, ranking, service.outcome)
    for claim in claims:
        if ranking.preemptive and claim.job in service.view.running:
            service.keep(claim if within.allows(claim) else replace(claim, anew=False))
            within.served(claim)
            continue
        if service.full():
            service.turn_away(claim)
            break
        if not within.allows(claim):
            continue
        served = service.could_fit(claim) and service.admit(claim)
        within.served(claim)
        if ranking.strict and not served:
            break
    return service.outcome


def _plainly(view: ClusterView, place: Place) -> Ask:
    return lambda job, gpus, draft, state: place.place(view, job, gpus, draft.offer, state)


class _Service:
    """The GPUs as they would be, the jobs that could still give way, and the outcome so far."""

    def __init__(
        self, view: ClusterView, shared: bool, ask: Ask, outcome: Outcome, cap: Cap | None = None
    ) -> None:  # fmt: skip
        self.view = view
        self.cap = cap
        self.shared = shared
        self.ask = ask
        self.outcome = outcome
        self.stopping: list[JobView] = []  # jobs that are leaving already
        self.below: deque[JobView] = deque()  # running jobs that rank below the claim being served, worst last
        self.spare_gpus = 0  # GPUs of those two
        self._draft: Draft | None = None  # made when first needed: most cycles place nothing
        self._owed: tuple[Placement, float] | None = None  # accepted last; entered if the cycle goes on
        self._full: bool | None = None  # None: to be found out
        self._first_too_big = True
        self._dear = False  # whether the cap kept GPUs from the claim being served

    @property
    def draft(self) -> Draft:
        """The GPUs as they would be after all that was accepted so far."""
        if self._draft is None:
            self._draft = Draft(self.view.cluster, self.view.offer)
        if self._owed is not None:
            gpus, memory = self._owed
            self._owed = None
            self._draft.take(gpus, memory)
        return self._draft

    @cached_property
    def left(self) -> dict[tuple[int, float], int]:
        """Shapes of the waiting jobs that might still be served."""
        return dict(self.view.demand)

    @property
    def n_free(self) -> int:
        """Free GPUs in the draft."""
        return self.view.offer.n_free if self._draft is None else self.draft.n_free

    def rank_running(self, claims: Iterator[Claim]) -> Iterator[Claim]:
        """Read claims until every running job is seen, so that the worst ones are known; then serve from the first.

        After a preemptive cycle the running jobs are nearly the best ones, so few claims are read.
        """
        unseen: dict[str, JobView] = {}
        for job in self.view.running.values():
            if job.status is JobStatus.RUNNING:
                unseen[job.id] = job
            elif job.status is JobStatus.STOPPING:
                self.stopping.append(job)
        read: list[Claim] = []
        while unseen and (claim := next(claims, None)):
            read.append(claim)
            if claim.job in unseen:
                self.below.append(unseen.pop(claim.job))
        self.below.extend(unseen.values())  # those that claim nothing come last
        self.spare_gpus = sum(len(job.gpus) for job in chain(self.stopping, self.below))
        return chain(read, claims)

    def passes(self, gpus: int, job: JobView) -> bool:
        """All jobs that need more GPUs than are free or could be freed would be turned away."""
        return gpus > self.n_free + self.spare_gpus

    def could_fit(self, claim: Claim) -> bool:
        """False if fewer GPUs than that are free or could be freed; their number shrinks as claims are served."""
        if self.shared or claim.gpus <= self.n_free + self.spare_gpus:
            return True
        self.turn_away(claim)
        return False

    def turn_away(self, claim: Claim) -> None:
        """Decline the first claim that is not worth asking place about; the claims behind it are not answered."""
        if self._first_too_big:
            self._first_too_big = False
            self.outcome.declined.append(Declined(claim.job, self._no_room(claim.gpus, 0.0)))

    def full(self) -> bool:
        """True if no waiting job could be served any more, by counting."""
        if self._full is None:
            if self.shared:
                fits = (self.draft.room(memory, True) >= gpus for gpus, memory in self.left)
                self._full = not (self.spare_gpus or any(fits))
            else:
                free = self.n_free + self.spare_gpus
                self._full = all(gpus > free for gpus, _ in self.left)
        return self._full

    def keep(self, claim: Claim) -> None:
        """Serve a job that holds GPUs: it keeps them, unless it is to be placed anew and place finds other ones."""
        if not self.below or self.below[0].id != claim.job:
            return  # starting, stopping, or giving way
        job = self.below.popleft()
        self.spare_gpus -= len(job.gpus)
        self._full = None
        if not claim.anew:
            return
        trial = self.draft.copy()
        trial.leave(job.gpus, memory_of(job.job, len(job.gpus)))
        memory = memory_of(job.job, claim.gpus)
        if trial.room(memory, self.shared) >= claim.gpus:
            answer = self.ask(job, claim.gpus, trial, self.outcome.state)
            self.outcome.state = answer.state
            if answer.gpus is not None and (len(answer.gpus), set(answer.gpus)) != (len(job.gpus), set(job.gpus)):
                self._accept(claim, answer.gpus, both("placed anew", answer.reason, ", "), memory, trial)

    def admit(self, claim: Claim) -> bool:
        """Serve a waiting job; False if there is no place for it."""
        job = self.outcome.waiting(self.view, claim)
        self._count(job)
        memory = memory_of(job.job, claim.gpus)
        self._dear = False
        refusal: Answer | None = None
        if self.draft.room(memory, self.shared) >= claim.gpus:
            answer = self.ask(job, claim.gpus, self.draft, self.outcome.state)
            self.outcome.state = answer.state
            if answer.gpus is not None:
                self._accept(claim, answer.gpus, answer.reason, memory, self.draft)
                return True
            refusal = answer
        if claim.urgent and self._displace(job, claim, memory):
            return True
        reason = refusal.reason if refusal else self._no_room(claim.gpus, memory)
        if self._dear:
            reason = both(reason, because("weft.dear", user=job.job.user))
        self.outcome.declined.append(Declined(claim.job, reason, refusal.ask_again_s if refusal else None))
        return False

    def _displace(self, job: JobView, claim: Claim, memory: float) -> bool:
        """Serve a waiting job with the GPUs of others: those that leave anyway, then the worst of those below it.

        They are added one by one until the GPUs suffice, then (for a place that is hard to please) in doubling steps.
        """
        others = [*self.stopping, *reversed(self.below)]
        if self.cap is not None:
            others = self._affordable(others, self.cap.gpus(job.job.user) - self.outcome.stopped[job.job.user])
        trial = self.draft.copy()
        next_try = 0
        for count, other in enumerate(others, start=1):
            trial.leave(other.gpus, memory_of(other.job, len(other.gpus)))
            if trial.room(memory, self.shared) < claim.gpus or (count < next_try and count < len(others)):
                continue
            answer = self.ask(job, claim.gpus, trial, self.outcome.state)
            if answer.gpus is not None:
                self.outcome.state = answer.state
                self._accept(claim, answer.gpus, answer.reason, memory, trial)
                self._give_way(others[:count], set(answer.gpus), job)
                return True
            next_try = 2 * count
        return False

    def _affordable(self, others: list[JobView], gpus: float) -> list[JobView]:
        """The first of them, as far as not more GPUs than that are taken from running jobs."""
        for count, other in enumerate(others):
            gpus -= len(other.gpus) if other.status is JobStatus.RUNNING else 0
            if gpus < 0:
                self._dear = True
                return others[:count]
        return others

    def _give_way(self, others: list[JobView], gpus: set[int], to: JobView) -> None:
        """Let jobs stay that are not in the way after all, the best first; the others leave."""
        gone: set[str] = set()
        for other in reversed(others):
            memory = memory_of(other.job, len(other.gpus))
            in_the_way = not self.draft.has(other.gpus, memory) if self.shared else not gpus.isdisjoint(other.gpus)
            if not in_the_way:
                self.draft.take(other.gpus, memory)
                continue
            gone.add(other.id)
            self.spare_gpus -= len(other.gpus)
            if other.status is JobStatus.RUNNING:
                self.outcome.leaving.add(other.id)
                self.outcome.stopped[to.job.user] += len(other.gpus)
                self.outcome.taken[to.id] += len(gpus.intersection(other.gpus))
                self.outcome.reasons[other.id] = because("weft.gives-way", to=to.id)
        self.stopping = [job for job in self.stopping if job.id not in gone]
        self.below = deque(job for job in self.below if job.id not in gone)

    def _accept(self, claim: Claim, gpus: Placement, reason: Why, memory: float, draft: Draft) -> None:
        self._draft = draft
        self._full = None
        if min(gpus, default=0) >= 0 and max(gpus, default=0) < self.view.cluster.n_gpus:  # or the checker will say so
            self._owed = (gpus, memory)
        self.outcome.placed[claim.job] = gpus
        self.outcome.reasons[claim.job] = both(claim.reason, reason)

    def _count(self, job: JobView) -> None:
        shape = shape_of(job.job)
        self.left[shape] -= 1
        if not self.left[shape]:
            del self.left[shape]
            self._full = None

    def _no_room(self, gpus: int, memory: float) -> Why:
        if memory > self.view.cluster.gpu_memory_bytes:
            return because("weft.memory", gb=memory / 1e9)
        return because("weft.no-room", gpus=gpus, there="have the memory" if self.shared else "are free")
