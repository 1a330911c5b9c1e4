"""pollux: conforms; goodput and its fit; a decision sequence computed by hand (docs/baselines/pollux.md)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from tests.policies.planners.test_themis import Fixed, sequence
from weft.core.cycle import Core
from weft.core.stack import Stack
from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.profile import Phase, Profile
from weft.model.view import Spread
from weft.policies.planners.pollux import Goodput, Pollux, efficiency, fit_throughput, on_nodes
from weft.policies.planners.pollux.genetic import Problem, _best_step, evolve, repaired
from weft.sim import NetworkSpec, as_run, simulate
from weft.stacks import resolve
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


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 10**6))
def test_the_best_step_is_the_best_of_all_steps(seed: int) -> None:
    """Against every GPU that could change hands, valued by the fitness of the whole allocation."""
    rng = np.random.default_rng(seed)
    jobs, nodes, most = int(rng.integers(1, 5)), int(rng.integers(1, 5)), 5
    speedup = rng.random((jobs, most + 1, 2)) * (rng.random((jobs, most + 1, 1)) < 0.8)
    speedup[:, 0] = 0.0
    capacity = rng.integers(0, 4, nodes)
    current = rng.integers(0, 3, (jobs, nodes))
    problem = Problem(speedup, capacity, current, rng.random(jobs))
    person = repaired(problem, rng.integers(0, 3, (jobs, nodes)), rng)
    apart = capacity.max() <= 1 or _spread_apart(person)
    assert apart
    best, fittest = None, float(problem.fitness(person[None])[0]) * (1 + 1e-9)
    for node in range(nodes):
        spare = [-1] if person[:, node].sum() < capacity[node] else []
        for giver in [*np.flatnonzero(person[:, node]), *spare]:
            for taker in range(-1, jobs):
                child = person.copy()
                child[giver, node] -= giver >= 0
                child[taker, node] += taker >= 0
                sizes = child.sum(axis=1)
                if taker == giver or sizes.max() > most or not problem.able[np.arange(jobs), sizes].all():
                    continue
                value = float(problem.fitness(child[None])[0])
                if _spread_apart(child) and value > fittest * (1 + 1e-12):
                    best, fittest = (node, giver, taker), value
    found = _best_step(problem, person)
    if best is None:
        assert found is None
    else:
        assert found is not None
        child = person.copy()
        child[found[1], found[0]] -= found[1] >= 0
        child[found[2], found[0]] += found[2] >= 0
        assert _spread_apart(child)
        assert float(problem.fitness(child[None])[0]) == pytest.approx(fittest, rel=1e-9)


def _spread_apart(person: np.ndarray) -> bool:
    several = (person > 0).sum(axis=1) > 1
    return bool(((person[several] > 0).sum(axis=0) <= 1).all())


@pytest.mark.parametrize("text", ["x", "0", "10,0", "10,60,5", "10,0.01", "fixed,fixed"])
def test_parameters(text: str) -> None:
    with pytest.raises(StackError, match=r"^pollux:.*(not known|takes a number|twice)"):
        Pollux.from_text(text)
    assert Pollux.from_text("5,30").interval_s == 30.0
    assert [Pollux.from_text(t).name for t in ("fixed", "10,60,fixed", "5,fixed", "10")] == [
        "pollux:fixed", "pollux:fixed", "pollux:5,60,fixed", "pollux",
    ]  # fmt: skip


def _with_batches(iterations: int, cluster: Cluster) -> Job:
    """A job that asked for one GPU and 10 samples; a sample takes 0.1 s, and two GPUs send for 0.5 s."""
    size = 0.5 * float(cluster.topology.capacity.min())

    def at(workers: int, batch: int) -> Profile:
        phases = [Phase(0.1 * batch), Phase(bytes=size)][:workers]
        return replace(Profile.from_phases("a", phases, workers), batch=batch)

    batches = {n: tuple(at(n, batch) for batch in (10, 20, 30)) for n in (1, 2)}
    return Job("a", 0.0, 1, iterations, {1: at(1, 10), 2: at(2, 5)}, "a", 1, 2, batches=batches)


def test_the_batch_of_the_largest_goodput_by_hand() -> None:
    """phi = 100. One GPU: 10 samples in 1 s are worth 1 iteration, 20 in 2 s 2 x 110/120, 30 in 3 s less: 10. Two:
    20 in 1.5 s 1.22 iterations a second, 40 in 2.5 s 4 x 110/140 / 2.5 = 1.26, 60 in 3.5 s 6 x 110/160 / 3.5 = 1.18."""
    cluster = toy_cluster(racks=1, servers_per_rack=2, gpus_per_server=1)
    job = _with_batches(320, cluster)
    found = as_run([job], resolve("pollux"), cluster, NetworkSpec())[0]
    assert [(found.profiles[n].batch, found.profiles[n].worth) for n in (1, 2)] == [
        (10, 1.0), (20, pytest.approx(4 * 110 / 140)),
    ]  # fmt: skip
    # A noisier gradient, phi = 1000, makes larger batches worth more: 6 x 1010/1060 / 3.5 > 4 x 1010/1040 / 2.5.
    assert as_run([job], resolve("pollux:100"), cluster, NetworkSpec())[0].profiles[2].batch == 30
    assert as_run([job], resolve("pollux:fixed"), cluster, NetworkSpec())[0].profiles == job.profiles
    assert as_run([job], resolve("themis"), cluster, NetworkSpec()) == [job]


def test_no_batch_is_smaller_than_asked_for_while_there_are_gpus_for_it() -> None:
    """As above, but the job asked for 20 samples. On one GPU batches of 10, 20 and 30 samples take 1, 2 and 3 s.

    phi = 200: 10 samples would be worth 0.5 x 220/210 in 1 s, 20 are worth 1 in 2 s, which is less a second; but 10 are
    fewer than asked for. Where no batch has as many samples as the job asked for, 40, it takes the largest.
    """
    cluster = toy_cluster(racks=1, servers_per_rack=2, gpus_per_server=1)
    job = _with_batches(320, cluster)
    ten, twenty, thirty = job.batches[1]
    for asked, batch in ((twenty, 20), (replace(twenty, batch=40), 30)):
        found = as_run(
            [replace(job, profiles={1: asked, 2: job.profiles[2]})], resolve("pollux"), cluster, NetworkSpec()
        )
        assert found[0].profiles[1].batch == batch
    assert (ten.batch, thirty.batch) == (10, 30)


def test_by_hand_batches() -> None:
    """An iteration counts 22/7 on two GPUs and 1 on one. At 100 s a has done 40 x 22/7; b, with 50 of 1 s, comes. One
    GPU each: a 1 x 100/130, b 1. At 270 s (270 - 30)/300 = 0.80 > 0.7955: a takes both, for 8 iterations of 2.5 s."""
    cluster = toy_cluster(racks=1, servers_per_rack=2, gpus_per_server=1)
    jobs = [_with_batches(320, cluster), toy_job("b", 1, 50, 1.0, submit_s=100.0)]
    result = simulate(cluster, jobs, resolve("pollux"))
    spans = [(job, start, end, len(gpus)) for job, start, end, gpus, _ in result.spans.sort("start_s").iter_rows()]
    assert sorted(spans) == [
        ("a", 0.0, 100.0, 2), ("a", 100.0, pytest.approx(270.0), 1),
        ("a", pytest.approx(270.0), pytest.approx(290.0), 2), ("b", 100.0, pytest.approx(150.0), 1),
    ]  # fmt: skip
    assert result.jobs["iterations"].to_list() == [40 + 170 + 8, 50]


def test_the_matrix_is_what_is_placed_and_jobs_keep_what_they_have() -> None:
    """Nodes of two GPUs: a has 0 and 3 and is to have one on node 0 and two on node 1, b one on node 0, c on node 2."""
    cluster = toy_cluster(racks=3, servers_per_rack=1, gpus_per_server=2)
    matrix = {"b": np.array([1, 0, 0]), "a": np.array([1, 2, 0]), "c": np.array([0, 0, 2])}
    placed = on_nodes(cluster, range(6), matrix, {"a": (0, 3)})
    assert placed == {"b": (1,), "a": (0, 2, 3), "c": (4, 5)}


def test_by_hand_swaps() -> None:
    """Two racks of two servers; a and b run across the racks, as a search that knows no racks may leave them.

    The round keeps them there: moving would cost (T - 0) / (T + 30) of a speed-up of 1. As candidates it also offers
    each a rack of its own, at 4 x 30 GPU seconds of the 4 x 60 until the next round. Where 8 stays of jobs have lasted
    300 s in all, 60 + 300 s over 1 + 8 stays are 40 s: the restarts cost 4 x 30 of 4 x 40.
    """
    cluster = toy_cluster(racks=2, servers_per_rack=2, gpus_per_server=1)
    jobs = [toy_job(name, 2, 1000, 1.0) for name in "ab"]
    across = {"a": (0, 2), "b": (1, 3)}
    world = ToyWorld(cluster, jobs)
    core = Core(Stack("s", Fixed(across)), world)
    core.confirm(world.apply(core.step(0.0, world.next_events(0.0))))
    core.view.move_to(60.0, 2)
    for seen, share in (({}, 0.5), ({"stays": [60.0, 300.0, 8]}, 0.75)):
        found = Pollux().propose(core.view, Pollux().initial_state() | seen, 10)
        assert found[0].plan.placements == across
        shares = {tuple(sorted(c.plan.placements.items())): c.restart_share for c in found}
        assert shares[("a", (0, 1)), ("b", (2, 3))] == pytest.approx(share)


def test_no_candidate_has_a_job_on_several_nodes_that_was_on_one() -> None:
    """Four servers of two GPUs; a, b and c have one each. Their goodput over several would be less."""
    cluster = toy_cluster(racks=2, servers_per_rack=2, gpus_per_server=2)
    there = {"a": (0, 1), "b": (2, 3), "c": (4, 5)}
    world = ToyWorld(cluster, [toy_job(name, 2, 1000, 1.0) for name in there])
    core = Core(Stack("s", Fixed(there)), world)
    core.confirm(world.apply(core.step(0.0, world.next_events(0.0))))
    core.view.move_to(60.0, 2)
    found = Pollux().propose(core.view, Pollux().initial_state(), 10)
    assert found[0].plan.placements == there
    assert len(found) > 3
    assert all(Spread.of(cluster, gpus).servers == 1 for c in found for gpus in c.plan.placements.values())
