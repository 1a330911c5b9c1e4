import pytest

from weft.core.cycle import Core
from weft.core.occupancy import Draft, Occupancy
from weft.core.view import stream
from weft.errors import StackError
from weft.model.view import Fact, Spread
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_streams_are_keyed_by_seed_policy_and_decision() -> None:
    def draw(seed: int, policy: str, decision: int) -> list[int]:
        return stream(seed, policy, decision).integers(0, 2**60, 4).tolist()

    assert draw(1, "random", 7) == draw(1, "random", 7)
    others = [draw(2, "random", 7), draw(1, "lwf", 7), draw(1, "random", 8)]
    assert all(draw(1, "random", 7) != other for other in others)


def test_streams_are_the_same_on_every_machine() -> None:
    """Philox keyed by BLAKE2: neither depends on the platform, so these numbers must never change."""
    assert stream(1, "random", 7).bit_generator.random_raw(2).tolist() == [18355517205512947556, 571146411734730792]


def test_progress_of_waiting_and_running_jobs() -> None:
    world = ToyWorld(toy_cluster(), [toy_job("a", iterations=10), toy_job("b", 16, submit_s=1.0)])
    core = Core(resolve("fifo"), world)
    core.confirm(world.apply(core.step(0.0, world.next_events(None))))
    core.step(1.0, world.next_events(None))
    world.next_events(3.5)
    assert core.view.iterations_done("a") == 3
    assert core.view.iterations_left("a") == 7
    assert core.view.iterations_left("b") == 10
    assert core.view.residents(core.view.placements["a"][0]) == ("a",)


def test_asking_for_what_the_world_does_not_know_is_refused() -> None:
    world = ToyWorld(toy_cluster(), [toy_job("a")], facts=frozenset({Fact.MODEL}))
    core = Core(resolve("fifo"), world)
    core.step(0.0, world.next_events(None))
    with pytest.raises(StackError, match="a policy declares such needs in `needs`"):
        core.view.iterations_left("a")


def test_a_limit_counts_that_is_set_before_waiting_jobs_are_read() -> None:
    """An order names its claims first; whoever serves them sets the limit afterwards."""
    world = ToyWorld(toy_cluster(), [toy_job("a", 16, iterations=9), *(toy_job(f"b{i}", 8 + i) for i in range(3))])
    core = Core(resolve("fifo"), world)
    core.step(0.0, world.next_events(None))
    named = core.view.waiting_by(lambda job: 0.0)
    core.view.limit(lambda size, _: size > 8)
    assert [job.id for job in named] == ["b0", "b1"]  # of those that are passed over, the first is shown
    core.view.limit(None)
    assert [job.id for job in core.view.waiting_by(lambda job: 0.0)] == ["b0", "b1", "b2"]
    assert [job.id for job in core.view.waiting_by(lambda job: 0.0, most=9)] == ["b0", "b1"]


def test_spread_of_a_placement() -> None:
    cluster = toy_cluster()
    assert Spread.of(cluster, (0, 1)) == Spread(1, 1)
    assert Spread.of(cluster, (0, 4)) == Spread(2, 1)
    assert Spread.of(cluster, (0, 4, 8, 9)) == Spread(3, 2)


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
