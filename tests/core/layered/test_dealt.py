from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.core.layered.even import Dealt
from weft.core.table import Table
from weft.core.view import View
from weft.errors import StackError
from weft.model.events import Submitted
from weft.model.plan import Placement
from weft.policies.place.base import Place
from weft.policies.place.best_fit import BestFit
from weft.policies.place.fitting import FirstFit, RandomPlace
from weft.policies.place.pattern import bytes_across, kind_of, pattern_of
from weft.stacks import resolve
from weft.testing import check_place, toy_cluster, toy_job
from weft.testing.toy import ToyWorld

CLUSTER = toy_cluster(2, 3, 4)


def placed(place: Place, gpus: int, busy: set[int]) -> Placement | None:
    """What a job of so many GPUs gets beside busy ones."""
    table = Table(CLUSTER)
    for gpu in busy:
        table.gpus.enter(f"other{gpu}", (gpu,), 0.0)
    table.take(Submitted(0.0, toy_job("a", gpus, 1, 1.0, 1e9)))
    view = View(table, ToyWorld(CLUSTER, []), 0)
    return place.place(view, table.jobs["a"], gpus, table.gpus.offer, place.initial_state()).gpus


def across(gpus: Placement, collective: str = "halving-doubling") -> float:
    kind = kind_of(toy_job("a", len(gpus), 1, 1.0, 1e9).profile, collective)
    return bytes_across(pattern_of(kind), CLUSTER.server_of_gpu[list(gpus)].tolist())


@pytest.mark.parametrize("inner", [BestFit, RandomPlace, lambda: FirstFit(shares_gpus=True)])
def test_conforms(inner: Callable[[], Place]) -> None:
    check_place(lambda: Dealt(inner()), range(3))


def test_two_servers_of_four_by_hand() -> None:
    """8 workers, K bytes, halving-doubling. In the order of ranks 0-3 are on one server and 4-7 on the other: the first
    exchange, of K/2, is with rank +- 4, so four pairs send K/2 across, there and back: 4 x 2 x K/2 = 4 K. Dealt, those
    pairs are side by side, and the smallest exchanges cross: K/8, on the way there and back: 4 x 2 x K/8 = K."""
    plain = placed(BestFit(), 8, set())
    dealt = placed(Dealt(BestFit()), 8, set())
    assert plain is not None
    assert dealt is not None
    assert across(plain) == pytest.approx(4.0)
    assert across(dealt) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("free", "plain", "dealt"), [((3, 6, 7), 3.0, 1.0), ((2, 3, 6, 7), 2.0, 1.0), ((2, 3, 5, 6, 7), 1.5, 1.0)]
)
def test_small_jobs_by_hand(free: tuple[int, ...], plain: float, dealt: float) -> None:
    """All free GPUs of two servers, K bytes. Three ranks: 1 hands K to 0 and gets it back, 2 K; 0 and 2 exchange K/2
    twice, K. In plain order 0 is alone, 3 K; dealt, 2 is. Four, 2 + 2: exchanges of K/2 with rank +- 2 cross, 2 x 2 x
    K/2; dealt, those of K/4 with rank +- 1. Five, 2 + 3: 1 hands K to 0, and the other four go on as such. In plain
    order 0 exchanges K/2 with 3 and K/4 with 2 across, each twice, 1.5 K; so it would if the smaller server chose its
    ranks first. Dealt, the larger one has 0, 1 and 3, and 0 with 2 and 3 with 4 exchange K/4 across, K."""
    busy = {gpu for gpu in range(CLUSTER.n_gpus) if gpu not in free}
    for place, expected in ((BestFit(), plain), (Dealt(BestFit()), dealt)):
        gpus = placed(place, len(free), busy)
        assert gpus is not None
        assert across(gpus) == pytest.approx(expected)


@given(st.sets(st.integers(0, CLUSTER.n_gpus - 1), max_size=20), st.integers(1, 16))
@settings(max_examples=examples(60))
def test_the_gpus_are_those_of_the_place_inside_and_no_more_bytes_cross(busy: set[int], gpus: int) -> None:
    for inner in (BestFit(), FirstFit()):
        plain, dealt = placed(inner, gpus, busy), placed(Dealt(inner), gpus, busy)
        if plain is None or dealt is None:
            assert plain is dealt
            continue
        assert sorted(plain) == sorted(dealt)
        assert across(dealt) <= across(plain) + 1e-9
        servers = CLUSTER.server_of_gpu
        assert Counter(servers[list(plain)].tolist()) == Counter(servers[list(dealt)].tolist())


def test_a_ring_that_goes_from_server_to_server_is_left_as_it_is() -> None:
    assert placed(Dealt(BestFit(), "ring"), 8, set()) == placed(BestFit(), 8, set())


def test_its_name_works_in_stacks() -> None:
    assert resolve("elasticflow", place="dealt:elasticflow").planner.name == "fifo/dealt:elasticflow"
    assert resolve("fifo[place=dealt/ring:delay:no-wait]").planner.name == "fifo/dealt/ring:delay:no-wait"
    assert not resolve("fifo", place="even:dealt:best-fit").planner.uneven
    with pytest.raises(StackError, match="there is no collective rong; did you mean ring"):
        resolve("fifo", place="dealt/rong:best-fit")
    with pytest.raises(StackError, match="dealt/:best-fit: write dealt:best-fit, or dealt/COLLECTIVE:best-fit"):
        resolve("fifo", place="dealt/:best-fit")
