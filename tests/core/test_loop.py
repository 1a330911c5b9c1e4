from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.toys import played
from weft.core import loop
from weft.core.cycle import Core
from weft.core.decide import Amended
from weft.core.journal import MemoryJournal, rows
from weft.core.loop import run
from weft.core.stack import Stack
from weft.errors import DecisionError
from weft.model import Candidate, Gate, Hold, NodeDown, NodeUp, Plan, SetGate, Start, State, Stop
from weft.model.view import ClusterView
from weft.policies.pace.base import Admission
from weft.policies.planners.base import Planner
from weft.results.run import DECISIONS
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job
from weft.testing.probes import Waking


def test_runs_to_the_end() -> None:
    """Two jobs of 16 GPUs and 10 s one after the other: 20 s."""
    world = ToyWorld(toy_cluster(), [toy_job("a", 16), toy_job("b", 16)])
    core = played(world, "fifo")
    assert world.now() == 20.0
    assert set(core.table.ended) == {"a", "b"}
    assert world.admission == Admission("all")


def test_runs_until_a_time_and_goes_on_from_there() -> None:
    jobs = [toy_job(f"j{i}", 8, submit_s=float(i)) for i in range(6)]
    worlds = [ToyWorld(toy_cluster(), jobs), ToyWorld(toy_cluster(), jobs)]
    cores = [Core(resolve("fifo"), world) for world in worlds]
    run(cores[0], worlds[0])
    for until in (0.0, 2.5, 3.0, 17.0, None):
        run(cores[1], worlds[1], until=until)
        assert until is None or worlds[1].now() == until
    assert cores[0].journal.entries == cores[1].journal.entries  # type: ignore[attr-defined]


def test_stop_and_start_at_one_instant() -> None:
    """A world that stops in no time: the short job starts at the very moment it arrives."""
    jobs = [toy_job("long", 16, iterations=100), toy_job("short", 16, iterations=5, submit_s=10.0)]
    world = ToyWorld(toy_cluster(), jobs)
    core = played(world, "srsf-preemptive")
    starts = [(time, d.job) for _, time, d in core.journal.entries if isinstance(d, Start)]  # type: ignore[attr-defined]
    assert starts == [(0.0, "long"), (10.0, "short"), (15.0, "long")]
    assert world.now() == 105.0  # nothing was lost: a checkpoint after every iteration


def test_waits_for_a_server_to_come_back() -> None:
    script = [NodeDown(0.0, 0), NodeDown(3.0, 1), NodeUp(50.0, 0), NodeUp(60.0, 1)]
    world = ToyWorld(toy_cluster(), [toy_job("a", 16, submit_s=1.0)], script=script)
    played(world, "fifo")
    assert world.now() == 70.0


def test_job_too_big_is_left_waiting() -> None:
    core = played(ToyWorld(toy_cluster(), [toy_job("a", 17), toy_job("b", 16)]), "fifo-backfill")
    assert list(core.view.waiting) == ["a"]
    assert set(core.table.ended) == {"b"}


def test_progress_is_reported_every_cycle() -> None:
    world = ToyWorld(toy_cluster(), [toy_job("a", 16), toy_job("b", 16)])
    core = Core(resolve("fifo"), world)
    seen: list[tuple[float, int]] = []
    run(core, world, on_progress=lambda now, core: seen.append((now, len(core.table.ended))))
    assert seen == [(0.0, 0), (10.0, 1), (20.0, 2)]


def test_wakes_when_asked_to() -> None:
    world = ToyWorld(toy_cluster(), [toy_job("a", iterations=5)])
    core = Core(Stack("x", Waking(resolve("fifo").planner, 2.0)), world)
    seen: list[float] = []
    run(core, world, on_progress=lambda now, core: seen.append(now))
    assert seen == [0.0, 2.0, 4.0, 5.0]


def test_starts_that_fail_at_once_and_for_ever_are_caught() -> None:
    world = ToyWorld(toy_cluster(), [toy_job("a")], failure_rate=1.0)
    core = Core(resolve("fifo"), world)
    with pytest.raises(DecisionError, match="gave up at 0 s after 1000 failed starts; lower failure_rate"):
        run(core, world)
    assert core.table.jobs["a"].failures == 999


def test_a_planner_that_wakes_for_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_MAX_IDLE_WAKES", 100)

    class Idle(Planner):
        name = "idle"

        def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
            return [replace(Candidate(Plan({}), state), wake_s=view.now + 1.0)]

    world = ToyWorld(toy_cluster(), [toy_job("a")])
    with pytest.raises(DecisionError, match="stack idle woke 101 times in a row"):
        run(Core(Stack("idle", Idle()), world), world)


def test_a_planner_that_stops_what_it_started_is_caught() -> None:
    class Fickle(Planner):
        name = "fickle"

        def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
            return [Candidate(Plan({"b": (1,)} if "a" in view.running else {"a": (0,)}), state)]

    world = ToyWorld(toy_cluster(), [toy_job("a", 1), toy_job("b", 1), toy_job("c", 1, submit_s=1.0)])
    with pytest.raises(DecisionError, match="stack fickle stopped jobs that it had just started, 1000 times"):
        run(Core(Stack("fickle", Fickle()), world), world)


names = st.sampled_from("abcdef")
placements = st.dictionaries(names, st.tuples(st.integers(0, 9)))


@given(placements, placements, st.frozensets(names))
def test_same_as_a_dictionary(
    base: dict[str, tuple[int]], added: dict[str, tuple[int]], removed: frozenset[str]
) -> None:
    plain = {**{job: gpus for job, gpus in base.items() if job not in removed}, **added}
    amended = Amended(base, added, removed)
    assert dict(amended) == plain
    assert len(amended) == len(plain)
    assert all((job in amended) == (job in plain) for job in "abcdef")
    assert amended == plain


def test_rows_fit_the_schema_of_the_decision_log() -> None:
    journal = MemoryJournal()
    journal.write(1, 0.5, [Start("a", (3, 4), "first"), Hold("b", "no room")])
    journal.write(2, 1.5, [SetGate("a", Gate(0.0), "shift"), Stop("a", "gives way")])
    frame = pl.DataFrame(rows(journal.entries), schema=DECISIONS)
    assert frame.rows() == [
        (1, 0.5, "a", "start", "3 4", "first"),
        (1, 0.5, "b", "hold", "", "no room"),
        (2, 1.5, "a", "gate", "", "shift"),
        (2, 1.5, "a", "stop", "", "gives way"),
    ]


def test_an_empty_journal_is_an_empty_frame() -> None:
    assert pl.DataFrame(rows([]), schema=DECISIONS).shape == (0, 6)
