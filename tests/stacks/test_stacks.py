from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.core.cycle import Core
from weft.core.layered import Layered
from weft.core.loop import run
from weft.core.stack import Stack
from weft.errors import StackError
from weft.model import Candidate, Plan, State
from weft.model.view import ClusterView
from weft.policies.planners.base import Planner
from weft.stacks import STACKS, describe, names, registry, resolve
from weft.stacks.registry import register
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
    monkeypatch.setattr(registry, "_BY_HAND", {layer: {} for layer in registry.GROUPS})
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


@pytest.mark.parametrize(
    ("written", "name", "route"),
    [
        ("srsf/delay/none/fair/spray", "srsf/delay/none/fair/spray", "spray"),
        ("srsf/delay/none/fair/ecmp", "srsf/delay/none/fair", "ecmp"),
        ("srsf/delay", "srsf/delay/none/fair", "ecmp"),
        ("themis/none/fair/ecmp:8", "themis/none/fair/ecmp:8", "ecmp:8"),
        ("dally[route=least-loaded:bytes]", "dally[route=least-loaded:bytes]", "least-loaded:bytes"),
        ("srsf[pace=flow:slot=30ms,delay=6ms,route=spray]", "srsf[pace=flow:slot=30ms,delay=6ms,route=spray]", "spray"),
    ],
)
def test_the_fifth_layer(written: str, name: str, route: str) -> None:
    """A name can be given again, and what existed before routes keeps its own."""
    stack = resolve(written)
    assert (stack.name, stack.route.name) == (name, route)
    assert resolve(stack.name).route.name == route


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
        (
            {"name": "srsf", "place": "x"},
            "known are affinity, arnold, best-fit, dealt, delay, elasticflow, even, first-fit",
        ),
        ({"name": "srsf", "place": "dealtt"}, "there is no place dealtt; did you mean dealt"),
        ({"name": "srsf", "place": "dealt"}, "dealt stands before a place; write dealt:PLACE, as in dealt:best-fit"),
        ({"name": "srsf", "place": "dealt:"}, "dealt stands before a place; write dealt:PLACE"),
        ({"name": "srsf", "place": "even:dealt/ring"}, "dealt/ring stands before a place; write dealt/ring:PLACE"),
        ({"name": "srsf", "place": "dealt:dealt:tight"}, "dealt:tight: dealt stands before this place already"),
        ({"name": "srsf", "place": "even:dealt/ring:even:ff"}, "even:ff: even stands before this place already"),
        ({"name": "+shifty"}, 'there is no stack "";'),
        ({"name": "srsf[place]"}, "write what is replaced as NAME[place=tight]"),
        ({"name": "srsf[where=ff]"}, "there is no layer where; known are"),
        ({"name": "srsf[pce=shortest]"}, "there is no layer pce; did you mean pace"),
        ({"name": ""}, 'there is no stack ""; known are'),
        ({"name": "srsf[place=ff"}, "write what is replaced as NAME[place=tight]"),
        ({"name": "joint[place=ff]"}, "place ff cannot be used with joint"),
        ({"name": "ada-srsf:x"}, "stack ada-srsf:x: adadual:x"),
        ({"name": "srsf+shifty", "pace": "single"}, "single holds transfers back, which undoes the time-shifts"),
        ({"name": "srsf+shifty", "place": "random:shared"}, "shifty assumes that a GPU has one job"),
        ({"name": "tiresias:0"}, "stack tiresias:0: las:0: 0"),
    ],
)
def test_refused_in_words(asked: dict[str, str], text: str) -> None:
    with pytest.raises(StackError) as caught:
        resolve(**asked)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_interleaves_are_refused() -> None:
    for name in ("themis+cassini+cassini", "srsf+none+cassini[pace=fair]"):
        with pytest.raises(StackError, match="names two interleaves"):
            resolve(name)


def test_contradictions_are_refused_however_a_stack_is_made() -> None:
    with pytest.raises(StackError, match="use one of them"):
        Stack("mine", Fixed({}), Shift(1.0), OneAtATime())
    with pytest.raises(StackError, match="shares GPUs"):
        Stack("mine", Fixed({}, shares_gpus=True), Shift(1.0))


@pytest.mark.parametrize("name", [name for name in STACKS if name != "tiresias:gittins"])
def test_layers_one_after_another_are_a_stack(name: str) -> None:
    """What tables print for a combination can be given wherever a stack is named."""
    written = "/".join(describe(name).values())
    stack = resolve(written)
    assert layers(stack) == layers(resolve(name))
    assert stack.name == written
    assert resolve(stack.name).name == stack.name


@pytest.mark.parametrize(
    ("written", "full"),
    [
        ("srsf/delay", "srsf/delay/none/fair"),
        ("srsf:preemptive/tight/shifty", "srsf:preemptive/tight/shifty/fair"),
        ("joint/shifty", "joint/shifty/fair"),
        ("joint/none/single", "joint/none/single"),
        ("srsf/dealt/ring:best-fit/none", "srsf/dealt/ring:best-fit/none/fair"),
        ("srsf/even:dealt:best-fit", "srsf/even:dealt:best-fit/none/fair"),
        ("las-queues:3600/36000/skew", "las-queues:3600/36000/skew/none/fair"),
        ("fifo/titan:plus/ring/0.1/none/fair", "fifo/titan:plus/ring/0.1/none/fair"),
    ],
)
def test_layers_left_out_at_the_end_are_the_defaults(written: str, full: str) -> None:
    assert resolve(written).name == full
    assert "/".join(describe(written).values()) == full


def test_a_layer_of_a_stack_written_by_layers_is_replaced_in_its_name() -> None:
    assert resolve("srsf/delay/none/fair", place="ff").name == "srsf/ff/none/fair"
    assert resolve("srsf/delay/none/fair[pace=single]").name == "srsf/delay/none/single"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("srsf/dellay/none/fair", "there is no place dellay; did you mean delay"),
        ("srsf/delay/", "write order/place/interleave/pace/route, or planner/interleave/pace/route"),
        ("/delay", "write order/place/interleave/pace/route, or planner/interleave/pace/route"),
        ("srsf/delay/none/fair/ecmp/fair", "write order/place/interleave/pace/route, or planner/interleave/pace/route"),
        ("srrsf/delay", "there is no order srrsf; did you mean srsf"),
    ],
)
def test_layers_that_make_no_stack(name: str, text: str) -> None:
    with pytest.raises(StackError) as caught:
        resolve(name)
    assert text in str(caught.value)


def test_a_policy_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policies").mkdir()
    file = tmp_path / "policies" / "mine.py"
    file.write_text(
        "from weft.policies.place.base import Place\nclass Mine(Place):\n    name = 'mine'\n    place = None\nx = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    stack = resolve("srsf", place="policies/mine.py:Mine")
    assert layers(stack) == ("srsf/mine", "none", "fair")
    assert stack.name == "srsf[place=policies/mine.py:Mine]"
    assert layers(resolve(stack.name)) == layers(stack)
    assert layers(resolve("srsf/policies/mine.py:Mine/shifty/fair")) == ("srsf/mine", "shifty", "fair")
    assert layers(resolve(f"srsf/dealt:{file}:Mine")) == ("srsf/dealt:mine", "none", "fair")
    with pytest.raises(StackError, match=r"has no class Min; did you mean Mine\?"):
        resolve("srsf", place="policies/mine.py:Min")
    with pytest.raises(StackError, match=r"x is no place; derive it from weft.policies.place.base.Place"):
        resolve("srsf", place="policies/mine.py:x")
    with pytest.raises(StackError, match=r"Mine is no order; derive it from weft.policies.order.base.Order"):
        resolve("srsf", order="policies/mine.py:Mine")
    with pytest.raises(StackError, match=r"names no class; write policies/mine.py:CLASS"):
        resolve("srsf", place="policies/mine.py")
    with pytest.raises(StackError, match=r"there is no file other.py"):
        resolve("srsf", place="other.py:Mine")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(StackError, match=r"broken.py cannot be run \(ZeroDivisionError: division by zero\)"):
        resolve("srsf", place="broken.py:Mine")
    monkeypatch.chdir("/")
    with registry.files_from(tmp_path):
        assert layers(resolve("srsf", place="policies/mine.py:Mine")) == ("srsf/mine", "none", "fair")


@pytest.mark.parametrize("name", names())
def test_what_is_printed_for_a_stack_can_be_typed(name: str) -> None:
    printed = "/".join(describe(name).values())
    assert describe(printed) == describe(name)
    assert layers(resolve(printed)) == layers(resolve(name))
    assert layers(resolve(resolve(name).name)) == layers(resolve(name))
