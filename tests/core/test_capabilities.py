from dataclasses import replace

import pytest

from weft.core.capabilities import Capabilities
from weft.core.cycle import Core
from weft.core.stack import Stack
from weft.errors import StackError
from weft.model.view import Fact
from weft.policies.planners.base import Planner
from weft.stacks import resolve
from weft.testing import EVERYTHING, ToyWorld, toy_cluster
from weft.testing.probes import Fixed, OneAtATime, Shift


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
