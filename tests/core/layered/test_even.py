from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.core.checker import check
from weft.core.cycle import Core
from weft.core.layered.even import Even
from weft.core.table import Table
from weft.core.view import View
from weft.errors import DecisionError, StackError
from weft.model.events import Submitted
from weft.model.plan import Start
from weft.policies.place.best_fit import BestFit
from weft.policies.place.fitting import FirstFit, RandomPlace
from weft.stacks import resolve
from weft.testing import check_place, toy_cluster, toy_job
from weft.testing.toy import EVERYTHING, ToyWorld

CLUSTER = toy_cluster(2, 3, 4)


def test_conforms() -> None:
    check_place(lambda: Even(BestFit()))


def shares(busy: list[int], gpus: int, place: Even) -> dict[int, int] | None:
    """GPUs on each server that a job of so many gets beside busy ones; None if it is declined."""
    table = Table(CLUSTER)
    for gpu in busy:
        table.gpus.enter(f"other{gpu}", (gpu,), 0.0)
    job = toy_job("a", gpus, 1, 1.0)
    table.take(Submitted(0.0, job))
    view = View(table, ToyWorld(CLUSTER, []), 0)
    answer = place.place(view, table.jobs["a"], gpus, table.gpus.offer, place.initial_state())
    if answer.gpus is None:
        return None
    assert len(set(answer.gpus)) == gpus
    assert not set(answer.gpus) & set(busy)
    return Counter(CLUSTER.server_of_gpu[list(answer.gpus)].tolist())


@given(st.sets(st.integers(0, CLUSTER.n_gpus - 1)), st.integers(1, 24))
@settings(max_examples=examples(80))
def test_it_finds_an_even_placement_whenever_there_is_one(busy: set[int], gpus: int) -> None:
    """On as few servers as the exact search over equal shares finds, for any place that takes what it sees."""
    free = CLUSTER.gpus_per_server - np.bincount(CLUSTER.server_of_gpu[sorted(busy)], minlength=6)
    best = [n for n in range(1, gpus + 1) if gpus % n == 0 and sum(free >= gpus // n) >= n]  # numbers of servers
    for place in (BestFit(), FirstFit()):
        found = shares(sorted(busy), gpus, Even(place))
        if not best:
            assert found is None
        else:
            assert found is not None
            assert len(set(found.values())) == 1
            assert len(found) == best[0]


def test_a_place_that_wants_a_tight_fit_still_sees_how_full_servers_are() -> None:
    """Three GPUs are free on server 1, all four on the others: a job of 2 or of 3 goes to server 1."""
    for gpus in (2, 3):
        assert shares([4], gpus, Even(BestFit())) == {1: gpus}


def test_a_place_that_spreads_at_random_is_held_to_it_or_declines() -> None:
    for gpus in (2, 4, 6):
        found = shares([], gpus, Even(RandomPlace()))
        assert found is None or len(set(found.values())) == 1


def test_its_name_works_in_stacks() -> None:
    stack = resolve("dally", place="even:delay")
    assert stack.name == "dally[place=even:delay]"
    assert not stack.planner.uneven
    assert resolve(stack.name).planner.name == "nw-sens/even:delay"
    with pytest.raises(StackError, match="lwf:1 shares GPUs, and only whole ones"):
        resolve("srsf", place="even:lwf:1")


def test_a_job_has_the_shape_that_it_asks_for_or_waits() -> None:
    """Two servers of four GPUs, one of which has two free: four on one server fit the other; two on each fit both."""
    cluster = toy_cluster(1, 2, 4)
    for each, expected in ((4, [4]), (2, [2, 2]), (1, None)):
        busy, job = toy_job("busy", 2), replace(toy_job("a", 4), per_server=each)
        world = ToyWorld(cluster, [])
        core = Core(resolve("fifo"), world)
        core.step(0.0, [Submitted(0.0, busy)])
        started = [d for d in core.step(0.0, [Submitted(0.0, job)]) if isinstance(d, Start)]
        if expected is None:
            assert not started
            assert core.table.held["a"] == "wants 4 servers with 1 GPUs each; fewer have them free"
        else:
            counts = Counter(cluster.server_of_gpu[list(started[0].gpus)].tolist())
            assert sorted(counts.values()) == expected


def test_another_shape_is_refused_by_the_checker() -> None:
    table = Table(toy_cluster(1, 2, 4))
    table.take(Submitted(0.0, replace(toy_job("a", 4), per_server=2)))
    check([Start("a", (0, 1, 4, 5), "")], table, EVERYTHING, False)
    for gpus in ((0, 1, 2, 3), (0, 1, 2, 4)):
        with pytest.raises(DecisionError, match="must have 2 workers on each of its servers"):
            check([Start("a", gpus, "")], table, EVERYTHING, False)
