"""Layered: order + place as one planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import tee

from weft.core.decide import Amended
from weft.core.layered.alternatives import alternatives
from weft.core.layered.even import Shaped
from weft.core.layered.pool import Outcome
from weft.core.layered.reclaim import owners_first, take_back
from weft.core.layered.serve import serve
from weft.core.returned import expect
from weft.model.plan import Candidate, Plan, State
from weft.model.view import ClusterView, JobView
from weft.policies.order.base import STOP_S, Cap, Claim, Order, Ranking
from weft.policies.order.limited import Limited, Limits
from weft.policies.place.base import Place
from weft.policies.planners.base import Planner

_NEXT_S = 1e-3


class Layered(Planner):
    """Order ranks the jobs; place answers offers for one job after another. Both memories are committed, or neither.

    Asked for several candidates it returns alternatives of equal merit: the same jobs start and give way, each over as
    many servers and racks, on other servers (core/layered/alternatives.py). Fewer are returned when fewer are found.
    """

    keeps_shapes = True
    unequal = True

    def __init__(self, order: Order, place: Place) -> None:
        self.order = order
        self.place = place
        self._shaped = Shaped(place)
        self._cap: tuple[float, float] | None = None
        self.name = f"{order.name}/{place.name}"
        self.needs = order.needs | place.needs
        self.shares_gpus = place.shares_gpus
        self.names_gpus = place.names_gpus
        self.uneven = place.uneven
        self.resizes = order.resizes
        self.shortest_stay_s = order.shortest_stay_s
        self.idle_without_jobs = order.idle_without_jobs and type(place).observe is Place.observe

    def initial_state(self) -> State:
        """Both memories, side by side."""
        return {"order": self.order.initial_state(), "place": self.place.initial_state()}

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """The plan that serves the order's claims best first, and up to n - 1 alternatives."""
        ranking = self.order.rank(view, state["order"])
        expect(self.order, "order", "rank", ranking, Ranking, "a Ranking")
        taken = self._taken(view, state)
        if self._cap is not None and ranking.preemptive:
            ranking = replace(ranking, cap=Cap(self._cap[0], taken["by"]))
        ranking = owners_first(view, ranking, state)
        if n > 1:
            ranking = replace(ranking, claims=_Tape(ranking.claims))  # read again for each alternative
        outcome = serve(view, ranking, self._shaped, state["place"], once=n == 1)
        outcomes = [outcome]
        if n > 1 and outcome.placed:
            outcomes += alternatives(view, ranking, self._shaped, state["place"], outcome, n - 1)
        ask_s = state.get("ask_s") if ranking.told else None
        lent = take_back(view, ranking, self._shaped, state, outcomes)
        found = [self._candidate(view, ranking, outcome, taken, ask_s) for outcome in outcomes]
        for candidate in found:
            candidate.state.update(lent)
        return found

    def notes(self, state: State) -> tuple[str, ...]:
        """Says so where queues lend quotas and the order stops no job, so that owners cannot take them back."""
        if state.get("stops", True):
            return ()
        return (f"quotas: order {self.order.name} stops no job, so what a queue has lent comes back when jobs end",)

    def cap_preemptions(self, gpu_s: float, window_s: float) -> None:
        """See Planner. When jobs give way to a job, its user is charged a minute of their GPUs, and the GPUs that the
        job gets for as long as it holds them. A charge fades evenly over a window. GPUs whose lease is over cost
        nothing."""
        self._cap = (gpu_s, window_s)
        self.idle_without_jobs = False  # time passes

    def limited(self, limits: Limits) -> Planner:
        """Within limits, which the order hands on."""
        return Layered(Limited(self.order, limits), self.place)

    def refuse_priorities(self) -> None:
        """Never raises: every order respects priorities through `waiting_by`, and the conformance suite checks that it
        does."""

    def _taken(self, view: ClusterView, state: State) -> State:
        """GPU seconds that count, by user, and jobs for which others gave up GPUs: their users, how many GPUs, and
        whether they have them yet."""
        if self._cap is None:
            return {}
        old: State = state.get("taken", {"at_s": view.now, "by": {}, "on": {}})
        passed_s, (most, window_s) = view.now - old["at_s"], self._cap
        by: Counter[str] = Counter(old["by"])
        for job, (user, gpus, there) in old["on"].items():
            by[user] += gpus * passed_s * (there or job in view.running)
        left = {user: min(gpu_s, most) - most * passed_s / window_s for user, gpu_s in by.items()}
        on = {
            job: [user, gpus, job in view.running]
            for job, (user, gpus, there) in old["on"].items()
            if job in view.running or (job in view.waiting and not there)
        }
        return {"at_s": view.now, "by": {user: gpu_s for user, gpu_s in left.items() if gpu_s > 0.0}, "on": on}

    def turn(self, view: ClusterView, job: JobView) -> tuple[float, float]:
        """The order's answer."""
        return self.order.turn(view, job)

    def _candidate(
        self, view: ClusterView, ranking: Ranking, outcome: Outcome, taken: State, ask_s: float | None
    ) -> Candidate:
        """Turn an outcome into a candidate. `ask_s` is when a job that this cycle did not ask about becomes due; if
        that is now, the next cycle asks about it."""
        started = tuple(job for job in outcome.placed if job in view.waiting)
        state: State = {"order": ranking.state, "place": outcome.state}
        if not (ranking.strict and self.place.reserves):
            state["place"] = self.place.observe(view, started, outcome.state)
        if self._cap is not None:
            by = Counter(taken["by"]) + Counter({user: n * STOP_S for user, n in outcome.stopped.items()})
            on = {job: [view.waiting[job].job.user, gpus, False] for job, gpus in outcome.taken.items()}
            state["taken"] = {**taken, "by": dict(by), "on": taken["on"] | on}
        ask_s = None if ask_s is None else max(ask_s, view.now + _NEXT_S)
        asks = (ask_s, *(answer.ask_again_s for answer in outcome.declined)) if ranking.pooled else ()
        ask_s = min((ask_s for ask_s in asks if ask_s is not None and ask_s > view.now), default=None)
        if ask_s is not None:
            state["ask_s"] = ask_s
        wake_s = min((t for t in (ask_s, ranking.wake_s) if t is not None), default=None)
        changed = bool(outcome.placed or outcome.leaving)
        plan = Plan(Amended(view.placements, outcome.placed, outcome.leaving) if changed else view.placements)
        return Candidate(plan, state, outcome.reasons, tuple(outcome.declined), wake_s)


class _Tape(Iterable[Claim]):
    """Claims that can be read several times, taken from the order only as far as someone reads."""

    def __init__(self, claims: Iterable[Claim]) -> None:
        self._claims = iter(claims)

    def __iter__(self) -> Iterator[Claim]:
        self._claims, again = tee(self._claims)
        return again
