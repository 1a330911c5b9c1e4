import pytest

from testkit.toys import decided, moves, played
from weft.errors import StackError
from weft.model import Start, Stop
from weft.policies.order.time_slice import TimeSlice
from weft.testing import ToyWorld, toy_cluster, toy_job


@pytest.mark.parametrize("text", ["0", "1e-300", "x", "inf"])
def test_a_slice_is_a_second_at_least(text: str) -> None:
    with pytest.raises(StackError, match=r"not known|takes a (whole )?number|twice"):
        TimeSlice.from_text(text)


def test_slices_by_hand() -> None:
    """One server of 4 GPUs, slices of 10 s: a (4), b (2), c (2), d (4), 20 s each.

    10 s: b and c have waited longest and share the server; 20 s: d; 30 s: a, which ends at 40; then b and c, which end
    at 50; d has 10 s left.
    """
    jobs = [toy_job("a", 4, 20), toy_job("b", 2, 20), toy_job("c", 2, 20), toy_job("d", 4, 20)]
    world = ToyWorld(toy_cluster(1, 1, 4), jobs)
    core = played(world, "gandiva:10")
    assert moves(core) == [
        (0.0, Start, "a"),
        (10.0, Stop, "a"), (10.0, Start, "b"), (10.0, Start, "c"),
        (20.0, Stop, "b"), (20.0, Stop, "c"), (20.0, Start, "d"),
        (30.0, Stop, "d"), (30.0, Start, "a"),
        (40.0, Start, "b"), (40.0, Start, "c"),
        (50.0, Start, "d"),
    ]  # fmt: skip
    assert world.now() == 60.0


def test_nobody_is_sliced_when_nobody_waits() -> None:
    core = played(ToyWorld(toy_cluster(1, 1, 4), [toy_job("a", 2, 50), toy_job("b", 2, 50)]), "gandiva:10")
    assert moves(core) == [(0.0, Start, "a"), (0.0, Start, "b")]


def test_migration_by_hand() -> None:
    """Two servers of 4 GPUs, a and b (3 GPUs) on one each: c (2 GPUs) has to take one GPU on
    either. When a is done at 10 s, c moves to its server."""
    jobs = [toy_job("a", 3, 10), toy_job("b", 3, 100), toy_job("c", 2, 30, 1.0, 1.25e9)]
    world = ToyWorld(toy_cluster(1, 2, 4), jobs)
    core = played(world, "gandiva:1000")
    assert moves(core) == [
        (0.0, Start, "a"), (0.0, Start, "b"), (0.0, Start, "c"), (10.0, Stop, "c"), (10.0, Start, "c"),
    ]  # fmt: skip
    gpus = [d.gpus for _, d in decided(core) if isinstance(d, Start) and d.job == "c"]
    assert gpus == [(3, 7), (0, 1)]
    assert world.now() == 100.0


@pytest.mark.parametrize("n", [2, 3, 5])
def test_everybody_has_a_turn_soon(n: int) -> None:
    """Of n equal jobs none waits longer than n - 1 slices for its turn."""
    world = ToyWorld(toy_cluster(1, 1, 4), [toy_job(f"j{i}", 4, 35) for i in range(n)])
    core = played(world, "gandiva:10")
    since = {f"j{i}": 0.0 for i in range(n)}
    for when, what, job in moves(core):
        if what is Stop:
            since[job] = when
        else:
            assert when - since[job] <= (n - 1) * 10.0
    assert world.now() == 35.0 * n


@pytest.mark.parametrize(("slice_s", "restart_s", "runs"), [(60, 59, True), (60, 60, False), (600, 180, True)])
def test_a_slice_that_a_restart_takes_up_is_refused(slice_s: int, restart_s: int, runs: bool) -> None:
    """Where n jobs share GPUs in turn, each would lose all of its slice to its restart."""

    class Slow(ToyWorld):
        @property
        def restart_s(self) -> float:
            return restart_s

    world = Slow(toy_cluster(1, 1, 4), [toy_job(name, 4, 500) for name in "abc"])
    if runs:
        played(world, f"gandiva:{slice_s}")
        return
    with pytest.raises(StackError):
        played(world, f"gandiva:{slice_s}")
