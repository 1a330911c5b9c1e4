import random

import numpy as np
import pytest

import weft
from weft.sim.compiled import state
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import compute_node, make_program, transfer_node


@pytest.mark.parametrize("seed", range(12))
def test_what_is_parked_has_no_events(seed: int) -> None:
    """Jobs come in twos and threes, at once, to links whose paces are computed: whatever is parked waits for one event,
    its component's."""
    rng = random.Random(seed)
    engine = Engine(
        EngineSpec(np.full(3, 1.0), np.ones(3, np.bool_), exact=False, window=2.0, budget=rng.choice([0, 40, 2000]))
    )
    alive: set[int] = set()
    for uid in range(40):
        links = [(k, 1) for k in sorted(rng.sample(range(3), 2))]
        nodes = [compute_node(0, rng.uniform(0.1, 1.0)), transfer_node(1, rng.uniform(0.2, 1.0), links, (0,))]
        alive.add(engine.attach(uid, make_program(nodes, engine.spec.capacity), rng.randint(3, 60)))
        if rng.random() < 0.4:
            for row in engine.run(engine.now + rng.uniform(0.0, 5.0)):
                engine.detach(row)
                alive.discard(row)
        if alive and rng.random() < 0.2:
            engine.detach(row := min(alive))
            alive.discard(row)
        for row in alive:
            job = engine.arrays.jobs[row]
            if job["state"] == state.PARKED:
                nodes_of = np.arange(job["node0"], job["node1"])
                assert (engine.arrays.where[2 * nodes_of] < 0).all()
    while done := engine.run():
        for row in done:
            engine.detach(row)
            alive.discard(row)
    assert not alive


def two_out_of_step(exact: bool) -> tuple[dict[int, float], Engine]:
    """Two jobs whose periods have no common multiple, on one link, and when they end."""
    engine = Engine(EngineSpec(np.ones(1), np.ones(1, np.bool_), exact=exact, window=8.0))
    for i, seconds in enumerate((1.0, 2.0**0.5)):
        nodes = [compute_node(0, seconds), transfer_node(1, 0.3 + 0.1 * i, [(0, 1)], (0,))]
        engine.attach(i, make_program(nodes, engine.spec.capacity), 300)
    ends = {}
    while done := engine.run():
        ends.update({row: engine.detach(row).finish_s for row in done})
    assert engine.exact == exact
    return ends, engine


def test_a_measured_pace_leads_to_the_end_of_the_plain_run() -> None:
    """A window of a few iterations, carried on to the end of a job, misses it by a few per cent at most."""
    assert two_out_of_step(False)[0] == pytest.approx(two_out_of_step(True)[0], rel=0.03)


def test_iterations_at_a_measured_pace_carry_their_bytes() -> None:
    """bytes = 300 x (0.3 + 0.4); the link is busy at least as long as these take, and no longer than the jobs run."""
    ends, engine = two_out_of_step(False)
    assert engine.estimated[0] > 0.5
    (link,) = engine.links()
    assert link["bytes"] == pytest.approx(300 * 0.7, rel=1e-9)
    assert link["busy"] >= 300 * 0.7 * (1 - 1e-9)
    assert link["busy"] <= max(ends.values()) * (1 + 1e-9)


def test_records_count_every_iteration_once() -> None:
    """The iteration times of a window stand for those that are not simulated: of each job 300 in all."""
    _, engine = two_out_of_step(False)
    assert engine.estimated[0] > 0.5
    records = engine.records()
    for uid in range(2):
        assert records["count"][records["uid"] == uid].sum() == pytest.approx(300, rel=1e-9)


def test_a_job_that_repeats_and_is_met_is_an_estimate_from_then_on() -> None:
    """Where in its iteration a skipped job is when another one comes is lost: such a run does not call itself exact."""
    engine = Engine(EngineSpec(np.ones(1), np.ones(1, np.bool_), exact=False))
    first = make_program([compute_node(0, 1.0), transfer_node(1, 0.25, [(0, 1)], (0,))], engine.spec.capacity)
    engine.attach(0, first, 1000)
    assert engine.run(100.5) == []
    assert engine.exact
    engine.attach(1, first, 4)
    assert not engine.exact


@pytest.mark.parametrize("budget", [0, 1_200_000])
def test_short_iterations_late_in_a_run_come_to_an_end(budget: int) -> None:
    """At 1e8 s the clock goes on in steps of 1.5e-8 s, which is more than the millionth part of an iteration."""
    engine = Engine(EngineSpec(np.ones(1), np.ones(1, np.bool_), exact=False, budget=budget, window=16.0))
    engine.run(1e8)
    for uid in range(4):
        nodes = [compute_node(0, 1e-3 * (1.0 + 0.3 * uid)), transfer_node(1, 2e-4, [(0, 1)], (0,))]
        engine.attach(uid, make_program(nodes, engine.spec.capacity), 1000 + 300 * uid)
        assert engine.run(engine.now + 0.1) == []
    ended = 0
    while done := engine.run():
        ended += sum(engine.detach(row).iterations for row in done)
    assert ended == 1000 + 1300 + 1600 + 1900
    assert engine.links()["bytes"] == pytest.approx([ended * 2e-4], rel=1e-9)


def test_iterations_at_a_computed_pace_carry_their_bytes() -> None:
    """Jobs come one after another, so that paces are computed; each link carries iterations x bytes of those on it."""
    rng = random.Random(1)
    engine = Engine(EngineSpec(np.full(3, 1.0), np.ones(3, np.bool_), exact=False, budget=0))
    due = np.zeros(3)
    for uid in range(40):
        links, size, iterations = rng.sample(range(3), 2), rng.uniform(0.2, 1.0), rng.randint(100, 2000)
        nodes = [compute_node(0, rng.uniform(0.1, 1.0)), transfer_node(1, size, [(k, 1) for k in sorted(links)], (0,))]
        engine.attach(uid, make_program(nodes, engine.spec.capacity), iterations)
        due[links] += size * iterations
        for row in engine.run(engine.now + rng.uniform(0.0, 50.0)):
            engine.detach(row)
    while done := engine.run():
        for row in done:
            engine.detach(row)
    assert engine.estimated[1] > 0.1
    assert engine.links()["bytes"] == pytest.approx(due, rel=1e-9)
    assert (due <= engine.links()["busy"] * (1 + 1e-9)).all()


def crowd(seed: int, exact: bool, budget: int = 1_200_000) -> tuple[np.ndarray, int]:
    """Forty jobs over three of twelve links each come every half minute: what each takes, and the tasks simulated."""
    rng = random.Random(seed)
    engine = Engine(EngineSpec(np.ones(12), np.ones(12, np.bool_), exact=exact, budget=budget))
    took, there = np.zeros(40), dict[int, int]()

    def advance(until: float) -> None:
        while done := engine.run(until):
            for row in done:
                uid = there.pop(row)
                took[uid] = engine.detach(row).finish_s - 30.0 * uid

    for uid in range(40):
        advance(30.0 * uid)
        links = [(k, 1) for k in sorted(rng.sample(range(12), 3))]
        nodes = [compute_node(0, rng.uniform(0.1, 0.3)), transfer_node(1, rng.uniform(0.02, 0.15), links, (0,))]
        there[engine.attach(uid, make_program(nodes, engine.spec.capacity), rng.randint(2000, 6000))] = uid
    advance(np.inf)
    return took, engine.events


@pytest.mark.parametrize("seed", range(2))
def test_windows_correct_computed_paces_where_jobs_come_and_go(seed: int) -> None:
    """A third of the tasks simulated leaves a quarter at most of the error that computed paces have on the mean; where
    the budget is enough for all, a five-hundredth of the mean itself."""
    exact, tasks = crowd(seed, True)
    computed, part, whole = (crowd(seed, False, budget) for budget in (0, 100_000, 1_200_000))
    off = [abs(float(found.mean() / exact.mean()) - 1.0) for found, _ in (computed, part, whole)]
    assert computed[1] < 0.01 * tasks
    assert part[1] < 0.34 * tasks
    assert off[1] < 0.25 * off[0]
    assert off[2] < 0.002


def test_a_short_window_counts_parts_of_iterations() -> None:
    """Eight iterations of one job, over many pairs: by its clock the other one's are cut off anywhere, which whole
    iterations would miss by up to an eighth. From the start of one to that of another they are right on average."""
    rng = random.Random(0)
    off = []
    for _ in range(30):
        done: list[int] = []
        sizes = [(rng.uniform(1.0, 2.0), rng.uniform(0.1, 0.5)) for _ in range(2)]
        for exact in (True, False):
            engine = Engine(EngineSpec(np.ones(1), np.ones(1, np.bool_), exact=exact, window=8.0))
            for uid, (compute_s, send_s) in enumerate(sizes):
                nodes = [compute_node(0, compute_s), transfer_node(1, send_s, [(0, 1)], (0,))]
                row = engine.attach(uid, make_program(nodes, engine.spec.capacity), 10**6)
            assert engine.run(1000.0) == []
            done.append(engine.iterations_done(row))
        off.append(done[1] / done[0] - 1.0)
    assert abs(float(np.mean(off))) < 0.005
    assert float(np.std(off)) < 0.03


def test_effort_buys_windows() -> None:
    """Without any, all that is not simulated goes at computed paces; the more of it, the less does, and the closer."""
    jobs = {"source": "batch", "jobs": 24, "models": ["vgg16", "resnet50"], "iterations": [300, 900]}
    scenario = {
        "cluster": {"topology": "leaf-spine", "racks": 6, "servers_per_rack": 4, "gpus_per_server": 4},
        "workload": {**jobs, "gpus": {"4": 0.5, "8": 0.5}},
        "stack": {"name": "fifo"},
    }

    def run(**circumstances: float) -> weft.RunResult:
        return weft.simulate({**scenario, "run": circumstances}, place="random", seed=1)

    exact, some, none = run(), run(exact=False, effort=0.02), run(exact=False, effort=0.0)
    assert none.events < some.events < exact.events
    wrong = [float((one.jobs["jct_s"] / exact.jobs["jct_s"] - 1.0).abs().to_numpy().mean()) for one in (some, none)]
    assert 0.0 < wrong[0] < wrong[1]
