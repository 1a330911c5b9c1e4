"""Stacks from names: grammar, replaced layers, contradictions in words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from weft import registry
from weft.core.cycle import Core
from weft.core.layered import Layered
from weft.core.loop import run
from weft.core.stack import Stack
from weft.errors import StackError
from weft.model import Candidate, Plan, State
from weft.model.view import ClusterView
from weft.planners.base import Planner
from weft.registry import LAYERS, register
from weft.stacks import STACKS, describe, names, resolve
from weft.testing import ToyWorld, toy_cluster, toy_job
from weft.testing.probes import Fixed, OneAtATime, Shift


class Joint(Planner):
    """Order and place at once."""

    name = "joint"

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        return [Candidate(Plan(dict(view.placements)), state)]


class Shifty(Shift):
    """Shifts by one second."""

    name = "shifty"

    def __init__(self) -> None:
        super().__init__(1.0)


class Single(OneAtATime):
    """One transfer at a time."""

    name = "single"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_BY_HAND", {layer: {} for layer in LAYERS})
    register("planners", "joint", Joint)
    register("interleave", "shifty", Shifty)
    register("pace", "single", Single)
    return


@pytest.mark.parametrize("name", STACKS)
def test_every_named_stack_runs(name: str) -> None:
    world = ToyWorld(toy_cluster(), [toy_job("a", 12), toy_job("b", 12)])
    stack = resolve(name)
    assert stack.name == name
    run(Core(stack, world), world)
    at_once = stack.planner.shares_gpus and name != "gandiva-packing"  # which packs jobs that it has seen alone
    assert world.now() == (10.0 if at_once else 20.0)  # both jobs fit into the memory of 16 GPUs


def layers(stack: Stack) -> tuple[str, str, str]:
    return stack.planner.name, stack.interleave.name, stack.pace.name


def test_srsf_is_what_it_says() -> None:
    assert layers(resolve("srsf")) == ("srsf/best-fit", "none", "fair")
    assert describe("srsf") == {"order": "srsf", "place": "best-fit", "interleave": "none", "pace": "fair"}


def test_layers_can_be_replaced() -> None:
    stack = resolve("srsf", place="first-fit", pace="single")
    assert layers(stack) == ("srsf/first-fit", "none", "single")
    assert stack.name == "srsf[place=first-fit,pace=single]"


def test_layers_without_a_name() -> None:
    stack = resolve(order="sjf")
    assert layers(stack) == ("sjf/best-fit", "none", "fair")
    assert stack.name == "sjf/best-fit/none/fair"
    assert isinstance(resolve().planner, Layered)


def test_a_name_may_say_what_is_replaced() -> None:
    """The name that results show can be given again."""
    stack = resolve("ada-srsf", place="ff")
    assert stack.name == "ada-srsf[place=ff]"
    again = resolve(stack.name)
    assert (again.name, layers(again)) == (stack.name, layers(stack))
    assert describe(stack.name) == {"order": "srsf", "place": "ff", "interleave": "none", "pace": "adadual"}
    more = resolve("srsf+shifty[pace=fair]", place="random")
    assert more.name == "srsf+shifty[place=random,pace=fair]"
    assert layers(more) == ("srsf/random", "shifty", "fair")


def test_some_stacks_take_a_parameter() -> None:
    assert layers(resolve("ada-srsf:3")) == ("srsf/lwf:1", "none", "adadual:3")
    assert resolve("ada-srsf:3").name == "ada-srsf:3"
    with pytest.raises(StackError, match="there is no stack srsf:3"):
        resolve("srsf:3")


def test_ada_srsf_and_its_baselines() -> None:
    """Section V-A: LWF-1 and SRSF for all, and another rule for the network."""
    for name, pace in (("ada-srsf", "adadual"), *((f"srsf-{n}", f"at-most:{n}") for n in (1, 2, 3))):
        assert layers(resolve(name)) == ("srsf/lwf:1", "none", pace)


def test_plus_is_an_interleave() -> None:
    stack = resolve("srsf+shifty")
    assert layers(stack) == ("srsf/best-fit", "shifty", "fair")
    assert stack.name == "srsf+shifty"
    assert layers(resolve("joint+shifty")) == ("joint", "shifty", "fair")
    assert layers(resolve("srsf+shifty", interleave="none")) == ("srsf/best-fit", "none", "fair")


def test_planners_are_stacks_by_their_own_name() -> None:
    assert "joint" in names()
    assert describe("joint") == {"planner": "joint", "interleave": "none", "pace": "fair"}


@pytest.mark.parametrize("layer", ["order", "place"])
def test_a_joint_planner_has_no_order_or_place_to_replace(layer: str) -> None:
    with pytest.raises(
        StackError, match=f"{layer} random cannot be used with joint: joint decides order and place at once"
    ):
        resolve("joint", **{layer: "random"})


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"name": "srsff"}, "there is no stack srsff; did you mean srsf"),
        ({"name": "srsf+shifti"}, "there is no interleave shifti; did you mean shifty"),
        ({"name": "srsf", "place": "firstfit"}, "there is no place firstfit; did you mean first-fit"),
        ({"name": "+shifty"}, "there is no stack ;"),
        ({"name": "srsf[place]"}, "write what is replaced as NAME[place=ff]"),
        ({"name": "srsf[where=ff]"}, "write what is replaced as NAME[place=ff]"),
        ({"name": "srsf[place=ff"}, "write what is replaced as NAME[place=ff]"),
        ({"name": "joint[place=ff]"}, "place ff cannot be used with joint"),
        ({"name": "ada-srsf:x"}, "write adadual, or adadual:K"),
        (
            {"name": "srsf+shifty", "pace": "single"},
            "single holds transfers back, which undoes the time-shifts",
        ),
        ({"name": "srsf+shifty", "place": "random:shared"}, "shifty assumes that a GPU has one job"),
    ],
)
def test_refused_in_words(asked: dict[str, str], text: str) -> None:
    with pytest.raises(StackError) as caught:
        resolve(**asked)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_contradictions_are_refused_however_a_stack_is_made() -> None:
    with pytest.raises(StackError, match="use one of them"):
        Stack("mine", Fixed({}), Shift(1.0), OneAtATime())
    with pytest.raises(StackError, match="shares GPUs"):
        Stack("mine", Fixed({}, shares_gpus=True), Shift(1.0))
