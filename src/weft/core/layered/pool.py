"""Serving claims from one pool: jobs whose lease is over give their GPUs back and are offered again with the rest.

`Outcome` is what serving claims leads to, from a pool or not; `Ask` is how place is asked meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from weft.core.occupancy import Draft
from weft.core.table import memory_of
from weft.core.view import View
from weft.errors import DecisionError
from weft.model.plan import Declined, Placement, State
from weft.model.reason import Why, because, both
from weft.model.view import ClusterView, JobStatus, JobView
from weft.policies.order.base import Claim, Ranking
from weft.policies.place.base import Answer, Place

Floats = npt.NDArray[np.float64]
Ask = Callable[[JobView, int, Draft, State], Answer]  # how place is asked; alternatives ask in a varied way


@dataclass
class Outcome:
    """What serving the claims led to."""

    state: State  # place's, after all its answers
    placed: dict[str, Placement] = field(default_factory=dict)  # jobs that start, and running jobs that move
    leaving: set[str] = field(default_factory=set)  # running jobs that give way
    stopped: Counter[str] = field(default_factory=Counter)  # GPUs of jobs that give way, by the user they give way to
    taken: Counter[str] = field(default_factory=Counter)  # those of them that the job gets which they give way to
    reasons: dict[str, Why] = field(default_factory=dict)
    declined: list[Declined] = field(default_factory=list)

    def waiting(self, view: ClusterView, claim: Claim) -> JobView:
        """The waiting job that a claim is about; an order that claims another, or one twice, is wrong."""
        job = view.waiting.get(claim.job)
        if job is None:
            raise DecisionError(f"claim of job {claim.job}: there is no such job waiting")
        if claim.job in self.placed:
            raise DecisionError(f"claim of job {claim.job}: it is claimed twice")
        return job


class Within:
    """The limits of a ranking while its claims are served."""

    def __init__(self, view: ClusterView, ranking: Ranking, outcome: Outcome) -> None:
        self.view, self.outcome = view, outcome
        self.held = None
        if (limits := ranking.limits) is not None:
            stops = ranking.preemptive or ranking.pooled  # then what owners wait for is not lent to others
            owners = view.waiting.values() if stops and limits.lends and limits.reclaim else ()
            self.held = limits.held(view.running.values(), owners)

    def allows(self, claim: Claim) -> bool:
        """Whether a claim may be served; a waiting job that may not is told why."""
        if self.held is None:
            return True
        self.held.without(self.outcome.leaving, self.view.running)
        running = self.view.running.get(claim.job)
        if running is not None:
            return claim.gpus <= len(running.gpus) or not self.held.refuses(running.job, claim.gpus - len(running.gpus))
        why = self.held.refuses(self.outcome.waiting(self.view, claim).job, claim.gpus)
        if why:
            self.outcome.declined.append(Declined(claim.job, why))
        return not why

    def served(self, claim: Claim) -> None:
        """After a claim: if it was served, the GPUs that its job has gained count from now on."""
        if self.held is not None and claim.job in self.outcome.placed:
            before = self.view.running.get(claim.job)
            job = self.view.waiting[claim.job].job if before is None else before.job
            self.held.take(job, len(self.outcome.placed[claim.job]) - (0 if before is None else len(before.gpus)))


def serve_pool(view: ClusterView, ranking: Ranking, place: Place, ask: Ask, state: State, once: bool) -> Outcome:
    """Serve claims, best first, from the free GPUs and those of the released jobs (see `order.base.Ranking`).

    If the claims are read `once` only, the view need not even produce those that could not be served.
    """
    pool = _Pool(view, ranking.released, place, ask, Outcome(state))
    within = Within(view, ranking, pool.outcome)
    if once and not (ranking.strict or place.shares_gpus) and isinstance(view, View):
        view.limit(pool.passes, place.alike)
        try:
            _serve_each(pool, ranking, within)
        finally:
            view.limit(None)
    else:
        _serve_each(pool, ranking, within)
    if not (ranking.told or ranking.strict):
        if not (view.running or pool.outcome.placed):
            pool.serve_unclaimed(within)
        pool.turn_away()
    for name in sorted(pool.out):  # not claimed, or claimed after the pool was empty
        pool.again(view.running[name], Claim(name, len(view.running[name].gpus)), may_move=False)
    return pool.outcome


def _serve_each(pool: _Pool, ranking: Ranking, within: Within) -> None:
    for claim in ranking.claims:
        job = pool.view.running.get(claim.job)
        if job is not None:
            pool.again(job, claim if within.allows(claim) else replace(claim, gpus=len(job.gpus)))
        elif not within.allows(claim):
            continue
        elif not pool.admit(claim) and ranking.strict:
            break
        within.served(claim)
        if ranking.told and not (pool.out or pool.taker):
            break  # nothing is on offer that has not been declined before
        if pool.hopeless and not ranking.strict:
            break


class _Pool:
    """The GPUs as they would be, the jobs whose lease is over and that were not served yet, and the outcome so far."""

    def __init__(self, view: ClusterView, released: frozenset[str], place: Place, ask: Ask, outcome: Outcome) -> None:
        self.view = view
        self.shared = place.shares_gpus
        self.alike = place.alike
        self.ask = ask
        self.outcome = outcome
        self.out = {name for name in released if view.running[name].status is JobStatus.RUNNING}
        self.taker: dict[int, str] = {}  # who was given a GPU in this cycle
        self._kept: list[JobView] = []  # jobs that keep what they have, not in the draft yet
        self._n_kept = 0  # their GPUs
        self._draft: Draft | None = None
        self._refused: dict[tuple[int, str | None], Why] = {}  # by size and kind: why jobs take nothing of what is left
        self._least = min((gpus for gpus, _ in view.demand), default=0)  # GPUs that a waiting job needs
        self._n_pooled = view.offer.n_free + sum(len(view.running[name].gpus) for name in self.out)
        # Counting suffices where every GPU that a job leaves becomes free: no GPU is shared, and no server is down.
        self._counts = not self.shared and bool(view.offer.usable.all())

    @property
    def draft(self) -> Draft:
        """The GPUs as they would be, made when place is first asked: in most cycles it is not."""
        if self._draft is None:
            self._draft = Draft(self.view.cluster, self.view.offer)
            self._all(self._draft.leave, [self.view.running[name] for name in self.out])
        else:
            self._all(self._draft.take, self._kept)
        self._kept, self._n_kept = [], 0
        return self._draft

    @property
    def hopeless(self) -> bool:
        """Whether every lease that is over has been served and less is left than any waiting job needs. The jobs that
        have not been served yet then find no place and need not be asked about."""
        n_free = 0 if self.shared else self._n_free()
        return not self.shared and (n_free == 0 or (n_free < self._least and not self.out))

    def passes(self, gpus: int, job: JobView) -> bool:
        """Whether a job would be turned away without being asked about: what is left only shrinks."""
        return gpus > self._n_free() or (bool(self._refused) and (job.job.gpus, self.alike(job)) in self._refused)

    def serve_unclaimed(self, within: Within) -> None:
        """Serve jobs that the order has not claimed, on an idle cluster where no claim could be served. The order left
        them out for the claimed jobs, and place may keep GPUs for those, which find no place: all would wait for each
        other."""
        declined = {answer.job for answer in self.outcome.declined}
        for job in list(self.view.waiting.values()):
            if job.id not in declined and job.id not in self.outcome.placed:
                claim = Claim(job.id, job.job.gpus, "nobody else can start")
                if within.allows(claim):
                    self.admit(claim)
                    within.served(claim)

    def turn_away(self) -> None:
        """Decline every waiting job that has neither been answered nor been told why it waits: it wanted more than
        there was, or it is like another job that declined. A job that was told before keeps the reason it has."""
        declined = self.outcome.declined
        answered = {*self.outcome.placed, *(answer.job for answer in declined)}
        limit = self.view.cluster.gpu_memory_bytes
        for job in self.view.untold() if isinstance(self.view, View) else self.view.waiting.values():
            if job.id in answered:
                continue
            words = self._refused.get((job.job.gpus, self.alike(job))) if self._refused else None
            if words is None:
                declined.append(_no_room(job.id, job.job.gpus, memory_of(job.job, job.job.gpus), limit))
            else:
                declined.append(Declined(job.id, words))

    def admit(self, claim: Claim) -> bool:
        """Serve a waiting job; False, with the reason written down, if there is no place for it."""
        job = self.outcome.waiting(self.view, claim)
        memory = memory_of(job.job, claim.gpus)
        if self._room(memory) < claim.gpus:
            limit = self.view.cluster.gpu_memory_bytes
            self.outcome.declined.append(_no_room(claim.job, claim.gpus, memory, limit))
            return False
        kind = (claim.gpus, self.alike(job))
        if kind in self._refused:
            self.outcome.declined.append(Declined(claim.job, self._refused[kind]))
            return False
        answer = self.ask(job, claim.gpus, self.draft, self.outcome.state)
        self.outcome.state = answer.state
        if answer.gpus is None:
            self.outcome.declined.append(Declined(claim.job, answer.reason, answer.ask_again_s))
            if kind[1] is not None:
                self._refused[kind] = answer.reason
            return False
        self._accept(claim, answer.gpus, answer.reason, memory)
        return True

    def again(self, job: JobView, claim: Claim, may_move: bool = True) -> None:
        """Serve a running job: it keeps its GPUs, moves, or has lost them and finds none."""
        if claim.job in self.out:
            draft = self.draft if claim.anew or not self._counts else None  # to be made before the job leaves `out`
            self.out.discard(claim.job)
            intact = self.taker.keys().isdisjoint(job.gpus)
        elif claim.anew and job.status is JobStatus.RUNNING and claim.job not in self.outcome.placed:
            intact = True
            draft = self.draft
            draft.leave(job.gpus, memory_of(job.job, len(job.gpus)))
        else:
            return
        memory = memory_of(job.job, claim.gpus)
        if may_move and (claim.anew or not intact) and self._room(memory) >= claim.gpus:
            answer = self.ask(job, claim.gpus, self.draft, self.outcome.state)
            self.outcome.state = answer.state
            same = answer.gpus is not None and sorted(answer.gpus) == sorted(job.gpus)
            if answer.gpus is not None and not same:
                self._accept(claim, answer.gpus, answer.reason, memory)
                return
            if answer.leaves:
                self.outcome.leaving.add(claim.job)
                self.outcome.reasons[claim.job] = answer.reason
                return
        if intact:
            self._keep(job, draft)
            return
        self.outcome.leaving.add(claim.job)
        takers = dict.fromkeys(self.taker[gpu] for gpu in job.gpus if gpu in self.taker)
        self.outcome.reasons[claim.job] = because("weft.lease-over", to=tuple(takers))

    def _keep(self, job: JobView, draft: Draft | None) -> None:
        if draft is not None:
            draft.take(job.gpus, memory_of(job.job, len(job.gpus)))
        else:
            self._kept.append(job)
            self._n_kept += len(job.gpus)

    def _all(self, move: Callable[[Sequence[int], float | Floats], None], jobs: Sequence[JobView]) -> None:
        """Take or leave the GPUs of many jobs: in one go, unless GPUs are shared."""
        if self.shared:
            for job in jobs:
                move(job.gpus, memory_of(job.job, len(job.gpus)))
        elif jobs:
            sizes = [len(job.gpus) for job in jobs]
            memory = np.repeat([memory_of(job.job, n) for job, n in zip(jobs, sizes, strict=True)], sizes)
            move(list(chain.from_iterable(job.gpus for job in jobs)), memory)

    def _n_free(self) -> int:
        if self._counts:
            return (self._n_pooled if self._draft is None else self._draft.n_free) - self._n_kept
        return self.draft.n_free

    def _room(self, memory: float) -> int:
        if self.shared:
            return self.draft.room(memory, True)
        return self._n_free() if memory <= self.view.cluster.gpu_memory_bytes else 0

    def _accept(self, claim: Claim, gpus: Placement, reason: Why, memory: float) -> None:
        if gpus and min(gpus) >= 0 and max(gpus) < self.view.cluster.n_gpus:  # else the checker will say so
            self.draft.take(gpus, memory)
        self.taker.update(dict.fromkeys(gpus, claim.job))
        self.outcome.placed[claim.job] = gpus
        self.outcome.reasons[claim.job] = both(claim.reason, reason)


@lru_cache(maxsize=65_536)  # the same words for the same job, cycle after cycle
def _no_room(job: str, gpus: int, memory: float, limit: float) -> Declined:
    if memory > limit:
        return Declined(job, because("weft.memory", gb=memory / 1e9))
    return Declined(job, because("weft.no-room", gpus=gpus, there="are on offer"))
