import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weft.core import blame
from weft.core.cycle import Core
from weft.core.layered import Layered
from weft.core.stack import Stack
from weft.errors import DecisionError, PolicyError
from weft.model.events import Submitted
from weft.model.plan import Candidate, State
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.interleave.base import NoInterleave, Pick
from weft.policies.order.base import Order, Ranking
from weft.policies.order.fifo import Fifo
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import BestFit
from weft.testing.toy import ToyWorld, toy_cluster, toy_job


class Broken(Order):
    name = "broken"
    idle_without_jobs = True

    def rank(self, view: ClusterView, state: State) -> Ranking:
        raise KeyError("gone")


class Silent(Order):
    name = "silent"
    idle_without_jobs = True

    def rank(self, view: ClusterView, state: State) -> Ranking:
        return None  # type: ignore[return-value]


class Slow(Fifo):
    name = "slow"
    idle_without_jobs = True

    def rank(self, view: ClusterView, state: State) -> Ranking:
        until = time.monotonic() + 30
        while time.monotonic() < until and not seen:
            time.sleep(0.001)
        return super().rank(view, state)


class Twice(Place):
    name = "twice"

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        return Answer((0,) * gpus, "", state)


class Nothing(Place):
    name = "nothing"

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        return None  # type: ignore[return-value]


seen: list[str] = []


def core(order: Order, place: Place) -> Core:
    return Core(Stack("mine", Layered(order, place)), ToyWorld(toy_cluster(), [toy_job("a", 2)]))


def step(order: Order, place: Place) -> None:
    core(order, place).step(0.0, [Submitted(0.0, toy_job("a", 2))])


def test_an_error_in_a_policys_own_code_names_it_with_file_and_line() -> None:
    with pytest.raises(PolicyError, match=r"^order broken, .*test_blame\.py:\d+: KeyError: 'gone', at 0 s") as caught:
        step(Broken(), BestFit())
    line = int(str(caught.value).split("test_blame.py:")[1].split(":")[0])
    assert "raise KeyError" in Path(__file__).read_text().splitlines()[line - 1]


@pytest.mark.parametrize(
    ("order", "place", "named"),
    [(Silent(), BestFit(), "order silent"), (Fifo(), Nothing(), "place nothing"), (Fifo(), Twice(), "fifo/twice")],
)
def test_what_a_policy_must_not_return_is_refused_by_its_name(order: Order, place: Place, named: str) -> None:
    with pytest.raises(DecisionError, match=f"^{named}"):
        step(order, place)


@pytest.mark.parametrize("gpus", [np.int64(1), np.array([0, 1]), ("a", "b"), (-1, 0), (None, None)])
def test_gpus_that_are_no_ids_are_refused_with_the_contract_and_the_file(gpus: Any) -> None:
    class Odd(Place):
        name = "odd"

        def place(self, view: ClusterView, job: JobView, gpus_: int, offer: Offer, state: State) -> Answer:
            return Answer(gpus, "", state)

    with pytest.raises(DecisionError, match=r"^place odd, .*test_blame\.py:\d+: answered with gpus = .*give a tuple"):
        step(Fifo(), Odd())


def test_an_interleaver_that_picks_nothing_is_refused_by_its_name() -> None:
    class Mute(NoInterleave):
        name = "mute"
        idle_without_gates = False

        def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
            return None  # type: ignore[return-value]

    stack = Stack("mine", Layered(Fifo(), BestFit()), Mute())
    with pytest.raises(DecisionError, match=r"^interleave mute, .*test_blame\.py:\d+: returned None; .* a Pick"):
        Core(stack, ToyWorld(toy_cluster(), [toy_job("a", 2)])).step(0.0, [Submitted(0.0, toy_job("a", 2))])


def test_an_error_in_wefts_own_code_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fifo, "rank", lambda *args: {}["ours"])
    monkeypatch.setattr(blame, "policies", lambda stack: {})
    with pytest.raises(KeyError):
        step(Fifo(), BestFit())


def test_a_decision_that_takes_long_is_told_once_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy goes on as soon as it has been told of, so no time is fixed."""
    monkeypatch.setattr(blame, "SLOW_S", 0.02)
    monkeypatch.setattr(blame, "_LOOK_S", 0.01)
    seen.clear()

    class Told(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    handler = Told()
    logging.getLogger("weft").addHandler(handler)
    try:
        slow = core(Slow(), BestFit())
        with blame.watching(slow):
            slow.step(0.0, [Submitted(0.0, toy_job("a", 2))])
    finally:
        logging.getLogger("weft").removeHandler(handler)
    (said,) = seen
    assert "order slow" in said
    assert "test_blame.py:" in said
