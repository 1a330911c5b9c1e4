import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from weft.model import State
from weft.model.view import ClusterView, Fact, JobView, Offer
from weft.policies.order.base import Claim, Order, Ranking
from weft.policies.order.fifo import Fifo
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import BestFit
from weft.policies.place.fitting import FirstFit
from weft.testing import check_order, check_place


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
    def turn(self, view: ClusterView, job: JobView) -> tuple[float, float]:
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
        return FirstFit(shares_gpus=True).place(view, job, gpus, offer, state)


class IgnoresMemory(FirstFit):
    def __init__(self) -> None:
        super().__init__(shares_gpus=True)

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
