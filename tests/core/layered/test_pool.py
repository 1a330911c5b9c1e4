from typing import Any

import pytest

from testkit.toys import running
from weft.core.cycle import Core
from weft.core.layered import Layered
from weft.core.stack import Stack
from weft.model import Hold, Placement, State, Submitted
from weft.model.reason import because
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.order.base import Claim, Order, Ranking
from weft.policies.place.base import Answer
from weft.policies.place.best_fit import BestFit
from weft.testing import toy_job


class Pooled(Order):
    """Ranks and releases as it is told."""

    name = "pooled"

    def __init__(self, *claims: Claim, released: str = "", strict: bool = False) -> None:
        self.claims, self.released, self.strict = claims, frozenset(released), strict

    def rank(self, view: ClusterView, state: State) -> Ranking:
        here = [claim for claim in self.claims if claim.job in view.waiting or claim.job in view.running]
        return Ranking(here, state, strict=self.strict, pooled=True, released=self.released & set(view.running))


def core_of(order: Order, **placed: Placement) -> Core:
    return running(Layered(order, BestFit()), **placed)


def decided(core: Core, **waiting: int) -> list[tuple[str, str, str]]:
    decisions: list[Any] = core.step(1.0, [Submitted(1.0, toy_job(name, gpus)) for name, gpus in waiting.items()])
    return [(type(d).__name__, d.job, d.reason) for d in decisions]


FULL = {"a": (0, 1, 2, 3), "b": (4, 5, 6, 7), "c": (8, 9, 10, 11), "d": (12, 13, 14, 15)}


def claim(name: str, gpus: int = 4, anew: bool = False) -> Claim:
    return Claim(name, gpus, "told", anew)


def test_only_released_jobs_give_way() -> None:
    order = Pooled(claim("new"), claim("a"), claim("b"), released="b")
    assert decided(core_of(order, **FULL), new=4) == [
        ("Stop", "b", because("weft.lease-over", to=("new",))), ("Hold", "new", because("weft.being-freed")),
    ]  # fmt: skip


def test_a_released_job_before_the_new_one_keeps_its_gpus() -> None:
    order = Pooled(claim("b"), claim("new"), released="b")
    assert decided(core_of(order, **FULL), new=4) == [
        ("Hold", "new", because("weft.no-room", gpus=4, there="are on offer"))
    ]


def test_released_jobs_that_claim_nothing_keep_what_is_left() -> None:
    order = Pooled(claim("new"), released="abcd")
    found = decided(core_of(order, **FULL), new=4)
    assert [(kind, job) for kind, job, _ in found] == [("Stop", "a"), ("Hold", "new")]


def test_who_lost_its_gpus_may_move_to_those_of_one_behind_it() -> None:
    """new takes a's server; a, claimed before b, moves to b's; b is left without."""
    order = Pooled(claim("new"), claim("a"), claim("b"), released="ab")
    found = decided(core_of(order, **FULL), new=4)
    assert found == [
        ("Stop", "b", because("weft.lease-over", to=("a",))), ("Stop", "a", "told; tightest fit on 1 server"),
        ("Hold", "new", because("weft.being-freed")),
    ]  # fmt: skip


def test_anew_moves_only_to_something_else() -> None:
    """Over two servers, and a whole one is free: it moves if it is claimed anew, released or not."""
    placed = {"a": (0, 1, 4, 5), "b": (2, 3), "c": (6, 7)}
    assert decided(core_of(Pooled(claim("a")), **placed)) == []
    assert decided(core_of(Pooled(claim("a"), released="a"), **placed)) == []
    for released in ("", "a"):
        order = Pooled(claim("a", anew=True), released=released)
        assert decided(core_of(order, **placed)) == [("Stop", "a", "told; tightest fit on 1 server")]
    assert decided(core_of(Pooled(claim("d", anew=True), released="d"), **FULL)) == []


def test_everybody_who_waits_is_told_why() -> None:
    order = Pooled(*(claim(name, 8) for name in ("x", "y", "z")))
    found = decided(core_of(order, **FULL), x=8, y=8, z=8)
    assert found == [("Hold", name, because("weft.no-room", gpus=8, there="are on offer")) for name in "xyz"]


def test_strict_stops_at_the_first_that_does_not_fit() -> None:
    placed = {"a": FULL["a"], "b": FULL["b"]}
    order = Pooled(claim("big", 12), claim("small", 1), released="a", strict=True)
    found = decided(core_of(order, **placed), big=16, small=1)
    assert [(kind, job) for kind, job, _ in found if kind != "Hold"] == [("Stop", "a")]  # 12 are on offer: a and 8 free
    order = Pooled(claim("big", 16), claim("small", 1), strict=True)
    found = decided(core_of(order, **placed), big=16, small=1)
    assert found == [("Hold", "big", because("weft.no-room", gpus=16, there="are on offer"))]


def test_holds_are_written_once() -> None:
    core = core_of(Pooled(claim("new")), **FULL)
    assert [kind for kind, _, _ in decided(core, new=4)] == [Hold.__name__]
    assert core.step(2.0, []) == []


def test_whoever_is_not_asked_keeps_the_reason_it_has() -> None:
    """x is told that GPUs are too few, once; when y comes, only y is told."""
    core = core_of(Pooled(claim("x", 8), claim("y", 8)), **FULL)
    assert [job for _, job, _ in decided(core, x=8)] == ["x"]
    assert [(type(d).__name__, d.job) for d in core.step(2.0, [Submitted(2.0, toy_job("y", 8))])] == [("Hold", "y")]  # type: ignore[union-attr]
    assert set(core.table.held) == {"x", "y"}


class Picky(BestFit):
    """Wants a whole server, or nothing; counts who is asked."""

    def __init__(self, kinds: str | None) -> None:
        self.kinds = kinds
        self.asked: list[str] = []

    def alike(self, job: JobView) -> str | None:
        return None if self.kinds is None else self.kinds and job.id[0]

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        self.asked.append(job.id)
        if offer.free_per_server.max() < 4:
            return Answer(None, "wants a whole server", state)
        return super().place(view, job, gpus, offer, state)


@pytest.mark.parametrize(
    ("kinds", "asked"), [(None, ["x1", "x2", "y1", "x3"]), ("by name", ["x1", "y1", "x3"]), ("", ["x1", "x3"])]
)
def test_who_is_like_one_that_declined_is_not_asked(kinds: str | None, asked: list[str]) -> None:
    """Each server has 2 free GPUs. x1, x2 and y1 want 2, x3 wants 3; all are told why they wait."""
    order, place = Pooled(*(claim(name, 2 + (name == "x3")) for name in ("x1", "x2", "y1", "x3"))), Picky(kinds)
    core = core_of(order, a=(0, 1), b=(4, 5), c=(8, 9), d=(12, 13))
    core.stack = Stack("x", Layered(order, place))
    held = decided(core, x1=2, x2=2, y1=2, x3=3)
    assert place.asked == asked
    assert held == [("Hold", name, "wants a whole server") for name in ("x1", "x2", "y1", "x3")]


class Keeps(BestFit):
    """Keeps everything for one job."""

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        return super().place(view, job, gpus, offer, state) if job.id == "kept" else Answer(None, "kept", state)


@pytest.mark.parametrize("beside", [False, True])
def test_an_idle_cluster_serves_whom_the_order_has_not_claimed(beside: bool) -> None:
    """Where place keeps GPUs for a job, and the order means them for others, all would wait for ever."""
    core = core_of(Pooled(claim("a")), **({"run": (0,)} if beside else {}))
    core.stack = Stack("x", Layered(Pooled(claim("a"), claim("run", 1)), Keeps()))
    found = {(kind, job) for kind, job, _ in decided(core, a=4, kept=4)}
    assert found == {("Hold", "a"), ("Hold" if beside else "Start", "kept")}
