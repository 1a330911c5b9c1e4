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


def editing(name: str, edit: Callable[[ClusterView, list[Claim]], list[Claim]], **more: Any) -> type[Order]:
    """An order that changes its claims."""

    def rank(self: Backfill, view: ClusterView, state: State) -> Ranking:
        ranking = Backfill.rank(self, view, state)
        return replace(ranking, claims=edit(view, list(ranking.claims)))

    return type(name, (Backfill,), {"rank": rank, **more})


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


class TurnsNowhere(Backfill):
    def turn(self, view: ClusterView, job: JobView) -> tuple[float, float]:
        return (float("nan"), 0.0)


class Nameless(Backfill):
    def __init__(self) -> None:
        super().__init__()
        self.name = ""


ORDERS: list[tuple[type[Order], str]] = [
    (editing("ForgetsReasons", lambda view, claims: [replace(claim, reason="") for claim in claims]),
     "ForgetsReasons.rank gives no reason for job"),
    (editing("ClaimsTwice", lambda view, claims: claims + claims[:1]), "twice"),
    (editing("ClaimsStrangers", lambda view, claims: [*claims, Claim("stranger", 1, "why not")]),
     "claims stranger, which is not there"),
    (editing("ClaimsRunning", lambda view, claims: [*claims, *(Claim(job, 1, "me too") for job in view.running)]),
     "which is not there to be claimed"),
    (editing("ClaimsTooMany", lambda view, claims: [replace(claim, gpus=claim.gpus + 1) for claim in claims]),
     "which runs on"),
    (editing("Shuffles", lambda view, claims: random.sample(claims, len(claims))),
     "answers the same question differently|a new object answers differently"),  # by chance
    (Remembers, "answers the same question differently"),
    (RemembersForAll, "remembers outside its state: a new object answers differently"),
    (WritesState, "changes the state it is given"),
    (KeepsTuples, "does not survive JSON"),
    (KeepsObjects, "is not JSON-able"),
    (WritesView, "changes the view it is given"),
    (WakesInThePast, "wake_s is 0.0 at 0.0 s; it must be later|wake_s is"),
    (editing("KnowsTooMuch", lambda view, claims: sorted(claims, key=lambda c: view.iterations_left(c.job)),
             needs=frozenset({Fact.PROFILE})),
     "which the toy world does not know"),
    (editing("Starves", lambda view, claims: [claim for claim in claims if claim.gpus == 1]), "never finish"),
    (TurnsNowhere, "is not two finite numbers"),
    (Nameless, "has no name"),
]  # fmt: skip


@pytest.mark.parametrize(("order", "text"), ORDERS, ids=[order.__name__ for order, _ in ORDERS])
def test_broken_order_is_caught(order: type[Order], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_order(order)


def first(mask: Any, n: int | None = None) -> tuple[int, ...]:
    return tuple(mask.nonzero()[0].tolist()[:n])


def answering(name: str, answer: Callable[[Offer, int, Answer], Answer]) -> type[Place]:
    """A place that gives another answer than first fit does."""

    def place(self: FirstFit, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        return answer(offer, gpus, FirstFit.place(self, view, job, gpus, offer, state))

    return type(name, (FirstFit,), {"place": place})


class GivesLost(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        free = [g for g in range(view.cluster.n_gpus) if offer.residents[g] == 0]
        free.sort(key=lambda g: bool(offer.usable[g]))
        return Answer(tuple(free[:gpus]), "broken ones first", state)


class WritesOffer(FirstFit):
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        answer = super().place(view, job, gpus, offer, state)
        offer.residents[list(answer.gpus or ())] += 1
        return answer


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
    (answering("GivesTaken", lambda offer, n, answer: replace(answer, gpus=first(offer.usable, n))),
     "a GPU that is taken"),
    (GivesLost, "a server that is down"),
    (answering("GivesTooFew", lambda offer, n, answer: replace(answer, gpus=answer.gpus and answer.gpus[:1])),
     "not 2 GPUs|not . GPUs"),
    (answering("GivesTwice", lambda offer, n, answer: replace(answer, gpus=answer.gpus and answer.gpus[:1] * n)),
     "a GPU twice"),
    (answering("GivesNumpy", lambda offer, n, answer: replace(answer, gpus=tuple(offer.free.nonzero()[0][:n]))),
     "not a tuple of int"),
    (answering("SaysNothing", lambda offer, n, answer: replace(answer, reason="")), "gives no reason"),
    (WritesOffer, "writes into the offer"),
    (answering("UsesChance", lambda offer, n, a: replace(a, gpus=tuple(random.sample(first(offer.free), n)))),
     "use view.rng, not chance"),
    (SharesQuietly, "a GPU that is taken"),
    (IgnoresMemory, "without enough memory"),
    (UnevenAfterAll, "uneven, which it says it never is"),
    (ObservesByWriting, "changes the state it is given"),
    (HardToPlease, "never finish"),
    (AsksAgainTooSoon, "ask_again_s"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "text"), PLACES, ids=[place.__name__ for place, _ in PLACES])
def test_broken_place_is_caught(place: type[Place], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_place(place)
