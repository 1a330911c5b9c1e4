import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weft.errors import StackError, near
from weft.policies.place.fitting import FirstFit
from weft.stacks import registry, resolve
from weft.stacks.registry import BUILT_IN, LAYERS, make, names, register


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_BY_HAND", {layer: {} for layer in registry.GROUPS})
    registry._installed.cache_clear()
    yield
    registry._installed.cache_clear()


@pytest.mark.parametrize(("layer", "name"), [(layer, name) for layer in LAYERS for name in BUILT_IN[layer]])
def test_every_built_in_policy_can_be_made_and_knows_its_name(layer: str, name: str) -> None:
    assert make(layer, name).name.partition(":")[0] == name  # a parameter left out may be said in the name
    assert name in names(layer)


def test_parameters_follow_a_colon() -> None:
    assert make("order", "srsf:preemptive").name == "srsf:preemptive"
    with pytest.raises(StackError, match="fair takes no parameter; write fair"):
        make("pace", "fair:2")


@pytest.mark.parametrize(
    ("layer", "text", "message"),
    [
        ("place", "bestfit", "there is no place bestfit; did you mean best-fit"),
        ("order", "srfs:preemptive", "there is no order srfs; did you mean srsf"),
        ("pace", "xyzzy", "there is no pace xyzzy; known are adadual"),
        ("planners", "xyzzy", "there is no planner xyzzy"),
    ],
)
def test_near_misses(layer: str, text: str, message: str) -> None:
    with pytest.raises(StackError) as caught:
        make(layer, text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", registry.ELSEWHERE)
def test_what_is_not_installed_is_named_with_its_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    with pytest.raises(StackError, match=f"{name} comes with weft-evidence, which is not installed here$"):
        registry.find("costs" if name.startswith("dally") else "pace", name)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (["srsf"], "; did you mean srsf? see the list"), (["xyzzy"], "; known are xyzzy; see the list"),
        ([], "; see the list"),
    ],
)  # fmt: skip
def test_where_to_find_more_follows_the_question(known: list[str], message: str) -> None:
    assert near("srfs", known, "see the list") == message


@pytest.mark.parametrize(
    ("layer", "text", "message"),
    [
        ("place", "tight:", "nothing follows the colon of tight:; write tight, or a parameter after the colon"),
        ("pace", "fair:", "nothing follows the colon of fair:; write fair, or a parameter after the colon"),
    ],
)
def test_a_colon_with_nothing_after_it_is_refused(layer: str, text: str, message: str) -> None:
    with pytest.raises(StackError) as caught:
        make(layer, text)
    assert str(caught.value) == message


class Mine(FirstFit):
    """A user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "mine"

    @classmethod
    def from_text(cls, arg: str | None) -> Any:
        policy = cls()
        policy.name = f"mine:{arg}"
        return policy


def test_registered_by_hand() -> None:
    register("place", "mine", Mine)
    assert make("place", "mine:7").name == "mine:7"
    assert resolve("srsf", place="mine:7").planner.name == "srsf/mine:7"


@pytest.mark.parametrize(
    ("layer", "name", "policy", "text"),
    [
        ("places", "mine", Mine, "there is no layer places"),
        ("place", "mi:ne", Mine, "cannot name a policy"),
        ("place", "a+b", Mine, "cannot name a policy"),
        ("place", "", Mine, "cannot name a policy"),
        ("place", "mine", object, "is no policy class"),
    ],
)
def test_wrong_registrations_are_refused(layer: str, name: str, policy: type, text: str) -> None:
    with pytest.raises(StackError, match=text):
        register(layer, name, policy)


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package as pip would have installed it: a module, and metadata with entry points."""
    facts = tmp_path / "other_policies-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: other-policies\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[weft.place]\nother = other_policies:Other\nlost = other_policies:Lost\nno-policy = other_policies:VALUE\n"
        "[weft.pace]\nabsent = no_such_module:Pace\n"
    )
    (tmp_path / "other_policies.py").write_text(
        "from weft.policies.place.fitting import FirstFit\nVALUE = 3\nclass Other(FirstFit):\n    name = 'other'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("other_policies", None)


def test_installed_by_another_package(other_package: Path) -> None:
    assert "other" in names("place")
    policy = make("place", "other")
    assert isinstance(policy, FirstFit)
    assert type(policy).__module__ == "other_policies"
    assert resolve("srsf", place="other").name == "srsf[place=other]"


@pytest.mark.parametrize(
    ("layer", "name", "text"),
    [
        ("place", "lost", "place lost: its package names other_policies:Lost, which cannot be loaded (Attribute"),
        ("pace", "absent", "pace absent: its package names no_such_module:Pace, which cannot be loaded (ModuleNot"),
        ("place", "no-policy", "place no-policy: its package names other_policies:VALUE, which is no policy class; "),
    ],
)
def test_a_broken_package_is_named(other_package: Path, layer: str, name: str, text: str) -> None:
    """It is not a bug of ours: the message says whose."""
    with pytest.raises(StackError, match=f"^{re.escape(text)}"):
        make(layer, name)


def test_a_class_in_a_file_that_cannot_be_made_is_no_bug_of_ours(tmp_path: Path) -> None:
    file = tmp_path / "half.py"
    file.write_text(
        "from weft.policies.place.base import Place\nfrom weft.policies.place.fitting import FirstFit\n"
        "class Half(Place): ...\nclass Picky(FirstFit):\n    def __init__(self, size): ...\n"
        "class Nameless(FirstFit):\n    name = ''\n"
    )
    for name in ("Half", "Picky"):
        with pytest.raises(StackError, match=f"^place {file}:{name}: TypeError: .*; mend the class$"):
            make("place", f"{file}:{name}")
    assert make("place", f"{file}:Nameless").name == "Nameless"


def test_old_names_are_read_with_the_same_results(recwarn: pytest.WarningsRecorder) -> None:
    import weft
    from tests.test_api import scenario

    for old, now in (("place=ff", "place=first-fit:shared"), ("place=rand", "place=random:shared"),
                     ("pace=equal", "pace=fair-flows")):  # fmt: skip
        layer, _, name = old.partition("=")
        assert name not in registry.names(layer)
        then, today = (weft.simulate(scenario(), stack=f"srsf[{text}]").jobs["jct_s"].to_list() for text in (old, now))
        assert then == today
    with pytest.warns(DeprecationWarning, match="place ff is now first-fit:shared"):
        registry.make("place", "ff")
    with pytest.raises(StackError):
        registry.make("pace", "equal:3")
