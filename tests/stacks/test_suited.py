from dataclasses import replace

import pytest

from weft.core.capabilities import Capabilities
from weft.core.cycle import Core
from weft.core.loop import run
from weft.model import Finished
from weft.model.view import Fact
from weft.stacks import resolve
from weft.testing import EVERYTHING, ToyWorld, toy_cluster, toy_job

ALL = frozenset(Fact)
CASES: list[tuple[Capabilities, frozenset[Fact], tuple[str, ...], tuple[str, str]]] = [
    (EVERYTHING, ALL, (), ("weft/tight", "weft")),
    (replace(EVERYTHING, others=True), ALL, (), ("weft/tight", "shortest:1000")),
    (replace(EVERYTHING, resizing=False), ALL, ("the size they ask for",), ("weft:rigid/tight", "weft")),
    (replace(EVERYTHING, uneven=False), ALL, ("as many workers",), ("weft/even:tight", "weft")),
    (replace(EVERYTHING, pacing=False), ALL, ("left to the network",), ("weft/tight", "fair")),
    (
        EVERYTHING, frozenset({Fact.PROFILE, Fact.MODEL}), ("attained service", "best-fit instead of tight"),
        ("weft:attained/best-fit", "weft"),
    ),
    (
        Capabilities(gpu_indices=False, uneven=False), frozenset(),
        ("attained service", "the size they ask for", "best-fit instead of tight", "as many workers", "the network"),
        ("weft:rigid,attained/even:best-fit", "fair"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("can", "facts", "lines", "layers"), CASES)
def test_what_a_world_lacks_is_left_out_and_said(
    can: Capabilities, facts: frozenset[Fact], lines: tuple[str, ...], layers: tuple[str, str]
) -> None:
    jobs = [
        toy_job("a", 8, 100), toy_job("b", 4, 10, submit_s=1.0), toy_job("c", 16, 30, submit_s=2.0),
        toy_job("d", 2, 5, submit_s=3.0, sizes=(1, 2, 4)),
    ]  # fmt: skip
    world = ToyWorld(toy_cluster(), jobs, capabilities=can, facts=facts)
    core = Core(resolve("weft"), world)
    assert (core.stack.planner.name, core.stack.pace.name) == layers
    assert len(core.left_out) == len(lines)
    assert all(text in line for text, line in zip(lines, core.left_out, strict=True))
    run(core, world)
    assert {event.job for event in world.log if isinstance(event, Finished)} == {"a", "b", "c", "d"}


def test_shifts_are_added_where_the_world_has_them() -> None:
    stack = resolve("weft+cassini")
    assert Core(stack, ToyWorld(toy_cluster(), [])).stack.interleave.name == "cassini"
    core = Core(stack, ToyWorld(toy_cluster(), [], capabilities=replace(EVERYTHING, shifts=False)))
    assert core.stack.interleave.name == "none"
    assert "no time-shifts" in core.left_out[0]
