"""hived: fragments first, the largest that the rest of the job fills."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.place.hived import HiveD, fragments_first
from weft.testing import check_place


def test_conforms() -> None:
    check_place(HiveD, range(3))


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
    """docs/baselines/hived.md: two racks of two machines of 4."""
    assert fragments_first(np.array(free), np.full(4, 4), np.array([0, 0, 1, 1]), gpus) == expected


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
