import pytest

from testkit.toys import Move, moves, played
from weft.errors import StackError
from weft.model import Start, Stop
from weft.policies.order.las import LeastAttainedService, QueuedLeastAttainedService
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_continuous_by_hand() -> None:
    """4 GPUs, leases of 10 s; a (4 GPUs, 15 s), b (4 GPUs, 12 s), c (2 GPUs, 10 s).

    At 0 all have 0: a. At 10: a 40, b and c 0: b. At 20: b 40, c 0: c, and nobody fits beside it (a, b want 4). At 30 c
    is done; a and b have 40 each: a by submission, until 35. Then b, with 2 s left.
    """
    world = ToyWorld(toy_cluster(1, 1, 4), [toy_job("a", 4, 15), toy_job("b", 4, 12), toy_job("c", 2, 10)])
    core = played(world, "tiresias:10")
    assert moves(core) == [
        (0.0, Start, "a"), (10.0, Stop, "a"), (10.0, Start, "b"), (20.0, Stop, "b"), (20.0, Start, "c"),
        (30.0, Start, "a"), (35.0, Start, "b"),
    ]  # fmt: skip
    assert world.now() == 37.0


def test_queues_by_hand() -> None:
    """One threshold of 40 GPU s. a passes it at 10 s and gives way to b, which waits in
    the first queue since 2 s; b passes it at 20 s: both are in the second queue, and b stays. c comes at 25 s into the
    first queue: b gives way at once. c ends at 28; then a goes before b (submission)."""
    jobs = [toy_job("a", 4, 15), toy_job("b", 4, 20, submit_s=2.0), toy_job("c", 4, 3, submit_s=25.0)]
    world = ToyWorld(toy_cluster(1, 1, 4), jobs)
    core = played(world, "tiresias-queues:40")
    assert moves(core) == [
        (0.0, Start, "a"), (10.0, Stop, "a"), (10.0, Start, "b"), (25.0, Stop, "b"), (25.0, Start, "c"),
        (28.0, Start, "a"), (33.0, Start, "b"),
    ]  # fmt: skip
    assert world.now() == 38.0


def test_parameters() -> None:
    for text in ("1e-300", "0.999"):  # with leases of next to nothing, time would not pass
        with pytest.raises(StackError, match=f"las:{text}: {text}: it takes a number from 1"):
            LeastAttainedService.from_text(text)
    assert LeastAttainedService.from_text("1").lease_s == 1.0
    with pytest.raises(StackError, match="it takes a number more than 0"):
        QueuedLeastAttainedService.from_text("3200/0")


@pytest.mark.parametrize(
    ("stack", "more"),
    [("tiresias:10", []), ("tiresias-racks[order=las:moving@10]", [(10.0, Stop, "b"), (10.0, Start, "b")])],
)
def test_a_job_moves_only_if_the_order_says_so(stack: str, more: list[Move]) -> None:
    """b is spread over two servers and nobody displaces it. When its lease ends, a is gone: under `las:moving@10` b
    moves to one server, else it stays."""
    jobs = [toy_job("a", 3, 5), toy_job("c", 3, 100), toy_job("b", 2, 30)]
    core = played(ToyWorld(toy_cluster(1, 2, 4), jobs), stack)
    assert moves(core) == [(0.0, Start, "a"), (0.0, Start, "c"), (0.0, Start, "b"), *more]


def test_short_jobs_do_not_wait_behind_long_ones() -> None:
    """A short job runs at the next end of a lease, whoever came before."""
    jobs = [toy_job("long", 4, 500), toy_job("longer", 4, 600), toy_job("short", 4, 8, submit_s=203.0)]
    for stack in ("tiresias:10", "tiresias-queues:40"):
        core = played(ToyWorld(toy_cluster(1, 1, 4), jobs), stack)
        start = next(t for t, what, job in moves(core) if job == "short" and what is Start)
        assert 203.0 <= start <= 210.0


@pytest.mark.parametrize("stack", ["tiresias:10", "dally[order=nw-sens:10]", "dally-consolidated[order=nw-sens:10]"])
def test_ends_of_leases_that_nobody_could_take_are_not_waited_for(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same decisions as when every end is a cycle, in fewer of them."""

    def both() -> tuple[list[tuple[float, type, str]], int]:
        jobs = [toy_job(f"j{i}", 1 + (3 * i) % 4, 20 + (7 * i) % 90, submit_s=float((11 * i) % 60)) for i in range(14)]
        core = played(ToyWorld(toy_cluster(1, 2, 4), [*jobs, toy_job("large", 8, 40)]), stack)
        return moves(core), core.cycle

    ahead, fewer = both()
    monkeypatch.setattr("weft.policies.order.leases._AHEAD", 0)
    one_by_one, cycles = both()
    assert ahead == one_by_one
    assert fewer < cycles


def test_ends_that_differ_by_rounding_alone_come_due_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """a and b started a rounding apart; nobody could take a's GPU (large wants 4), b's 3 and the free one would do. The
    lease of b is offered when that of a ends, whether ends are foreseen or not."""

    def stops() -> list[float]:
        start_s = 0.1 + 0.2  # 0.30000000000000004
        jobs = [
            toy_job("a", 1, 100, submit_s=0.3),
            toy_job("b", 3, 100, submit_s=start_s),
            toy_job("c", 3, 9, submit_s=1),
        ]
        core = played(ToyWorld(toy_cluster(1, 1, 4), jobs), "tiresias:10")
        return [t for t, what, _ in moves(core) if what is Stop]

    ahead = stops()
    monkeypatch.setattr("weft.policies.order.leases._AHEAD", 0)
    assert ahead == stops()
    assert ahead == [10.3]
