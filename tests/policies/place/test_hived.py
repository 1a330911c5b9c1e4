import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.toys import played, starts
from weft.policies.place.hived import fragments_first
from weft.testing import ToyWorld, toy_cluster, toy_job


@pytest.mark.parametrize(
    ("free", "gpus", "expected"),
    [
        ([4, 3, 2, 1], 4, [(1, 3), (3, 1)]),  # section II of the Titan paper: 3 + 1, not the idle machine
        ([4, 3, 2, 1], 1, [(3, 1)]),
        ([4, 3, 3, 3], 2, [(2, 2)]),  # none is filled: part of one, the fuller rack's
        ([4, 4, 2, 0], 7, [(2, 2), (0, 4), (1, 1)]),
        ([4, 4, 4, 1], 5, [(3, 1), (2, 4)]),  # the rack in use is broken up before the idle one
    ],
)
def test_by_hand(free: list[int], gpus: int, expected: list[tuple[int, int]]) -> None:
    """Two racks of two machines of 4."""
    assert fragments_first(np.array(free), np.full(4, 4), np.array([0, 0, 1, 1]), gpus) == expected


def test_by_hand_over_time() -> None:
    """The same cluster: a (3) breaks up the first machine; b (2) takes its last GPU and one of the next in that rack;
    c (4) the three GPUs left there and breaks up the other rack; at 12 s a has ended and two machines have
    three GPUs free: d (3) goes to the fuller rack."""
    jobs = [toy_job("a", 3, 10), toy_job("b", 2, 30), toy_job("c", 4, 30), toy_job("d", 3, 5, submit_s=12.0)]
    core = played(ToyWorld(toy_cluster(2, 2, 4), jobs), "hived")
    assert starts(core) == [
        (0.0, "a", (0, 1, 2)), (0.0, "b", (3, 4)), (0.0, "c", (5, 6, 7, 8)), (12.0, "d", (0, 1, 2)),
    ]  # fmt: skip


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.data())
def test_idle_machines_last(free: list[int], data: st.DataObject) -> None:
    if not sum(free):
        return
    gpus = data.draw(st.integers(1, sum(free)))
    racks = np.arange(len(free)) // 2
    shares = fragments_first(np.array(free), np.full(len(free), 4), racks, gpus)
    assert sum(count for _, count in shares) == gpus
    assert len({s for s, _ in shares}) == len(shares)
    assert all(0 < count <= free[server] for server, count in shares)
    room = sum(f for f in free if f < 4)
    assert sum(count for s, count in shares if free[s] == 4) == max(0, gpus - room)


def test_at_a_tie_of_racks_the_fullest_group_above_is_used_first() -> None:
    """Four racks of one idle machine and one half full; the last two are in a pod where a third rack is full."""
    free, racks, pods = np.array([2, 4, 2, 4, 0, 0]), np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 1, 1])
    sizes = np.full(6, 4)
    assert fragments_first(free, sizes, racks, 2) == [(0, 2)]
    assert fragments_first(free, sizes, racks, 2, [pods]) == [(2, 2)]
    assert fragments_first(free, sizes, racks, 6, [pods]) == [(2, 2), (0, 2), (3, 2)]
