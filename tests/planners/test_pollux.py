"""pollux: conforms; goodput and its fit; a decision sequence computed by hand (docs/baselines/pollux.md)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.planners.test_themis import Fixed, sequence
from weft.core.cycle import Core
from weft.core.stack import Stack
from weft.errors import StackError
from weft.planners.pollux import Goodput, Pollux, efficiency, fit_throughput, on_nodes
from weft.planners.pollux.genetic import Problem, evolve
from weft.testing import ToyWorld, check_planner, toy_cluster, toy_job


class Quick(Pollux):
    """A shorter search."""

    search = (3, 2)


def test_conforms() -> None:
    check_planner(Quick, range(1))


def test_efficiency_by_hand() -> None:
    """phi = 1000, m0 = 100: a batch of 100 has efficiency 1, one of 1,200 half of it (1100 / 2200)."""
    assert efficiency(1000.0, 100.0, 100.0) == 1.0
    assert efficiency(1000.0, 100.0, 1200.0) == pytest.approx(0.5)


def test_goodput_by_hand() -> None:
    """T_grad = 0.1 + 0.01 x 50 = 0.6 s, T_sync = 0.3 + 0.25 (4 - 2) = 0.8 s; g = 2: sqrt(0.36 + 0.64) = 1 s."""
    model = Goodput((0.1, 0.01), ((0.0, 0.0), (0.3, 0.25)), 2.0, 1000.0, 100.0)
    assert model.iteration_s(4, True, 200.0) == pytest.approx(1.0)
    assert model.goodput(4, True, 200.0) == pytest.approx(200.0 * 1100 / 1200)
    assert model.iteration_s(1, False, 50.0) == pytest.approx(0.6)
    assert model.goodput(0, False, 100.0) == 0.0


@pytest.mark.parametrize("gamma", [1.0, 2.0, 5.0])
def test_fit_finds_the_model_that_made_the_measurements(gamma: float) -> None:
    truth = Goodput((0.05, 0.002), ((0.02, 0.01), (0.1, 0.03)), gamma, 640.0, 64.0)
    measured = {
        (n, several): (64.0 / n, 0.05 + 0.002 * 64.0 / n, truth.iteration_s(n, several, 64.0))
        for n in (1, 2, 4, 8)
        for several in (False, True)
        if n > 1 or not several
    }
    found = fit_throughput(measured, 64.0, 640.0)
    assert found.gamma == gamma
    assert found.iteration_s(6, True, 64.0) == pytest.approx(truth.iteration_s(6, True, 64.0), rel=1e-6)


def test_by_hand() -> None:
    """Two jobs that scale perfectly get 2 of 4 GPUs each. At 20 s a is done; for b, 4 GPUs would be worth 1 x 20/50
    of a fair share against 0.5 as it is, so it stays; at the round of 80 s, 80/110 > 0.5, it grows, and ends at 100."""
    a, b = toy_job("a", 1, 10, 4.0, sizes=(1, 2, 3, 4)), toy_job("b", 1, 60, 4.0, sizes=(1, 2, 3, 4))
    assert sequence("pollux", a, b) == [
        (0.0, "Start", "a", 2), (0.0, "Start", "b", 2), (80.0, "Stop", "b", 0), (80.0, "Start", "b", 4),
        (100.0, "end", "", 0),
    ]  # fmt: skip


def test_two_distributed_jobs_never_share_a_node_and_no_node_is_overfull() -> None:
    rng = np.random.default_rng(1)
    speed = np.zeros((3, 9, 2))
    speed[:, 1:, 0] = np.arange(1, 9) / 3
    speed[:, 2:, 1] = np.arange(2, 9) / 4
    problem = Problem(speed, np.array([4, 4]), np.zeros((3, 2), np.int64), np.ones(3))
    best = evolve(problem, rng)
    assert (best.sum(axis=0) <= 4).all()
    several = (best > 0).sum(axis=1) > 1
    assert ((best[several] > 0).sum(axis=0) <= 1).all()
    assert (best.sum(axis=1) > 0).all()


@pytest.mark.parametrize("text", ["x", "0", "10,0"])
def test_parameters(text: str) -> None:
    with pytest.raises(StackError, match="write pollux:NOISE"):
        Pollux.from_text(text)
    assert Pollux.from_text("5,30").interval_s == 30.0


def test_the_matrix_is_what_is_placed_and_jobs_keep_what_they_have() -> None:
    """Nodes of two GPUs: a has 0 and 3 and is to have one on node 0 and two on node 1, b one on node 0, c on node 2."""
    cluster = toy_cluster(racks=3, servers_per_rack=1, gpus_per_server=2)
    matrix = {"b": np.array([1, 0, 0]), "a": np.array([1, 2, 0]), "c": np.array([0, 0, 2])}
    placed = on_nodes(cluster, range(6), matrix, {"a": (0, 3)})
    assert placed == {"b": (1,), "a": (0, 2, 3), "c": (4, 5)}


def test_by_hand_swaps() -> None:
    """Two racks of two servers; a and b run across the racks, as a search that knows no racks may leave them.

    The round keeps them there: moving would cost (T - 0) / (T + 30) of a speed-up of 1. As candidates it also offers
    each a rack of its own, at 4 x 30 GPU seconds of the 4 x 60 until the next round.
    """
    cluster = toy_cluster(racks=2, servers_per_rack=2, gpus_per_server=1)
    jobs = [toy_job(name, 2, 1000, 1.0) for name in "ab"]
    across = {"a": (0, 2), "b": (1, 3)}
    world = ToyWorld(cluster, jobs)
    core = Core(Stack("s", Fixed(across)), world)
    core.confirm(world.apply(core.step(0.0, world.next_events(0.0))))
    core.view.move_to(60.0, 2)
    found = Pollux().propose(core.view, Pollux().initial_state(), 10)
    assert found[0].plan.placements == across
    shares = {tuple(sorted(c.plan.placements.items())): c.restart_share for c in found}
    assert shares[("a", (0, 1)), ("b", (2, 3))] == pytest.approx(0.5)
