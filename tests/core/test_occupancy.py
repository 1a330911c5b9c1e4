import pytest

from weft.core.occupancy import Draft, Occupancy
from weft.testing import toy_cluster


def test_draft_leaves_the_original_alone() -> None:
    cluster = toy_cluster()
    gpus = Occupancy(cluster)
    gpus.enter("a", (0, 1), 4e9)
    draft = Draft(cluster, gpus.offer)
    draft.leave((0, 1), 4e9)
    draft.take((8,), 1e9)
    assert draft.offer.n_free == 15
    assert gpus.offer.n_free == 14
    assert gpus.offer.memory[0] == 12e9


def test_offer_is_read_only() -> None:
    offer = Occupancy(toy_cluster()).offer
    for array in (offer.residents, offer.memory, offer.usable, offer.free_per_server):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_room_counts_gpus_that_could_take_a_worker() -> None:
    gpus = Occupancy(toy_cluster())
    gpus.enter("a", (0, 1, 2), 10e9)
    assert gpus.room(4e9, shared=False) == 13
    assert gpus.room(4e9, shared=True) == 16
    assert gpus.room(8e9, shared=True) == 13
    assert gpus.room(17e9, shared=False) == 0
    assert gpus.room(17e9, shared=True) == 0
    gpus.server_down(0)
    assert gpus.room(4e9, shared=True) == 12


def test_memory_does_not_drift() -> None:
    gpus = Occupancy(toy_cluster())
    for i in range(1000):
        gpus.enter("a", (0,), 0.1 + i * 0.3)
        gpus.enter("b", (0,), 0.7)
        gpus.exit("a", (0,))
        assert gpus.memory_left(0) == 16e9 - 0.7
        gpus.exit("b", (0,))
        assert gpus.memory_left(0) == 16e9


def test_names_of_residents_in_order_of_arrival() -> None:
    gpus = Occupancy(toy_cluster())
    gpus.enter("b", (0,), 1.0)
    gpus.enter("a", (0, 1), 1.0)
    assert (gpus.names(0), gpus.names(1), gpus.names(2)) == (("b", "a"), ("a",), ())


def test_a_server_down_twice_is_down_once() -> None:
    gpus = Occupancy(toy_cluster())
    gpus.server_down(1)
    gpus.server_down(1)
    assert gpus.n_free == 12
    gpus.server_up(1)
    gpus.server_up(1)
    assert gpus.n_free == 16
