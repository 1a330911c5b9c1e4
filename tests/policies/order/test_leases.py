import pytest

from testkit.toys import played
from weft.core.table import Table
from weft.core.view import View
from weft.model import Hold, NodeDown, NodeUp, Start
from weft.model.events import Started, Submitted
from weft.model.view import JobView
from weft.policies.order.leases import OwnLeases
from weft.policies.order.nw_sens import NetworkSensitive
from weft.stacks.registry import make
from weft.testing import ToyWorld, toy_cluster, toy_job

ORDERS = ("nw-sens", "las")


def starts(world: ToyWorld, order: str, place: str = "delay:no-wait") -> list[tuple[float, str]]:
    """When which job starts."""
    core = played(world, "dally", order=order, place=place)
    found = [(t, d) for _, t, d in core.journal.entries if not isinstance(d, Hold)]
    return [(t, d.job) for t, d in found if isinstance(d, Start)]


@pytest.mark.parametrize("order", ORDERS)
def test_by_default_each_job_has_leases_of_an_hour_from_its_own_start(order: str) -> None:
    """a starts at 0 and b at 400 s, on a server each; c and d come at 500 s and have never run. c takes over when a's
    lease ends and d when b's does. Ending together, both leases would end at 3600 s."""
    jobs = [toy_job("a", 4, 9000), toy_job("b", 4, 9000, submit_s=400.0)]
    jobs += [toy_job(name, 4, 9000, submit_s=500.0) for name in "cd"]
    assert starts(ToyWorld(toy_cluster(1, 2, 4), jobs), order)[:4] == [
        (0.0, "a"), (400.0, "b"), (3600.0, "c"), (4000.0, "d"),
    ]  # fmt: skip
    world = ToyWorld(toy_cluster(1, 2, 4), jobs)
    assert starts(world, f"{order}:together")[:4] == [(0.0, "a"), (400.0, "b"), (3600.0, "c"), (3600.0, "d")]


def test_leases_that_end_at_once_are_offered_one_by_one_a_ten_thousandth_of_a_lease_apart() -> None:
    """a and b start at 0, leases of 100 s; `new` has waited since 5 s. At 100 s a's GPU is on offer. If nothing comes
    of that, b's is on offer at 100.01 s."""
    cluster = toy_cluster(1, 1, 2)
    table = Table(cluster)
    for i, name in enumerate("ab"):
        table.take(Submitted(0.0, toy_job(name, 1, 500)))
        table.starting(name, (i,), None)
        table.take(Started(0.0, name))
    table.take(Submitted(5.0, toy_job("new", 1, 50)))
    view, las = View(table, ToyWorld(cluster, []), 0), make("order", "las:100")
    state, found = las.initial_state(), []
    for now in (5.0, 100.0, 100.01):
        view.move_to(now, 1)
        ranking = las.rank(view, state)
        state = ranking.state
        found.append((set(ranking.released), ranking.wake_s))
    assert found[:2] == [(set(), 100.0), ({"a"}, pytest.approx(100.01, abs=1e-9))]
    assert found[2][0] == {"b"}


@pytest.mark.parametrize("order", ORDERS)
def test_of_waiting_jobs_that_tie_the_one_whose_last_lease_began_longest_ago_goes_first(order: str) -> None:
    """One server of 6 GPUs, leases of 10 s. x (2 GPUs) starts at 0, y (4) at 4. p (4) comes at 12 and takes over at 14
    from y, q (2) comes at 15 and takes over at 20 from x. p is done at 22. x and y then have 1 by Nw_sens and 40 GPU
    seconds each: y goes first, whose last lease ran from 4 to 14 (that of x from 10 to 20), though x was submitted
    first and has waited since it came for less."""
    jobs = [toy_job("x", 2, 500), toy_job("y", 4, 500, submit_s=4.0)]
    jobs += [toy_job("p", 4, 8, submit_s=12.0), toy_job("q", 2, 500, submit_s=15.0)]
    found = starts(ToyWorld(toy_cluster(1, 1, 6), jobs), f"{order}:10")
    assert found[:5] == [(0.0, "x"), (4.0, "y"), (14.0, "p"), (20.0, "q"), (22.0, "y")]


@pytest.mark.parametrize("order", ORDERS)
def test_a_job_that_started_again_has_a_lease_from_that_start(order: str) -> None:
    """a starts at 0 on the first of two servers, `short` has the second for a second, and `wide` wants both from 5 s
    on: a's lease is expected to end at 10 s. The first server fails at 6 s, so that a starts again on the second, and
    is back at 7 s. Now a's lease ends at 16 s."""
    jobs = [toy_job("a", 4, 500), toy_job("short", 4, 1, submit_s=1.0), toy_job("wide", 8, 5, submit_s=5.0)]
    world = ToyWorld(toy_cluster(1, 2, 4), jobs, script=[NodeDown(6.0, 0), NodeUp(7.0, 0)])
    assert starts(world, f"{order}:10")[:4] == [(0.0, "a"), (1.0, "short"), (6.0, "a"), (16.0, "wide")]


def test_differences_of_nw_sens_below_a_thousandth_are_ties() -> None:
    """Compute time of 1 s for each iteration, over the seconds on GPUs."""

    def key(done: int, run_s: float) -> float:
        job = JobView(toy_job("a", 1, 10_000), saved_iterations=done, run_s=run_s)
        return NetworkSensitive().key_of_waiting(job)[0]

    assert key(3599, 3600.0) == key(3600, 3600.0) == 1.0
    assert key(3596, 3600.0) == 0.999
    assert key(1800, 3600.0) == 0.5
    assert key(0, 3600.0) == 0.0


@pytest.mark.parametrize("order", ORDERS)
def test_the_lease_is_an_hour_unless_said_otherwise(order: str) -> None:
    made = make("order", order)
    assert isinstance(made, OwnLeases)
    assert (made.lease_s, made.together) == (3600.0, False)
    assert make("order", f"{order}:7200").lease_s == 7200.0
