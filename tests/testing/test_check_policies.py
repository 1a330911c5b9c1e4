"""The suites themselves: a policy that is wrong in one way is caught for that."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from weft.core.layered import Layered
from weft.interleave.base import Interleave, Pick
from weft.interleave.none import NoInterleave
from weft.model import Candidate, Gate, Plan, State
from weft.model.view import ClusterView, Fact, JobView, Offer
from weft.order.base import Claim, Order, Ranking
from weft.order.fifo import Fifo
from weft.pace.base import Admission, Pace
from weft.place.base import Answer, Place
from weft.place.best_fit import BestFit
from weft.place.first_fit import FirstFit
from weft.planners.base import Planner
from weft.testing import check_interleave, check_order, check_pace, check_place, check_planner


class Backfill(Fifo):
    """A right one to break."""

    def __init__(self) -> None:
        super().__init__(backfill=True)

    def rank(self, view: ClusterView, state: State) -> Ranking:
        ranking = super().rank(view, state)
        return replace(ranking, claims=list(ranking.claims))

    def edited(self, view: ClusterView, state: State, claims: Callable[[list[Claim]], list[Claim]]) -> Ranking:
        ranking = Backfill.rank(self, view, state)
        return replace(ranking, claims=claims(list(ranking.claims)))


class ForgetsReasons(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        return self.edited(view, state, lambda claims: [replace(claim, reason="") for claim in claims])


class ClaimsTwice(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        return self.edited(view, state, lambda claims: claims + claims[:1])


class ClaimsStrangers(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        return self.edited(view, state, lambda claims: [*claims, Claim("stranger", 1, "why not")])


class ClaimsRunning(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        return self.edited(view, state, lambda claims: [*claims, *(Claim(job, 1, "me too") for job in view.running)])


class ClaimsTooMany(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        return self.edited(view, state, lambda claims: [replace(claim, gpus=claim.gpus + 1) for claim in claims])


class Shuffles(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        return self.edited(view, state, lambda claims: random.sample(claims, len(claims)))


class Remembers(Backfill):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def rank(self, view: ClusterView, state: State) -> Ranking:
        self.calls += 1
        return replace(super().rank(view, state), wake_s=view.now + self.calls)


class RemembersForAll(Backfill):
    made = 0

    def __init__(self) -> None:
        super().__init__()
        RemembersForAll.made += 1
        self.number = RemembersForAll.made

    def rank(self, view: ClusterView, state: State) -> Ranking:
        return replace(super().rank(view, state), wake_s=view.now + self.number)


class WritesState(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        state["now"] = view.now
        return super().rank(view, state)


class KeepsTuples(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        return replace(super().rank(view, state), state={"seen": tuple(view.waiting)})


class KeepsObjects(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        return replace(super().rank(view, state), state={"seen": set(view.waiting)})


class WritesView(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        for job in view.waiting.values():
            job.failures = 0
            job.waiting_since_s = view.now + 1
        return super().rank(view, state)


class WakesInThePast(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        return replace(super().rank(view, state), wake_s=view.now)


class KnowsTooMuch(Backfill):
    needs = frozenset({Fact.PROFILE})

    def rank(self, view: ClusterView, state: State) -> Ranking:
        return self.edited(
            view, state, lambda claims: sorted(claims, key=lambda claim: view.iterations_left(claim.job))
        )


class Starves(Backfill):
    def rank(self, view: ClusterView, state: State) -> Ranking:
        return self.edited(view, state, lambda claims: [claim for claim in claims if claim.gpus == 1])


class TurnsNowhere(Backfill):
    def turn(self, job: JobView) -> tuple[float, float]:
        return (float("nan"), 0.0)


class Nameless(Backfill):
    def __init__(self) -> None:
        super().__init__()
        self.name = ""


ORDERS: list[tuple[type[Order], str]] = [
    (ForgetsReasons, "ForgetsReasons.rank gives no reason for job"),
    (ClaimsTwice, "twice"),
    (ClaimsStrangers, "claims stranger, which is not there"),
    (ClaimsRunning, "which is not there to be claimed"),
    (ClaimsTooMany, "which runs on"),
    (Shuffles, "answers the same question differently|a new object answers differently"),  # by chance
    (Remembers, "answers the same question differently"),
    (RemembersForAll, "remembers outside its state: a new object answers differently"),
    (WritesState, "changes the state it is given"),
    (KeepsTuples, "does not survive JSON"),
    (KeepsObjects, "is not JSON-able"),
    (WritesView, "changes the view it is given"),
    (WakesInThePast, "wake_s is 0.0 at 0.0 s; it must be later|wake_s is"),
    (KnowsTooMuch, "which the toy world does not know"),
    (Starves, "never finish"),
    (TurnsNowhere, "is not two finite numbers"),
    (Nameless, "has no name"),
]


@pytest.mark.parametrize(("order", "text"), ORDERS, ids=[order.__name__ for order, _ in ORDERS])
def test_broken_order_is_caught(order: type[Order], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_order(order)


class GivesTaken(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        return Answer(tuple(offer.usable.nonzero()[0].tolist()[:gpus]), "always the first", state)


class GivesLost(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        free = [g for g in range(view.cluster.n_gpus) if offer.residents[g] == 0]
        free.sort(key=lambda g: bool(offer.usable[g]))
        return Answer(tuple(free[:gpus]), "broken ones first", state)


class GivesTooFew(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        answer = super().place(view, job, gpus, offer, state)
        return replace(answer, gpus=answer.gpus and answer.gpus[:1])


class GivesTwice(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        answer = super().place(view, job, gpus, offer, state)
        return replace(answer, gpus=answer.gpus and answer.gpus[:1] * gpus)


class GivesNumpy(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        free: Any = offer.free.nonzero()[0]
        return Answer(tuple(free[:gpus]), "numbers of another kind", state)


class SaysNothing(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        return replace(super().place(view, job, gpus, offer, state), reason="")


class WritesOffer(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        answer = super().place(view, job, gpus, offer, state)
        offer.residents[list(answer.gpus or ())] += 1
        return answer


class UsesChance(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        free = offer.free.nonzero()[0].tolist()
        return Answer(tuple(random.sample(free, gpus)), "by chance", state)


class SharesQuietly(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        return FirstFit(shared=True).place(view, job, gpus, offer, state)


class IgnoresMemory(FirstFit):
    def __init__(self) -> None:
        super().__init__(shared=True)

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        return Answer(tuple(offer.usable.nonzero()[0].tolist()[:gpus]), "never mind the memory", state)


class UnevenAfterAll(BestFit):
    def __init__(self) -> None:
        super().__init__()
        self.uneven = False

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        return FirstFit().place(view, job, gpus, offer, state)


class ObservesByWriting(FirstFit):
    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        state["started"] = list(started)
        return state


class HardToPlease(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        if gpus > 1:
            return Answer(None, "too big for me", state)
        return super().place(view, job, gpus, offer, state)


class AsksAgainTooSoon(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        return Answer(None, "ask again", state, view.now)


PLACES: list[tuple[type[Place], str]] = [
    (GivesTaken, "a GPU that is taken"),
    (GivesLost, "a server that is down"),
    (GivesTooFew, "not 2 GPUs|not . GPUs"),
    (GivesTwice, "a GPU twice"),
    (GivesNumpy, "not a tuple of int"),
    (SaysNothing, "gives no reason"),
    (WritesOffer, "writes into the offer"),
    (UsesChance, "use view.rng, not chance"),
    (SharesQuietly, "a GPU that is taken"),
    (IgnoresMemory, "without enough memory"),
    (UnevenAfterAll, "uneven, which it says it never is"),
    (ObservesByWriting, "changes the state it is given"),
    (HardToPlease, "never finish"),
    (AsksAgainTooSoon, "ask_again_s"),
]


@pytest.mark.parametrize(("place", "text"), PLACES, ids=[place.__name__ for place, _ in PLACES])
def test_broken_place_is_caught(place: type[Place], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_place(place)


class Joint(Planner):
    """A right planner to break."""

    name = "joint"

    def __init__(self) -> None:
        self.inner = Layered(Fifo(backfill=True), FirstFit())

    def initial_state(self) -> State:
        return self.inner.initial_state()

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        return [self.change(view, c) for c in self.inner.propose(view, state, n)]

    def change(self, view: ClusterView, candidate: Candidate) -> Candidate:
        return candidate


class ProposesNothing(Joint):
    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        return []


class ProposesTooMany(Joint):
    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        return super().propose(view, state, n + 3)


class ProposesTheSameTwice(Joint):
    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        return super().propose(view, state, 1) * n


class PlansTheImpossible(Joint):
    def change(self, view: ClusterView, candidate: Candidate) -> Candidate:
        everyone = {job: tuple(range(v.job.gpus)) for job, v in view.waiting.items()}
        return replace(candidate, plan=Plan({**view.placements, **everyone}))


class StopsWithoutReason(Joint):
    def change(self, view: ClusterView, candidate: Candidate) -> Candidate:
        kept = {job: gpus for job, gpus in candidate.plan.placements.items() if job != "job3"}
        return replace(candidate, plan=Plan(kept)) if view.now > 5 else candidate


class ResizesQuietly(Joint):
    def change(self, view: ClusterView, candidate: Candidate) -> Candidate:
        smaller = {
            job: gpus[: view.job(job).job.sizes[0]] if job in view.waiting else gpus
            for job, gpus in candidate.plan.placements.items()
        }
        return replace(candidate, plan=Plan(smaller))


PLANNERS: list[tuple[type[Planner], str]] = [
    (ProposesNothing, "returns 0 candidates"),
    (ProposesTooMany, "asked for"),
    (ProposesTheSameTwice, "the same plan twice"),
    (PlansTheImpossible, "plans the impossible"),
    (StopsWithoutReason, "gives no reason"),
    (ResizesQuietly, "says it never resizes"),
]


def test_right_planner_passes() -> None:
    check_planner(Joint, workloads=range(2))


@pytest.mark.parametrize(("planner", "text"), PLANNERS, ids=[planner.__name__ for planner, _ in PLANNERS])
def test_broken_planner_is_caught(planner: type[Planner], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_planner(planner)


class Shifts(NoInterleave):
    """A right interleave to break: it gates the first task of every job that starts or runs."""

    name = "shifts"
    shifts = True
    gate: ClassVar[Gate] = Gate(0.0, 1.0)
    reason: ClassVar[str] = "shifted"

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        plan = candidates[0].plan
        gates = dict.fromkeys(plan.placements, self.gate)
        return Pick(replace(candidates[0], plan=replace(plan, gates=gates)), state, dict.fromkeys(gates, self.reason))


class ShiftsQuietly(Shifts):
    shifts = False


class ShiftsATaskThatIsNotThere(Shifts):
    gate = Gate(0.0, 1.0, task=99)


class InventsAPlan(NoInterleave):
    name = "invents"

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        few = dict(list(candidates[0].plan.placements.items())[:1])
        return Pick(replace(candidates[0], plan=Plan(few)), state)


class MixesStates(NoInterleave):
    name = "mixes"

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        return Pick(replace(candidates[0], state={"order": {}, "place": {"mine": 1}}), state)


class GatesStrangers(Shifts):
    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        pick = super().pick(view, candidates, state)
        plan = replace(pick.candidate.plan, gates={"stranger": self.gate})
        return replace(pick, candidate=replace(pick.candidate, plan=plan))


class GatesForNoReason(Shifts):
    reason = ""


class WantsNoCandidates(NoInterleave):
    candidates = 0


INTERLEAVES: list[tuple[type[Interleave], str]] = [
    (ShiftsQuietly, "says it never shifts"),
    (ShiftsATaskThatIsNotThere, "there is no task 99"),
    (InventsAPlan, "a plan that nobody proposed"),
    (MixesStates, "another's state"),
    (GatesStrangers, "which the plan does not place"),
    (GatesForNoReason, "gives no reason for"),
    (WantsNoCandidates, "the least is 1"),
]


def test_right_interleave_passes() -> None:
    check_interleave(Shifts, workloads=range(2))


@pytest.mark.parametrize(("interleave", "text"), INTERLEAVES, ids=[policy.__name__ for policy, _ in INTERLEAVES])
def test_broken_interleave_is_caught(interleave: type[Interleave], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_interleave(interleave)


class Rule(Pace):
    """Whatever rule it is told."""

    name = "rule"

    def __init__(self, rule: Admission, holds_back: bool = True) -> None:
        self.rule, self.holds_back = rule, holds_back

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        return self.rule


@pytest.mark.parametrize(
    ("pace", "text"),
    [
        (Rule(Admission("some")), "kind 'some' is none of"),
        (Rule(Admission("at-most", 0)), "k is 0"),
        (Rule(Admission("at-most", 1), holds_back=False), "does not say so"),
        (Rule(Admission("ratio", 2, ())), "are not 1 numbers for k = 2"),
        (Rule(Admission("ratio", 2, (float("nan"),))), "are not 1 numbers"),
    ],
)
def test_broken_pace_is_caught(pace: Pace, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_pace(lambda: pace)


def test_right_pace_passes() -> None:
    check_pace(lambda: Rule(Admission("ratio", 2, (2.549,))))
    check_pace(lambda: Rule(Admission("at-most", 2)))


class Fickle(Rule):
    calls = 0

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        Fickle.calls += 1
        return Admission("at-most", Fickle.calls)


def test_fickle_pace_is_caught() -> None:
    with pytest.raises(AssertionError, match="answers the same question differently"):
        check_pace(lambda: Fickle(Admission()))
