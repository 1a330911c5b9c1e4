"""The route policy in the decision cycle: when it is asked, what is refused, what is written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from weft.core.cycle import Core
from weft.core.journal import MemoryJournal
from weft.core.loop import run
from weft.core.stack import Stack
from weft.errors import DecisionError
from weft.model.plan import SetRoutes, Start, State
from weft.model.routes import RouteView
from weft.policies.planners.base import Planner
from weft.policies.route.base import Ecmp, Route, Routing, whole
from weft.testing import ToyWorld, toy_cluster, toy_job
from weft.testing.probes import Fixed

Answer = Callable[[RouteView, State], Routing]


@dataclass
class Told(Route):
    """Answers what it is told, and notes when it was asked about whom."""

    answer: Answer
    name = "told"
    moves = True
    asked: list[tuple[float, tuple[str, ...], bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = "told"

    def route(self, view: RouteView, state: State) -> Routing:
        """What it is told."""
        self.asked.append((view.now, tuple(view.jobs), view.news))
        return self.answer(view, state)


def play(answer: Answer, planner: Planner | None = None) -> tuple[Told, ToyWorld, Core]:
    """Two jobs of 16 seconds over both racks, the second 4 s later."""
    jobs = [toy_job(name, 2, 16, 0.5, 6.25e8, submit_s=at) for name, at in (("a", 0.0), ("b", 4.0))]  # 0.5 s to send
    world, route = ToyWorld(toy_cluster(), jobs), Told(answer)
    core = Core(Stack("check", planner or Fixed({"a": (0, 8), "b": (1, 9)}), route=route), world)
    run(core, world)
    return route, world, core


def decided(core: Core) -> list[tuple[float, str, object]]:
    """Starts and routes, with what they say of paths."""
    assert isinstance(core.journal, MemoryJournal)
    entries = [(time, d) for _, time, d in core.journal.entries if isinstance(d, Start | SetRoutes)]
    return [(time, f"{type(d).__name__} {d.job}", d.routes) for time, d in entries]


def test_when_it_is_asked() -> None:
    """When a job comes and when one goes, with those that are there; not about nobody, and not in between."""
    route, _, _ = play(lambda view, state: Routing({}, state))
    assert route.asked == [(0.0, ("a",), True), (4.0, ("a", "b"), True), (16.0, ("b",), True), (20.0, (), True)]


def test_it_may_ask_to_be_asked() -> None:
    """Every 3 s while jobs run; the planner is not asked for that."""
    planner = Fixed({"a": (0, 8), "b": (1, 9)})
    cycles: list[float] = []
    proposed = planner.propose
    planner.propose = lambda view, state, n: (cycles.append(view.now), proposed(view, state, n))[1]  # type: ignore[method-assign]
    route, _, _ = play(lambda view, state: Routing({}, {"n": state.get("n", 0) + 1}, wake_s=view.now + 3.0), planner)
    assert [when for when, _, _ in route.asked] == [0.0, 3.0, 4.0, 7.0, 10.0, 13.0, 16.0, 19.0, 20.0]
    assert [news for _, _, news in route.asked][1:4] == [False, True, False]
    assert {*cycles} <= {0.0, 4.0, 16.0, 20.0}


def test_routes_of_starts_and_of_jobs_that_run() -> None:
    """A job starts on its paths, and moves when another comes; what stays is not written down."""

    def answer(view: RouteView, state: State) -> Routing:
        paths = {job.id: tuple(whole(len(view.jobs) - 1) for _ in job.flows) for job in view.jobs.values()}
        return Routing(paths, state, dict.fromkeys(paths, "to see it move"))

    first, second = ((whole(0), whole(0)), (whole(1), whole(1)))
    _, world, core = play(answer)
    assert decided(core) == [
        (0.0, "Start a", first), (4.0, "Start b", second), (4.0, "SetRoutes a", second), (16.0, "SetRoutes b", first),
    ]  # fmt: skip
    assert world.routes["b"] == first
    assert core.table.routes == {}


def test_a_start_that_fails_is_routed_again() -> None:
    """The job comes back to the same GPUs at the same moment, and every start of it has paths."""
    route = Told(lambda view, state: Routing({name: (whole(1), whole(1)) for name in view.jobs}, state))
    world = ToyWorld(toy_cluster(), [toy_job("a", 2, 16, 0.5, 6.25e8)], failure_rate=0.6)
    core = Core(Stack("check", Fixed({"a": (0, 8)}), route=route), world)
    run(core, world)
    starts = [said for said in decided(core) if said[1] == "Start a"]
    assert len(starts) > 1
    assert {paths for _, _, paths in starts} == {(whole(1), whole(1))}
    assert [news for _, there, news in route.asked if there] == [True] * len(starts)


def test_without_a_route_policy_nobody_is_asked() -> None:
    """ECMP leaves everything to the network."""
    world = ToyWorld(toy_cluster(), [toy_job("a", 2, 16)])
    core = Core(Stack("check", Fixed({"a": (0, 8)}), route=Ecmp()), world)
    run(core, world)
    assert core.router is None
    assert decided(core) == [(0.0, "Start a", None)]


@pytest.mark.parametrize(
    ("routes", "words"),
    [
        ({"nobody": ()}, "neither runs nor starts"),
        ({"a": (whole(0),)}, "it has 2 flows"),
        ({"a": (whole(0), whole(7))}, "it has 2"),
        ({"a": (whole(0), ((0, 0.5), (1, 0.4)))}, "sum to 1"),
        ({"a": (whole(0), ((0, 0.5), (0, 0.5)))}, "named twice"),
        ({"a": (whole(0), ())}, "sum to 1"),
    ],
)
def test_what_is_refused(routes: dict[str, object], words: str) -> None:
    """Jobs that are not there, flows without a path, paths that do not exist, shares that are no whole."""
    with pytest.raises(DecisionError, match=words):
        play(lambda view, state: Routing(routes, state))  # type: ignore[arg-type]
