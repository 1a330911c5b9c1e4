"""Policies that are handed over as classes and objects, and what they are called."""

import subprocess
import sys
from typing import Any

import pytest

import weft
from tests.test_api import scenario
from weft.errors import DecisionError, StackError
from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.order.srsf import ShortestRemainingServiceFirst
from weft.policies.place.base import Answer, Place
from weft.policies.place.fitting import FirstFit
from weft.policies.place.lwf import LeastWorkloadFirst
from weft.policies.planners.themis import Themis
from weft.stacks import registry, resolve
from weft.stacks.given import Held, holds_objects, stack_of, text_of


@pytest.fixture(autouse=True)
def _known_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_BY_HAND", {layer: {} for layer in registry.GROUPS})


class Mine(FirstFit):
    """It inherits a name that means another class."""


class Last(FirstFit):
    """It knows from which GPU on it looks."""

    name = "last"

    def __init__(self, at: int = 0) -> None:
        self.at = at


def results(run: weft.RunResult) -> list[Any]:
    return run.jobs["jct_s"].to_list()


def test_names_of_classes() -> None:
    assert text_of("place", "tight") == "tight"
    assert text_of("place", FirstFit) == "first-fit"
    assert text_of("place", Mine) == "Mine"
    assert text_of("place", Last) == "last"
    assert text_of("place", Last) == "last"
    assert registry.find("place", "first-fit")[0] is FirstFit
    assert not holds_objects()


def test_names_of_objects() -> None:
    assert text_of("place", LeastWorkloadFirst.from_text("3")) == "lwf:3"
    taken: dict[Any, Any] = {}
    assert [text_of("place", Last(at), taken) for at in (1, 2)] == ["last", "last-2"]
    assert [registry.make("place", text).at for text in ("last", "last-2")] == [1, 2]
    assert isinstance(registry.find("place", "last")[0], Held)
    assert holds_objects()
    with pytest.raises(StackError, match="takes no parameter"):
        registry.make("place", "last:3")


def test_stacks() -> None:
    assert stack_of("srsf+cassini") == "srsf+cassini"
    assert stack_of({"order": ShortestRemainingServiceFirst, "place": Mine}) == "srsf/Mine/none/fair"
    assert stack_of(resolve("ada-srsf")) == "srsf/lwf:1/none/adadual"
    assert stack_of(resolve("weft")) == "weft"
    assert stack_of(Themis) == "themis"
    for text in ("srsf/Mine/none/fair", "themis"):
        assert resolve(text).name
    for wrong in (3, {"place": FirstFit, "pacing": "fair"}, {"place": ShortestRemainingServiceFirst}):
        with pytest.raises(StackError):
            stack_of(wrong)


def test_a_class_runs_as_its_name_does() -> None:
    plain = weft.simulate(scenario(), place="first-fit")
    given = weft.simulate(scenario(), place=Mine)
    assert given.stack == "srsf[place=Mine]"
    assert results(given) == results(plain)
    both = weft.compare(scenario(), ["srsf/first-fit", {"order": "srsf", "place": Last(1)}], [1], workers=2)
    assert [run.stack for run in both.runs] == ["srsf/first-fit/none/fair", "srsf/last/none/fair"]
    assert results(both.runs[0]) == results(both.runs[1]) == results(plain)


def test_a_class_of_a_session_without_a_file_reaches_workers() -> None:
    """As in a notebook: no worker can import what __main__ holds."""
    code = f"""
import weft
from weft.policies.place.fitting import FirstFit
class Own(FirstFit):
    pass
found = weft.compare({scenario()!r}, ["fifo", "srsf"], [1], place=Own, workers=2)
print(*[run.stack for run in found.runs], '<table' in found._repr_html_())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["fifo[place=Own]", "srsf[place=Own]", "True"]


def test_a_class_without_a_name_is_called_by_that_of_its_class() -> None:
    class Nameless(Place):
        def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
            return None  # type: ignore[return-value]

    with pytest.raises(DecisionError, match=r"^place Nameless, .*test_given.py:\d+: returned None"):
        weft.simulate(scenario(), stack={"order": "srsf", "place": Nameless})
