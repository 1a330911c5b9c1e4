from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from weft.errors import StackError
from weft.network.topologies import Machine, leaf_spine, rails
from weft.policies.place.best_fit import BestFit, closest_free, tightest


def shares(free: list[int], racks: list[int], gpus: int) -> list[tuple[int, int]]:
    return tightest(np.array(free), np.array(racks), gpus)


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ([4, 2, 3, 4], 2, [(1, 2)]),  # the tightest server
        ([4, 2, 3, 4], 3, [(2, 3)]),
        ([4, 4, 4, 4], 4, [(0, 4)]),  # a tie: the first
        ([2, 2, 3, 3], 4, [(0, 2), (1, 2)]),  # two servers either way: the rack with less to spare
        ([4, 1, 3, 3], 6, [(2, 3), (3, 3)]),  # one rack beats the emptier server of another
        ([4, 0, 0, 4], 8, [(0, 4), (3, 4)]),  # no rack has it: both
        ([1, 1, 1, 1], 3, [(0, 1), (1, 1), (2, 1)]),
    ],
)
def test_two_racks_of_two(free: list[int], gpus: int, expected: list[tuple[int, int]]) -> None:
    assert shares(free, [0, 0, 1, 1], gpus) == expected


def test_the_last_server_is_the_tightest_that_does() -> None:
    """10 on servers with 8, 8, 2 and 3 free: 8 and 2, not 8 and 8."""
    assert shares([8, 8, 2, 3], [0, 0, 0, 0], 10) == [(0, 8), (2, 2)]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    free = draw(st.lists(st.integers(0, 8), min_size=1, max_size=9))
    racks = draw(st.lists(st.integers(0, 3), min_size=len(free), max_size=len(free)))
    assume(sum(free) > 0)
    return free, racks, draw(st.integers(1, sum(free)))


def fewest(free: list[int], racks: list[int], gpus: int) -> tuple[int, int]:
    """Fewest servers, and then fewest racks, by trying all sets of servers."""
    for n in range(1, len(free) + 1):
        fitting = [s for s in combinations(range(len(free)), n) if sum(free[i] for i in s) >= gpus]
        if fitting:
            return n, min(len({racks[i] for i in s}) for s in fitting)
    return 0, 0


@given(clusters())
def test_as_few_servers_as_any_choice_and_one_rack_if_one_will_do(case: tuple[list[int], list[int], int]) -> None:
    free, racks, gpus = case
    found = shares(*case)
    servers, least_racks = fewest(*case)
    assert sum(count for _, count in found) == gpus
    assert all(0 < count <= free[server] for server, count in found)
    assert len({server for server, _ in found}) == len(found) == servers
    used = len({racks[server] for server, _ in found})
    assert used >= least_racks
    assert least_racks > 1 or used == 1  # exact for one rack, greedy beyond


def test_several_racks_taken_greedily_are_nearly_always_the_fewest() -> None:
    """Over 300 random clusters: never more than one rack above the fewest, and the fewest in at least 95 %."""
    rng = np.random.default_rng(1)
    above = []
    for _ in range(300):
        free = rng.integers(0, 5, 10)
        racks = np.sort(rng.integers(0, 5, 10))
        gpus = int(rng.integers(5, max(6, free.sum())))
        if gpus > free.sum():
            continue
        found = tightest(free, racks, gpus)
        above.append(len({int(racks[s]) for s, _ in found}) - fewest(free.tolist(), racks.tolist(), gpus)[1])
    assert max(above) <= 1
    assert np.mean(np.array(above) == 0) >= 0.95


def test_parameter() -> None:
    with pytest.raises(StackError, match="best-fit takes no parameter; write best-fit"):
        BestFit.from_text("even")


def test_the_closest_level_that_has_room_comes_first() -> None:
    """Two pods of two rail groups of two NVLink domains of two trays, 4 GPUs each."""
    cluster = rails(4, 4, Machine(4, nvlink_domain=2, nvlink_gbps=900), racks_per_pod=2)
    free = np.array([4, 0, 4, 0, 2, 0, 0, 0, 3, 1, 3, 2, 0, 2, 0, 0])

    def taken(gpus: int) -> list[int]:
        return np.flatnonzero(closest_free(cluster, free, gpus)).tolist()

    assert taken(4) == [0, 2, 4, 8, 9, 10, 11, 13]  # a server has room: all are shown
    assert taken(5) == [10, 11]  # the only domain
    assert taken(8) == [0, 2]  # of two rail groups, the one with fewer servers to take
    assert taken(9) == [8, 9, 10, 11]
    assert taken(10) == [0, 2, 4]  # of two pods, the same
    assert taken(11) == [8, 9, 10, 11, 13]
    assert taken(12) == [0, 2, 4, 8, 9, 10, 11, 13]
    racks = leaf_spine(8, 2, Machine(4))
    assert closest_free(racks, free, 5) is free
