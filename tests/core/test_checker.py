from dataclasses import replace

import pytest

from weft.core.capabilities import Capabilities
from weft.core.checker import check
from weft.core.cycle import Core
from weft.core.stack import Stack
from weft.core.table import Table
from weft.errors import DecisionError, StackError
from weft.model import Decision, Finished, Gate, Hold, NodeDown, SetGate, Start, Started, Stop, Submitted
from weft.model.view import Fact
from weft.policies.planners.base import Planner
from weft.policies.route.base import Ecmp
from weft.stacks import resolve
from weft.testing import EVERYTHING, ToyWorld, toy_cluster, toy_job
from weft.testing.probes import Fixed, OneAtATime, Shift


@pytest.fixture
def table() -> Table:
    """16 GPUs: `run` on 0 and 1, `going` on 2, starting; `wait` and `other` wait; `old` has finished."""
    table = Table(toy_cluster())
    for name, gpus in (("run", 2), ("going", 1), ("wait", 2), ("other", 2), ("old", 1)):
        table.take(Submitted(0.0, toy_job(name, gpus, memory_bytes=10e9)))
    table.starting("run", (0, 1), None)
    table.starting("going", (2,), None)
    table.starting("old", (3,), None)
    table.take(Started(0.0, "run"))
    table.take(Started(0.0, "old"))
    table.take(Finished(1.0, "old"))
    table.take(NodeDown(1.0, 3))
    return table


REFUSED: list[tuple[str, list[Decision]]] = [
    ("start of job nobody: there is no such job", [Start("nobody", (4,), "")]),
    ("start of job old: it has finished", [Start("old", (4,), "")]),
    ("start of job run: it is running, not waiting", [Start("run", (4, 5), "")]),
    ("start of job going: it is starting, not waiting", [Start("going", (4,), "")]),
    ("start of job wait: it has 1 workers and wants 2", [Start("wait", (4,), "")]),
    ("start of job wait: it has 0 workers and wants 2", [Start("wait", (), "")]),
    ("start of job wait: GPU 4 is named twice", [Start("wait", (4, 4), "")]),
    ("start of job wait: there is no GPU 16; ids go from 0 to 15", [Start("wait", (4, 16), "")]),
    ("start of job wait: there is no GPU -1", [Start("wait", (-1, 4), "")]),
    ("start of job wait: GPU 12 is on server s3, which is down", [Start("wait", (4, 12), "")]),
    ("start of job wait: GPU 1 is given twice; job run has it", [Start("wait", (1, 4), "")]),
    ("GPU 5 is given twice; this cycle gives it", [Start("wait", (4, 5), ""), Start("other", (5, 6), "")]),
    ("this cycle already starts or stops it", [Start("wait", (4, 5), ""), Start("wait", (6, 7), "")]),
    ("its turn .* is not finite", [Start("wait", (4, 5), "", turn=(0.0, float("nan")))]),
    ("start of job wait: there is no task 1; ids go from 0 to 0", [Start("wait", (4, 5), "", Gate(0.0, task=1))]),
    ("stop of job wait: it is waiting, not running", [Stop("wait", "")]),
    ("stop of job going: it is starting, not running", [Stop("going", "")]),
    ("stop of job nobody: there is no such job", [Stop("nobody", "")]),
    ("stop of job run: this cycle already", [Stop("run", ""), Stop("run", "")]),
    ("gate of job wait: it is not running", [SetGate("wait", Gate(0.0), "")]),
    ("gate of job run: it is not running", [Stop("run", ""), SetGate("run", Gate(0.0), "")]),
    ("gate of job run: there is no task -1", [SetGate("run", Gate(0.0, task=-1), "")]),
    ("gate of job run: epoch, period", [SetGate("run", Gate(0.0, period_s=-1.0), "")]),
    ("gate of job run: epoch, period", [SetGate("run", Gate(float("inf")), "")]),
    ("hold of job nobody", [Hold("nobody", "")]),
]


@pytest.mark.parametrize(("text", "decisions"), REFUSED, ids=[text for text, _ in REFUSED])
def test_impossible(table: Table, text: str, decisions: list[Decision]) -> None:
    with pytest.raises(DecisionError, match=text):
        check(decisions, table, EVERYTHING, shared=False)


def test_possible(table: Table) -> None:
    gate = Gate(1.0, 0.5)
    decisions: list[Decision] = [
        SetGate("run", gate, ""), Start("wait", (7, 4), "", gate, (0.0, 1.0)), Hold("other", ""),
    ]  # fmt: skip
    check(decisions, table, EVERYTHING, shared=False)
    check([Stop("run", "")], table, EVERYTHING, shared=False)


def test_memory_is_what_limits_sharing(table: Table) -> None:
    small = Submitted(2.0, toy_job("small", 1, memory_bytes=6e9))
    tiny = Submitted(2.0, toy_job("tiny", 1, memory_bytes=1.0))
    table.take(small)
    table.take(tiny)
    check([Start("small", (0,), "")], table, EVERYTHING, shared=True)
    with pytest.raises(DecisionError, match="start of job tiny: it needs 1 bytes on GPU 0, which has 0 left"):
        check([Start("small", (0,), ""), Start("tiny", (0,), "")], table, EVERYTHING, shared=True)
    with pytest.raises(DecisionError, match="needs 10000000000 bytes on GPU 1, which has 6000000000 left"):
        check([Start("wait", (1, 4), "")], table, EVERYTHING, shared=True)
    with pytest.raises(DecisionError, match="given twice"):  # the world cannot share, whatever the stack says
        check([Start("small", (0,), "")], table, replace(EVERYTHING, gpu_sharing=False), shared=True)


def test_a_gpu_too_small_even_when_empty(table: Table) -> None:
    table.take(Submitted(2.0, toy_job("huge", 1, memory_bytes=17e9)))
    with pytest.raises(DecisionError, match="needs 17000000000 bytes on GPU 4, which has 16000000000 left"):
        check([Start("huge", (4,), "")], table, EVERYTHING, shared=False)


def test_what_a_world_cannot_do(table: Table) -> None:
    table.take(Submitted(2.0, toy_job("elastic", 2, sizes=(1, 3))))
    plain = Capabilities(uneven=False)
    with pytest.raises(DecisionError, match="it has 3 workers and wants 2"):
        check([Start("elastic", (4, 5, 8), "")], table, plain, shared=False)
    with pytest.raises(DecisionError, match="wants 1 or 2 or 3"):
        check([Start("elastic", (4, 5, 6, 7), "")], table, EVERYTHING, shared=False)
    with pytest.raises(DecisionError, match="different numbers of workers"):
        check([Start("elastic", (4, 5, 8), "")], table, replace(plain, resizing=True), shared=False)
    with pytest.raises(DecisionError, match="cannot gate a job"):
        check([Start("elastic", (4, 5), "", Gate(0.0))], table, plain, shared=False)
    check([Start("elastic", (4, 5, 8), "")], table, EVERYTHING, shared=False)
    check([Start("elastic", (4, 8), "")], table, plain, shared=False)


def refused(stack: Stack, can: Capabilities, facts: frozenset[Fact] = frozenset(Fact)) -> str:
    with pytest.raises(StackError) as caught:
        Core(stack, ToyWorld(toy_cluster(), [], capabilities=can, facts=facts))
    return str(caught.value)


class Picky(Fixed):
    """Wants single GPUs."""

    names_gpus = True


CASES: list[tuple[str, Planner | Stack, Capabilities]] = [
    ("puts several jobs on one GPU", resolve("srsf", place="random:shared"), replace(EVERYTHING, gpu_sharing=False)),
    ("only counts GPUs per server", Picky({}), replace(EVERYTHING, gpu_indices=False)),
    ("changes the number of GPUs", Fixed({}, resizes=True), replace(EVERYTHING, resizing=False)),
    ("more GPUs on one server than on another", Fixed({}), replace(EVERYTHING, uneven=False)),
    ("cannot gate a job", Stack("x", Fixed({}), Shift(1.0)), replace(EVERYTHING, shifts=False)),
    ("leaves that to the network", Stack("x", Fixed({}), route=Ecmp(8)), replace(EVERYTHING, routes=False)),
    ("leaves that to the network", Stack("x", Fixed({}), pace=OneAtATime()), replace(EVERYTHING, pacing=False)),
]


@pytest.mark.parametrize(("text", "stack", "can"), CASES, ids=[text for text, _, _ in CASES])
def test_refused(text: str, stack: Planner | Stack, can: Capabilities) -> None:
    stack = stack if isinstance(stack, Stack) else Stack("x", stack)
    message = refused(stack, can)
    assert text in message
    assert f"stack {stack.name} cannot run in the toy world" in message
    Core(stack, ToyWorld(toy_cluster(), [], capabilities=EVERYTHING))  # and only for that reason


def test_facts_the_world_does_not_know() -> None:
    message = refused(resolve("srsf"), EVERYTHING, frozenset({Fact.MODEL}))
    assert "srsf/best-fit must know each job's iterations left and profile" in message
    Core(resolve("fifo"), ToyWorld(toy_cluster(), [], facts=frozenset()))


def test_even_placement_runs_where_uneven_ones_cannot() -> None:
    Core(resolve("fifo", place="even:best-fit"), ToyWorld(toy_cluster(), [], capabilities=Capabilities(uneven=False)))
