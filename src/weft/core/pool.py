"""Serving claims from one pool: jobs whose lease is over give their GPUs back and are offered again with the rest."""

from __future__ import annotations

from weft.core.occupancy import Draft
from weft.core.outcome import Ask, Outcome
from weft.core.table import memory_of
from weft.model.plan import Declined, Placement, State
from weft.model.view import ClusterView, JobStatus, JobView
from weft.order.base import Claim, Ranking

__all__ = ["serve_pool"]


def serve_pool(view: ClusterView, ranking: Ranking, shared: bool, ask: Ask, state: State) -> Outcome:
    """Serve claims, best first, from the free GPUs and those of the released jobs (see `order.base.Ranking`)."""
    pool = _Pool(view, ranking.released, shared, ask, Outcome(state))
    for claim in ranking.claims:
        job = view.running.get(claim.job)
        if job is not None:
            pool.again(job, claim)
        elif not pool.admit(claim) and ranking.strict:
            break
    for name in sorted(pool.out):  # claimed by nobody, or behind a strict claim that found no room
        pool.again(view.running[name], Claim(name, len(view.running[name].gpus)), may_move=False)
    return pool.outcome


class _Pool:
    """The GPUs as they would be, whose lease is over and not yet served, and the outcome so far."""

    def __init__(self, view: ClusterView, released: frozenset[str], shared: bool, ask: Ask, outcome: Outcome) -> None:
        self.view = view
        self.shared = shared
        self.ask = ask
        self.outcome = outcome
        self.out = {name for name in released if view.running[name].status is JobStatus.RUNNING}
        self.taker: dict[int, str] = {}  # who was given a GPU in this cycle
        self._draft: Draft | None = None
        if self.out:
            for name in self.out:
                self._leave(self.draft, view.running[name])

    @property
    def draft(self) -> Draft:
        """A copy of the GPUs, made when the first thing changes: most cycles place nothing."""
        if self._draft is None:
            self._draft = Draft(self.view.cluster, self.view.offer)
        return self._draft

    def admit(self, claim: Claim) -> bool:
        """Serve a waiting job; False, with the reason written down, if there is no place for it."""
        job = self.outcome.waiting(self.view, claim)
        memory = memory_of(job.job, claim.gpus)
        if self._room(memory) < claim.gpus:
            self.outcome.declined.append(Declined(claim.job, self._no_room(claim.gpus, memory)))
            return False
        answer = self.ask(job, claim.gpus, self.draft, self.outcome.state)
        self.outcome.state = answer.state
        if answer.gpus is None:
            self.outcome.declined.append(Declined(claim.job, answer.reason, answer.ask_again_s))
            return False
        self._accept(claim, answer.gpus, answer.reason, memory)
        return True

    def again(self, job: JobView, claim: Claim, may_move: bool = True) -> None:
        """Serve a running job: it keeps its GPUs, moves, or has lost them and finds none."""
        if claim.job in self.out:
            self.out.discard(claim.job)
            intact = self.taker.keys().isdisjoint(job.gpus)
        elif claim.anew and job.status is JobStatus.RUNNING and claim.job not in self.outcome.placed:
            intact = True
            self._leave(self.draft, job)
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
        if intact:
            self.draft.take(job.gpus, memory_of(job.job, len(job.gpus)))
            return
        self.outcome.leaving.add(claim.job)
        takers = dict.fromkeys(self.taker[gpu] for gpu in job.gpus if gpu in self.taker)
        self.outcome.reasons[claim.job] = f"lease over: gives way to {', '.join(takers)}"

    def _leave(self, draft: Draft, job: JobView) -> None:
        draft.leave(job.gpus, memory_of(job.job, len(job.gpus)))

    def _room(self, memory: float) -> int:
        if self._draft is None and not self.shared:
            return self.view.offer.n_free if memory <= self.view.cluster.gpu_memory_bytes else 0
        return self.draft.room(memory, self.shared)

    def _accept(self, claim: Claim, gpus: Placement, reason: str, memory: float) -> None:
        if all(0 <= g < self.view.cluster.n_gpus for g in gpus):  # else the checker will say so
            self.draft.take(gpus, memory)
        self.taker.update(dict.fromkeys(gpus, claim.job))
        self.outcome.placed[claim.job] = gpus
        self.outcome.reasons[claim.job] = f"{claim.reason}; {reason}" if claim.reason else reason

    def _no_room(self, gpus: int, memory: float) -> str:
        if memory > self.view.cluster.gpu_memory_bytes:
            return f"needs {memory / 1e9:.1f} GB on each GPU, more than a GPU has"
        return f"wants {gpus} GPUs; fewer are on offer"
