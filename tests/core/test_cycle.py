import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest

from weft.core.cycle import Core
from weft.core.layered import Layered
from weft.core.stack import Stack
from weft.errors import DecisionError
from weft.model import (  # fmt: skip
    Candidate,
    Decision,
    Declined,
    Event,
    Failed,
    Finished,
    Gate,
    Hold,
    NodeDown,
    Plan,
    SetGate,
    Start,
    Started,
    State,
    Stop,
    Stopped,
    Submitted,
)
from weft.model.reason import because
from weft.model.view import ClusterView
from weft.policies.interleave.base import Interleave, Pick
from weft.policies.order.base import Ranking
from weft.policies.order.fifo import Fifo
from weft.policies.place.best_fit import BestFit
from weft.policies.planners.base import Planner
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job
from weft.testing.probes import Fixed

FIFO = "first come, first served; tightest fit on 1 server"


def core_with(stack: Stack, *events: Event) -> Core:
    core = Core(stack, ToyWorld(toy_cluster(), []))
    core.confirm(events)
    return core


def submitted(*jobs: tuple[str, int]) -> list[Event]:
    return [Submitted(0.0, toy_job(name, gpus, submit_s=float(i))) for i, (name, gpus) in enumerate(jobs)]


def test_start_is_requested_once() -> None:
    core = core_with(resolve("fifo"))
    start = [Start("a", (0, 1, 2, 3), FIFO, None, (0.0, 0.0))]
    assert core.step(0.0, submitted(("a", 4))) == start
    assert core.step(1.0, []) == []  # starting: it holds its GPUs and is not started again
    assert core.step(2.0, [Started(2.0, "a")]) == []


def test_strict_fifo_lets_nobody_pass() -> None:
    core = core_with(resolve("fifo"))
    decisions = core.step(0.0, submitted(("a", 12), ("big", 8), ("small", 1)))
    assert [type(d) for d in decisions] == [Start, Hold]
    assert decisions[1] == Hold("big", because("weft.no-room", gpus=8, there="are free"))


def test_backfilling_fills_the_gaps() -> None:
    core = core_with(resolve("fifo-backfill"))
    decisions = core.step(0.0, submitted(("a", 12), ("big", 8), ("small", 1)))
    assert [(type(d), d.job) for d in decisions] == [(Start, "a"), (Start, "small"), (Hold, "big")]


def test_a_hold_is_written_down_when_its_reason_changes() -> None:
    core = core_with(resolve("fifo"))
    core.step(0.0, submitted(("a", 16), ("b", 8)))
    assert core.step(1.0, []) == []
    assert core.step(2.0, [Started(2.0, "a")]) == []
    assert [d.job for d in core.step(3.0, [Finished(3.0, "a")])] == ["b"]


def test_failed_start_is_tried_again() -> None:
    core = core_with(resolve("fifo"))
    first = core.step(0.0, submitted(("a", 4)))
    assert core.step(1.0, [Failed(1.0, "a", "no luck")]) == first
    assert core.table.jobs["a"].failures == 1


def test_preemption_stops_first_and_starts_when_the_stop_is_confirmed() -> None:
    long, short = toy_job("long", 16, iterations=100), toy_job("short", 4, iterations=5, submit_s=1.0)
    world = ToyWorld(toy_cluster(), [long])
    core = Core(resolve("srsf-preemptive"), world)
    core.confirm(world.apply(core.step(0.0, world.next_events(0.0))))
    assert core.step(1.0, [Submitted(1.0, short)]) == [
        Stop("long", because("weft.gives-way", to="short")),
        Hold("short", because("weft.being-freed")),
    ]
    assert core.step(2.0, []) == []  # still stopping; nobody else is stopped for it
    again = core.step(3.0, [Stopped(3.0, "long", 2)])
    assert [(type(d), d.job) for d in again] == [(Start, "short"), (Hold, "long")]


def test_a_job_that_moves_is_stopped_and_proposed_again() -> None:
    planner = Fixed({"a": (0, 1)})
    core = core_with(Stack("x", planner))
    core.step(0.0, submitted(("a", 2)))
    core.confirm([Started(0.0, "a")])
    planner.placements = {"a": (1, 2)}
    assert core.step(1.0, []) == [Stop("a", "as planned")]
    assert core.step(2.0, [Stopped(2.0, "a", 1)]) == [Start("a", (1, 2), "as planned", None, (0.0, 0.0))]


def test_resize_is_stop_and_start() -> None:
    planner = Fixed({"a": (0, 1)}, resizes=True)
    core = core_with(Stack("x", planner))
    core.step(0.0, [Submitted(0.0, toy_job("a", 2, sizes=(1,)))])
    core.confirm([Started(0.0, "a")])
    planner.placements = {"a": (0,)}
    assert core.step(1.0, []) == [Stop("a", "as planned")]
    assert core.step(2.0, [Stopped(2.0, "a", 1)]) == [Start("a", (0,), "as planned", None, (0.0, 0.0))]


def test_starting_and_stopping_jobs_are_left_alone() -> None:
    planner = Fixed({"a": (0,)})
    core = core_with(Stack("x", planner))
    core.step(0.0, submitted(("a", 1)))
    planner.placements = {}
    assert core.step(1.0, []) == []  # starting
    assert core.step(2.0, [Started(2.0, "a")]) == [Stop("a", "")]
    planner.placements = {"a": (5,)}
    assert core.step(3.0, []) == []  # stopping


def test_lost_server() -> None:
    core = core_with(resolve("fifo"))
    core.step(0.0, submitted(("a", 4)))
    core.confirm([Started(0.0, "a")])
    down: list[Event] = [NodeDown(5.0, 0, "fire"), Stopped(5.0, "a", 4, "fire")]
    assert core.step(5.0, down) == [Start("a", (4, 5, 6, 7), FIFO, None, (0.0, 0.0))]
    assert core.table.jobs["a"].saved_iterations == 4


def test_start_carries_the_turn_of_the_order() -> None:
    core = core_with(resolve("srsf"))
    (start,) = core.step(0.0, [Submitted(0.0, toy_job("a", 4, compute_s=0.5))])
    assert isinstance(start, Start)
    assert start.turn == (0.0, 2.0)  # 0.5 s on each of 4 GPUs for each iteration left


class Gates(Interleave):
    """Whatever gates it is told to set."""

    name = "gates"
    shifts = True
    gates: dict[str, Gate]

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        plan = replace(candidates[0].plan, gates=self.gates)
        return Pick(replace(candidates[0], plan=plan), state, dict.fromkeys(self.gates, "shift"))


def test_gates_are_set_changed_and_removed() -> None:
    gates = Gates()
    gates.gates = {"a": Gate(1.0, 0.5)}
    core = core_with(Stack("x", resolve("fifo").planner, gates))
    (start,) = core.step(0.0, submitted(("a", 4)))
    assert isinstance(start, Start)
    assert start.gate == Gate(1.0, 0.5)
    core.confirm([Started(0.0, "a")])
    assert core.step(1.0, []) == []
    gates.gates = {"a": Gate(1.2, 0.5)}
    assert core.step(2.0, []) == [SetGate("a", Gate(1.2, 0.5), "shift")]
    gates.gates = {}
    assert core.step(3.0, []) == [SetGate("a", None, because("weft.gate-over"))]
    assert core.step(4.0, []) == []


class Says(Planner):
    """Whatever candidate it is told to propose."""

    name = "says"
    says: list[Candidate]

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        return self.says


def test_wakes_at_the_earliest_time_asked_for_after_now() -> None:
    planner = Says()
    core = core_with(Stack("x", planner), *submitted(("a", 1), ("b", 1)))
    declined = (Declined("a", "later", 9.0), Declined("b", "now", 1.0))
    planner.says = [Candidate(Plan({}), {}, declined=declined, wake_s=12.0)]
    core.step(1.0, [])
    assert core.wake_s == 9.0
    planner.says = [Candidate(Plan({}), {})]
    core.step(2.0, [])
    assert core.wake_s is None


def known(core: Core) -> object:
    """All that decisions change, as it is now."""
    table = core.table
    kept = (core.planner_state, core.interleave_state, core.wake_s, table.jobs, table.number, table.placements)
    return copy.deepcopy((*kept, table.demand, table.gates, table.held, table.ended, list(table.waiting)))


def test_a_refusal_commits_no_decision_but_keeps_what_happened() -> None:
    planner = Says()
    core = core_with(Stack("x", planner), *submitted(("a", 1), ("b", 1)))
    planner.says = [Candidate(Plan({"a": (0,), "b": (0,)}), {"memory": "wrong"})]
    before, cycle = known(core), core.cycle
    with pytest.raises(DecisionError, match="GPU 0 is given twice"):
        core.step(1.0, [])
    assert known(core) == before
    assert not core.journal.entries  # type: ignore[attr-defined]
    planner.says = []
    with pytest.raises(DecisionError, match="says proposed nothing"):
        core.step(2.0, [Submitted(2.0, toy_job("late", 1, submit_s=2.0))])
    assert list(core.table.waiting) == ["a", "b", "late"]
    assert core.cycle == cycle + 2


def test_journal_is_written_before_the_hand_over() -> None:
    written: list[tuple[int, float, list[Decision]]] = []

    class Paper:
        def write(self, cycle: int, time_s: float, decisions: Sequence[Decision]) -> None:
            assert core.table.running == {}  # nothing is committed yet
            written.append((cycle, time_s, list(decisions)))

    core = Core(resolve("fifo"), ToyWorld(toy_cluster(), []), journal=Paper())
    decisions = core.step(0.5, submitted(("a", 1)))
    assert written == [(1, 0.5, decisions)]


class _Asked(Fifo):
    """Counts how often it is asked."""

    idle_without_jobs = True

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def rank(self, view: ClusterView, state: State) -> Ranking:
        self.asked += 1
        return super().rank(view, state)


class _Remembers(_Asked):
    """Says nothing about being idle, whatever the class that it is derived from says."""


@pytest.mark.parametrize(("order", "asked"), [(_Asked(), 1), (_Remembers(), 2)])
def test_an_idle_planner_is_not_asked_while_nobody_waits(order: _Asked, asked: int) -> None:
    core = core_with(Stack("x", Layered(order, BestFit())))
    (start,) = core.step(0.0, submitted(("a", 1)))
    core.confirm([Started(0.0, "a")])
    assert core.step(1.0, [Finished(1.0, "a")]) == []
    assert isinstance(start, Start)
    assert (order.asked, core.cycle) == (asked, 2)
