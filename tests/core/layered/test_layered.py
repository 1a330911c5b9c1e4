from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.toys import running
from weft.core.cycle import Core
from weft.core.layered import Layered
from weft.core.loop import run
from weft.core.stack import Stack
from weft.errors import DecisionError
from weft.model import Hold, Job, Start, Started, State, Stop, Stopped, Submitted
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.order.base import Claim, Order, Ranking
from weft.policies.order.fifo import Fifo
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import BestFit
from weft.policies.place.fitting import FirstFit
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


class Told(Order):
    """Ranks as it is told, from the best."""

    name = "told"
    resizes = True

    def __init__(self, *claims: Claim, preemptive: bool = True, strict: bool = False) -> None:
        self.claims, self.preemptive, self.strict = claims, preemptive, strict

    def rank(self, view: ClusterView, state: State) -> Ranking:
        here = [claim for claim in self.claims if claim.job in view.waiting or claim.job in view.running]
        return Ranking(here, {"ranked": state.get("ranked", 0) + 1}, self.preemptive, self.strict)


class Counting(FirstFit):
    """First fit that counts how often it is asked; optionally it accepts one server or nothing."""

    def __init__(self, one_server: bool = False) -> None:
        super().__init__()
        self.asked = 0
        self.one_server = one_server

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        self.asked += 1
        state = {"asked": state.get("asked", 0) + 1}
        if not self.one_server:
            return Answer(super().place(view, job, gpus, offer, {}).gpus, "counted", state)
        for server in view.cluster.servers:
            if offer.free_per_server[server.id] >= gpus:
                return Answer(tuple(g for g in server.gpus if offer.free[g])[:gpus], "one server", state)
        return Answer(None, "no single server has room", state, view.now + 60.0)


def decided(core: Core, *jobs: Job) -> list[Any]:
    decisions = core.step(1.0, [Submitted(1.0, job) for job in jobs])
    return [(type(d).__name__, d.job) for d in decisions if not isinstance(d, Hold)]


FULL = {"a": (0, 1, 2, 3), "b": (4, 5, 6, 7), "c": (8, 9, 10, 11), "d": (12, 13, 14, 15)}


def claims(*names: str, gpus: int = 4) -> list[Claim]:
    return [Claim(name, gpus, "told") for name in names]


@pytest.mark.parametrize(
    ("ranked", "gives_way"),
    [
        ("new c a d b", ["b"]),  # the worst ranked
        ("c a d b new", []),  # who ranks better stays
        ("new a b c", ["d"]),  # who has no claim goes first
    ],
)
def test_who_gives_way(ranked: str, gives_way: list[str]) -> None:
    core = running(Layered(Told(*claims(*ranked.split())), FirstFit()), **FULL)
    assert decided(core, toy_job("new", 4)) == [("Stop", name) for name in gives_way]


def test_nobody_gives_way_to_a_claim_that_is_not_urgent() -> None:
    """It is offered what is free, before those that rank below it."""
    calm = Claim("new", 4, "told", urgent=False)
    core = running(Layered(Told(calm, *claims("a", "b", "c", "d")), FirstFit()), **FULL)
    assert decided(core, toy_job("new", 4)) == []
    core = running(Layered(Told(calm, *claims("newer", "a", "b", "c")), FirstFit()), **{k: FULL[k] for k in "abc"})
    assert decided(core, toy_job("new", 4), toy_job("newer", 4)) == [("Stop", "c"), ("Start", "new")]


def test_nobody_is_stopped_in_vain() -> None:
    """12 GPUs are wanted, and only two jobs of 4 rank below: stopping them would not do."""
    order = Told(*claims("a", "b"), Claim("new", 12, "told"), *claims("c", "d"))
    core = running(Layered(order, FirstFit()), **FULL)
    assert decided(core, toy_job("new", 12)) == []


def test_only_those_in_the_way_are_stopped() -> None:
    """Three of each server's four GPUs are taken: a place that wants one server needs the worst to go."""
    placed = {"a": (0, 1, 2), "b": (4, 5, 6), "c": (8, 9, 10), "d": (12, 13, 14)}
    order = Told(*claims("new"), *claims("a", "c", "b", "d", gpus=3))
    core = running(Layered(order, Counting(one_server=True)), **placed)
    assert decided(core, toy_job("new", 4)) == [("Stop", "d")]
    core = running(Layered(order, FirstFit()), **placed)
    assert decided(core, toy_job("new", 4)) == [("Start", "new")]  # four single GPUs are free


def test_spared_when_another_victim_is_enough() -> None:
    """d (1 GPU) is the worst, but its one GPU does not make room on a server; c does, and d is spared."""
    placed = {"a": (0, 1, 2, 3), "b": (4, 5, 6, 7), "c": (8, 9, 10, 11), "d": (12,), "e": (13, 14)}
    order = Told(*claims("new"), *claims("e", gpus=2), *claims("a", "b", "c"), *claims("d", gpus=1))
    core = running(Layered(order, Counting(one_server=True)), **placed)
    assert decided(core, toy_job("new", 4)) == [("Stop", "c")]


def test_gpus_that_are_being_left_are_counted_once() -> None:
    """While b is stopping for `new`, nobody else is stopped for it; a second newcomer finds its own victim."""
    core = running(Layered(Told(*claims("new", "newer", "c", "a", "d", "b")), FirstFit()), **FULL)
    assert decided(core, toy_job("new", 4)) == [("Stop", "b")]
    assert decided(core) == []
    assert decided(core, toy_job("newer", 4)) == [("Stop", "d")]
    decisions = core.step(2.0, [Stopped(2.0, "b", 0)])
    assert [(type(d), d.job) for d in decisions if not isinstance(d, Hold)] == [(Start, "new")]
    decisions = core.step(3.0, [Stopped(3.0, "d", 0), Started(3.0, "new")])
    assert [(type(d), d.job) for d in decisions if not isinstance(d, Hold)] == [(Start, "newer")]


def test_strict_preemption_stops_at_the_first_that_does_not_fit() -> None:
    jobs = [toy_job("huge", 20), toy_job("new", 4)]
    order = (Claim("huge", 20, "told"), *claims("new", "a", "b", "c", "d"))
    assert decided(running(Layered(Told(*order, strict=True), FirstFit()), **FULL), *jobs) == []
    assert decided(running(Layered(Told(*order), FirstFit()), **FULL), *jobs) == [("Stop", "d")]


def test_placed_anew_only_if_the_answer_differs() -> None:
    stays = Claim("a", 4, "lease ended", anew=True)
    assert decided(running(Layered(Told(stays), FirstFit()), a=(0, 1, 2, 3))) == []
    core = running(Layered(Told(stays), FirstFit()), a=(0, 4, 8, 12))
    assert core.step(1.0, []) == [Stop("a", "lease ended; placed anew, first GPUs that will do")]
    again = core.step(2.0, [Stopped(2.0, "a", 1)])
    assert [(d.job, d.gpus) for d in again if isinstance(d, Start)] == [("a", (0, 1, 2, 3))]


def test_elastic_claims_start_at_the_size_claimed() -> None:
    core = Core(Stack("x", Layered(Told(Claim("a", 2, "half")), FirstFit())), ToyWorld(toy_cluster(), []))
    (start,) = core.step(0.0, [Submitted(0.0, toy_job("a", 4, sizes=(1, 2)))])
    assert isinstance(start, Start)
    assert start.gpus == (0, 1)


def test_state_of_order_and_place_is_kept_together() -> None:
    core = Core(Stack("x", Layered(Told(*claims("a")), Counting())), ToyWorld(toy_cluster(), []))
    assert core.planner_state == {"order": {}, "place": {}}
    core.step(0.0, [Submitted(0.0, toy_job("a", 4))])
    assert core.planner_state == {"order": {"ranked": 1}, "place": {"asked": 1}}


def test_state_of_a_vain_attempt_is_dropped() -> None:
    """Asked plainly place declines, and with v's GPUs again: what it remembered of the second question is gone."""
    placed = {"k0": (0,), "k1": (4,), "k2": (8,), "k3": (12,), "v": (1, 5)}
    order = Told(*claims("k0", "k1", "k2", "k3", gpus=1), *claims("new"), *claims("v", gpus=2))
    place = Counting(one_server=True)
    core = running(Layered(order, place), **placed)
    assert decided(core, toy_job("new", 4)) == []
    assert place.asked == 2
    assert core.planner_state["place"] == {"asked": 1}


def test_ask_again_of_place_wakes_the_core() -> None:
    placed = {"a": (0,), "b": (4,), "c": (8,), "d": (12,)}
    core = running(Layered(Fifo(), Counting(one_server=True)), **placed)
    core.step(1.0, [Submitted(1.0, toy_job("new", 4))])
    assert core.wake_s == 61.0


def test_place_is_not_asked_when_nothing_can_fit() -> None:
    place = Counting()
    core = running(Layered(Fifo(backfill=True), place), a=tuple(range(15)))
    core.step(1.0, [Submitted(1.0, toy_job(f"j{i}", 2)) for i in range(1000)])
    assert place.asked == 0
    core.step(2.0, [Submitted(2.0, toy_job("one", 1))])
    assert place.asked == 1  # the one that fits, behind a thousand that do not


def test_claims_are_read_only_as_far_as_needed() -> None:
    read: list[str] = []

    class Loud(Fifo):
        def rank(self, view: ClusterView, state: State) -> Ranking:
            ranking = super().rank(view, state)
            claims = (read.append(claim.job) or claim for claim in ranking.claims)
            return Ranking(claims, ranking.state, strict=ranking.strict)

    core = running(Layered(Loud(backfill=True), FirstFit()), a=tuple(range(16)))
    core.step(1.0, [Submitted(1.0, toy_job(f"j{i}")) for i in range(1000)])
    assert read == ["j0"]


@pytest.mark.parametrize(
    ("claim", "text"),
    [((Claim("nobody", 1),), "no such job waiting"), ((Claim("a", 1), Claim("a", 1)), "claimed twice")],
)
def test_wrong_claims_are_refused(claim: tuple[Claim, ...], text: str) -> None:
    class Wrong(Told):
        def rank(self, view: ClusterView, state: State) -> Ranking:
            return Ranking(self.claims, state)

    core = Core(Stack("x", Layered(Wrong(*claim), FirstFit())), ToyWorld(toy_cluster(), []))
    with pytest.raises(DecisionError, match=text):
        core.step(0.0, [Submitted(0.0, toy_job("a")), Submitted(0.0, toy_job("b"))])


def test_answers_that_make_no_sense_are_refused() -> None:
    class Outside(Place):
        name = "outside"

        def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
            return Answer((99,), "outside", state)

    core = Core(Stack("x", Layered(Fifo(), Outside())), ToyWorld(toy_cluster(), []))
    with pytest.raises(DecisionError, match="there is no GPU 99"):
        core.step(0.0, [Submitted(0.0, toy_job("a"))])


# Several candidates


def test_alternatives_are_distinct_and_of_equal_merit() -> None:
    planner = Layered(Fifo(), BestFit())
    core = running(planner, r=(0, 1, 2, 3))
    core.confirm([Submitted(0.0, toy_job("a", 4)), Submitted(0.0, toy_job("b", 4))])
    core.view.move_to(1.0, 1)
    found = planner.propose(core.view, planner.initial_state(), 6)
    plans = [{job: set(gpus) for job, gpus in c.plan.placements.items()} for c in found]
    assert len(plans) == 6  # three free servers for two jobs: six ways
    assert all(plan not in plans[:i] for i, plan in enumerate(plans))
    for plan in plans:
        assert plan["r"] == {0, 1, 2, 3}
        assert {len({g // 4 for g in plan[job]}) for job in ("a", "b")} == {1}


def test_alternatives_swap_two_jobs_in_a_cluster_with_room_for_no_others() -> None:
    """CASSINI, section 4.2: two winners, two places, either way round."""
    planner = Layered(Fifo(), BestFit())
    core = running(planner, r=tuple(range(8)))
    core.confirm([Submitted(0.0, toy_job("a", 4)), Submitted(0.0, toy_job("b", 4))])
    core.view.move_to(1.0, 1)
    first, second = planner.propose(core.view, planner.initial_state(), 10)
    assert first.plan.placements["a"] == second.plan.placements["b"]
    assert first.plan.placements["b"] == second.plan.placements["a"]


def test_no_alternatives_when_nothing_starts() -> None:
    planner = Layered(Fifo(), BestFit())
    core = running(planner, **FULL)
    assert len(planner.propose(core.view, planner.initial_state(), 5)) == 1


@given(st.integers(0, 1000))
def test_random_placements_differ_between_candidates(seed: int) -> None:
    planner = resolve("srsf-random").planner
    core = Core(Stack("x", planner), ToyWorld(toy_cluster(), []), seed=seed)
    core.confirm([Submitted(0.0, toy_job("a", 2))])
    core.view.move_to(0.0, 1)
    found = planner.propose(core.view, planner.initial_state(), 4)
    servers = {tuple(sorted(g // 4 for g in c.plan.placements["a"])) for c in found}
    assert len(servers) == len(found) > 1


def test_the_picked_alternative_is_carried_out_and_its_state_kept() -> None:
    from weft.testing.check_policies import OneOfThree

    world = ToyWorld(toy_cluster(), [toy_job("a", 4), toy_job("b", 4)])
    core = Core(Stack("x", Layered(Fifo(), Counting()), OneOfThree()), world)
    run(core, world)
    assert set(core.table.ended) == {"a", "b"}
    assert core.planner_state["place"]["asked"] == 2
