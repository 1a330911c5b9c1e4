"""themis: conforms; the auction; decision sequences computed by hand (docs/baselines/themis.md)."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.cycle import Core
from weft.core.loop import run
from weft.errors import StackError
from weft.model import Start, Stop, Submitted
from weft.model.job import Job
from weft.model.topologies import cassini
from weft.model.view import Spread
from weft.planners.themis import Themis, auction, believed_s, payment, proportional_fair
from weft.sim import NetworkSpec, RunSpec
from weft.sim.world import SimWorld
from weft.stacks import resolve
from weft.testing import ToyWorld, check_planner, toy_cluster, toy_job
from weft.workload import zoo

FOUR = {"racks": 1, "servers_per_rack": 4, "gpus_per_server": 1}


def test_conforms() -> None:
    check_planner(lambda: Themis(0.5, 60.0), range(2))


def sequence(stack: str, *jobs: object) -> list[tuple[float, str, str, int]]:
    """(time, action, job, GPUs) of every start and stop."""
    world = ToyWorld(toy_cluster(**FOUR), jobs)  # type: ignore[arg-type]
    core = Core(resolve(stack), world)
    run(core, world)
    found = []
    for _, time_s, decision in core.journal.entries:  # type: ignore[attr-defined]
        if isinstance(decision, Start | Stop):
            gpus = len(decision.gpus) if isinstance(decision, Start) else 0
            found.append((time_s, type(decision).__name__, decision.job, gpus))
    return [*found, (world.log[-1].time_s, "end", "", 0)]


A = toy_job("a", 1, 10, 4.0, sizes=(1, 2, 4))  # an iteration is 4 / n seconds
B = toy_job("b", 1, 20, 4.0, sizes=(1, 2, 4))


def test_by_hand_everybody_bids() -> None:
    """F = 0. N = 2, shares of 2: both value n GPUs at n/2, so (2, 2); payments halve both, leftovers restore them.
    At 20 s a is done; b, 10 iterations to go, grows to 4 GPUs and ends at 30 s."""
    assert sequence("themis:0", A, B) == [
        (0.0, "Start", "a", 2), (0.0, "Start", "b", 2), (20.0, "Stop", "b", 0), (20.0, "Start", "b", 4),
        (30.0, "end", "", 0),
    ]  # fmt: skip


def test_by_hand_the_worst_fifth_bids() -> None:
    """F = 0.8: one bidder, a (rho without GPUs 610/20 against 620/40), takes all four; b follows at 10 s."""
    assert sequence("themis", A, B) == [(0.0, "Start", "a", 4), (10.0, "Start", "b", 4), (30.0, "end", "", 0)]


def test_by_hand_leases_end() -> None:
    """A lease of 5 s: at 5 s a (rho (5 + 5) / 20 with 4 GPUs) is better off than b (rho (5 + 5 + 20) / 40 waiting)."""
    assert sequence("themis:0.8,5", A, B)[:4] == [
        (0.0, "Start", "a", 4), (5.0, "Stop", "a", 0), (5.0, "Start", "b", 4), (10.0, "Stop", "b", 0),
    ]  # fmt: skip


def test_rho_by_hand() -> None:
    world = ToyWorld(toy_cluster(**FOUR), [])
    core = Core(resolve("themis"), world)
    core.step(0.0, [Submitted(0.0, A), Submitted(0.0, B)])
    core.view.move_to(8.0, 2)
    themis = Themis()
    b = core.view.job("b")
    # alone on two GPUs b needs 20 x 2 = 40 s; from 8 s on with 1 GPU 80 s more, waiting for a lease 600 + 20 s
    assert themis.rho(core.view, b, 1) == pytest.approx((8 + 80) / 40)
    assert themis.rho(core.view, b, 4) == pytest.approx((8 + 20) / 40)
    assert themis.rho(core.view, b, 0) == pytest.approx((8 + 600 + 20) / 40)


def test_more_workers_are_believed_to_share_the_work_equally() -> None:
    """serial time / n x S: S knows racks, not numbers, though an all-reduce takes ever longer."""
    jobs = [Job("a", 0.0, 8, 100, {n: zoo.profile("vgg16", n, batch=64 // n, gpu="A100") for n in (1, 2, 8, 16)})]
    world = SimWorld(cassini(), jobs, NetworkSpec(), RunSpec())
    core = Core(resolve("themis"), world)
    core.step(0.0, [Submitted(0.0, jobs[0])])
    serial_s = 8 * jobs[0].profiles[8].compute_s
    assert believed_s(core.view, jobs[0], 1) == pytest.approx(serial_s)
    slow = core.view.estimate(jobs[0], 8, Spread(8, 2)).iteration_s / jobs[0].profiles[8].compute_s
    assert slow > 1.5
    for n in (8, 16):
        assert believed_s(core.view, jobs[0], n) == pytest.approx(slow * serial_s / n)
    near = core.view.estimate(jobs[0], 2, Spread(2, 1)).iteration_s / jobs[0].profiles[2].compute_s
    assert believed_s(core.view, jobs[0], 2) == pytest.approx(near * serial_s / 2)


bids_of = st.dictionaries(
    st.sampled_from("abcd"),
    st.lists(st.floats(0.01, 10), min_size=4, max_size=4).map(lambda v: dict(enumerate(sorted(v)))),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(bids_of, st.integers(0, 8))
def test_the_product_of_valuations_is_the_largest(bids: dict[str, dict[int, float]], gpus: int) -> None:
    shares = proportional_fair(bids, gpus)
    assert sum(shares.values()) <= gpus
    best = max(
        math.prod(bids[name][n] for name, n in zip(bids, trial, strict=True))
        for trial in itertools.product(range(4), repeat=len(bids))
        if sum(trial) <= gpus
    )
    assert math.prod(bids[name][n] for name, n in shares.items()) == pytest.approx(best, rel=1e-9)
    for name in bids:  # Themis section 5.1: nobody pays more than its share, nobody is paid
        assert 0.0 < payment(bids, gpus, shares, name) <= 1.0
    kept = auction(bids, gpus, dict.fromkeys(bids, (1, 2, 3)))
    assert all(kept[name] <= max(shares[name], 0) or shares[name] == 0 for name in bids)


def test_candidates_have_equal_merit() -> None:
    """Ten ways to place four jobs of three workers on the testbed: same sizes, same spreads, other servers."""
    from weft.model.topologies.clos import cassini
    from weft.model.view import Spread

    cluster = cassini()
    core = Core(resolve("themis"), ToyWorld(cluster, []))
    for i in range(4):
        core.table.take(Submitted(0.0, toy_job(f"j{i}", 3, 100, 1.0, 1e8)))
    core.view.move_to(0.0, 1)
    found = Themis().propose(core.view, Themis().initial_state(), 10)
    assert len(found) == 10
    shapes = [{job: (len(g), Spread.of(cluster, g)) for job, g in c.plan.placements.items()} for c in found]
    assert all(shape == shapes[0] for shape in shapes)
    assert len({tuple(sorted(c.plan.placements.items())) for c in found}) == 10


@pytest.mark.parametrize("text", ["x", "1", "0.5,0", "-1"])
def test_parameters(text: str) -> None:
    with pytest.raises(StackError, match="write themis:F"):
        Themis.from_text(text)
    assert Themis.from_text("0.5,60").lease_s == 60.0
