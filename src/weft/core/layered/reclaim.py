"""Reclaiming: a queue takes back what it has lent when one of its jobs waits within its quota.

Jobs that run on borrowed GPUs stop for it, those that started last first, and no more of them than it takes. The jobs
that they stop for are served first from then on, so that nobody else gets their GPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from weft.core.layered.pool import Outcome
from weft.core.occupancy import Draft
from weft.core.table import memory_of
from weft.model.plan import Placement, State
from weft.model.reason import because
from weft.model.view import ClusterView, JobStatus, JobView
from weft.policies.order.base import Claim, Ranking
from weft.policies.order.limited import Held, Limits
from weft.policies.place.base import Place


def _reclaims(ranking: Ranking) -> bool:
    """Whether quotas are taken back under this ranking: its order stops jobs, and the limits ask for it."""
    limits = ranking.limits
    return limits is not None and limits.lends and limits.reclaim and (ranking.preemptive or ranking.pooled)


def owners_first(view: ClusterView, ranking: Ranking, state: State) -> Ranking:
    """The ranking with the jobs that others have stopped for before all others."""
    owners = state.get("owners", ()) if _reclaims(ranking) else ()
    there = [view.waiting[name] for name in owners if name in view.waiting]
    if not there:
        return ranking
    names = {job.id for job in there}
    first = [Claim(job.id, job.job.gpus, "takes back what its queue has lent", urgent=False) for job in there]
    return replace(ranking, claims=chain(first, (claim for claim in ranking.claims if claim.job not in names)))


def take_back(
    view: ClusterView, ranking: Ranking, place: Place, state: State, outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    """Let borrowers stop in all outcomes, which start the same jobs. Returns what the planner must remember: `owners`,
    the jobs that they stop for, and whether the order has ever stopped jobs."""
    limits = ranking.limits
    if limits is None or not limits.lends:
        return {}
    first, *others = outcomes
    owners: list[str] = []
    if _reclaims(ranking):
        owners = [name for name in state.get("owners", ()) if name in view.waiting and name not in first.placed]
        owners += _reclaim(view, limits, place, first)
    for other in others:
        other.reasons |= {name: first.reasons[name] for name in first.leaving - other.leaving}
        other.leaving |= first.leaving
    stops = state.get("stops", False) or ranking.preemptive or ranking.pooled
    return {"owners": list(dict.fromkeys(owners)), "stops": stops}


def _reclaim(view: ClusterView, limits: Limits, place: Place, outcome: Outcome) -> list[str]:
    """Stop borrowers for waiting jobs that are within their quotas; returns those jobs."""
    held = limits.held(view.running.values())
    held.without(outcome.leaving, view.running)
    draft = Draft(view.cluster, view.offer)
    for job in view.running.values():
        if job.status is JobStatus.STOPPING or job.id in outcome.leaving or job.id in outcome.placed:
            draft.leave(job.gpus, memory_of(job.job, len(job.gpus)))
    for name, gpus in outcome.placed.items():
        before = view.running.get(name)
        job = view.waiting[name] if before is None else before
        draft.take(gpus, memory_of(job.job, len(gpus)))
        held.take(job.job, len(gpus) - (0 if before is None else len(before.gpus)))
    service = _Reclaim(view, limits, place, outcome, held, draft)
    tried: set[str] = set()  # queues whose job found no place; the next one of the same queue would fare alike
    owners = []
    for job in view.waiting.values():
        if job.job.vc in tried or job.id in outcome.placed or not held.within_quota(job.job, job.job.gpus):
            continue
        if service.serve(job):
            owners.append(job.id)
        else:
            tried.add(job.job.vc)
    return owners


class _Reclaim:
    """The GPUs as they would be, and who could give some back."""

    def __init__(
        self, view: ClusterView, limits: Limits, place: Place, outcome: Outcome, held: Held, draft: Draft
    ) -> None:
        self.view, self.limits, self.place = view, limits, place
        self.outcome, self.held, self.draft = outcome, held, draft
        there = [
            job
            for job in view.running.values()
            if job.status is JobStatus.RUNNING and job.job.vc in limits.quotas
            and job.id not in outcome.leaving and job.id not in outcome.placed
        ]  # fmt: skip
        self.last_first = sorted(there, key=lambda job: (job.started_s or 0.0, job.id), reverse=True)

    def serve(self, job: JobView) -> bool:
        """Let borrowers stop so that the job can start; false if that would not help, or nobody need stop."""
        wanted, memory = job.job.gpus, memory_of(job.job, job.job.gpus)
        short = self.held.short(wanted)  # GPUs that borrowers must give up, whoever else has some free
        others = self._borrowers()
        trial = self.draft.copy()
        given, next_try = 0, 0
        for count in range(len(others) + 1):
            if count:
                other = others[count - 1]
                trial.leave(other.gpus, memory_of(other.job, len(other.gpus)))
                given += len(other.gpus)
            if given < short or trial.room(memory, self.place.shares_gpus) < wanted:
                continue
            if count < next_try and count < len(others):
                continue
            answer = self.place.place(self.view, job, wanted, trial.offer, self.outcome.state)
            if answer.gpus is not None:
                return self._stop(self._needed(others[:count], answer.gpus, short), job, answer.gpus)
            next_try = 2 * count
        return False

    def _borrowers(self) -> list[JobView]:
        """Jobs of queues above their quota, the last first, until each queue would be back within its own."""
        over = {name: self.held.queues[name] - quota for name, quota in self.limits.quotas.items()}
        found = []
        for job in self.last_first:
            if over[job.job.vc] > 0 and job.id not in self.outcome.leaving:
                over[job.job.vc] -= len(job.gpus)
                found.append(job)
        return found

    def _needed(self, others: Sequence[JobView], gpus: Placement, short: int) -> list[JobView]:
        """Those in the way, and as many more as the quotas need."""
        taken = set(gpus)
        found = [job for job in others if not taken.isdisjoint(job.gpus)]
        given = sum(len(job.gpus) for job in found)
        for job in others:
            if given < short and job not in found:
                found.append(job)
                given += len(job.gpus)
        return found

    def _stop(self, others: Sequence[JobView], job: JobView, gpus: Placement) -> bool:
        for other in others:
            self.outcome.leaving.add(other.id)
            self.outcome.reasons[other.id] = because("weft.gives-way", to=job.id)
            self.draft.leave(other.gpus, memory_of(other.job, len(other.gpus)))
            self.held.take(other.job, -len(other.gpus))
        self.draft.take(gpus, memory_of(job.job, len(gpus)))
        self.held.take(job.job, len(gpus))
        return bool(others)
