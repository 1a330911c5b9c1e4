import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.network.cost import Shape, shape_of, tier, units
from weft.testing import toy_cluster


@pytest.mark.parametrize(
    ("gpus", "shape", "where", "regular"),
    [
        ((0, 1, 2, 3), ((4,),), 0, (4, 1, 1)),
        ((0, 1, 4, 5), ((2, 2),), 1, (2, 2, 1)),
        ((0, 4, 5), ((2, 1),), 1, (1, 3, 1)),  # not regular: side by side in the rack
        ((0, 8), ((1,), (1,)), 2, (1, 1, 2)),
        ((0, 1, 8, 12), ((2,), (1, 1)), 2, (1, 2, 2)),  # two in each rack
        ((0, 1, 8), ((2,), (1,)), 2, (1, 1, 3)),
        (tuple(range(16)), ((4, 4), (4, 4)), 2, (4, 2, 2)),
    ],
)
def test_by_hand(gpus: tuple[int, ...], shape: Shape, where: int, regular: tuple[int, int, int]) -> None:
    assert shape_of(toy_cluster(), gpus) == shape  # two racks of two servers of four GPUs
    assert (tier(shape), units(shape)) == (where, regular)


@given(st.sets(st.integers(0, 15), min_size=1), st.randoms())
def test_order_of_ranks_and_names_of_servers_do_not_matter(gpus: set[int], random: object) -> None:
    """Swapping the racks, the servers of a rack or the ranks leaves the shape."""
    cluster = toy_cluster()
    placement = tuple(gpus)
    shape = shape_of(cluster, placement)
    assert shape == shape_of(cluster, placement[::-1])
    assert (
        shape
        == shape_of(cluster, tuple(g ^ 8 for g in placement))
        == shape_of(cluster, tuple(g ^ 4 for g in placement))
    )
    assert sum(map(sum, shape)) == len(gpus)
    assert int(np.prod(units(shape))) == len(gpus)
