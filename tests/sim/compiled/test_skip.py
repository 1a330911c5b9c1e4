"""Skipping: what repeats is not simulated, and nobody can tell from the result.

Which runs repeat? A job alone; jobs whose periods are commensurate and that meet two at a time; jobs that gates keep
apart. Three jobs on a link, or periods without a common multiple, amplify rounding at every meeting: such runs are
chaotic, two plain runs of them agree only until the first late digit matters, and `exact = false` is there for them.
"""

import math
import random
from typing import Any

import numpy as np
import pytest

from testkit.draws import thorough
from tests.sim.cases import FEATURES, draw_case, draw_features, plain
from tests.sim.driver import differences, lone_links, run_case, well_posed
from weft.model.plan import Gate
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import compute_node, make_program, transfer_node
from weft.sim.replay import run_replay

RATIOS = [(1, 1), (1, 2), (2, 3)]


def test_skipped_periods_leave_no_trace() -> None:
    """Finish times, bytes, waits, GPU seconds, missed openings and iteration times are those of the plain run."""
    for seed in range(thorough(60)):
        rng = random.Random(seed)
        case = draw_case(rng, draw_features(rng, skip="exact"), iterations=40)
        whole = run_case(plain(case))
        differ = differences(run_case(case), whole, 1e-9, lone_links(case))
        assert not differ or not well_posed(case, whole), (seed, differ)


@pytest.mark.parametrize(("seed", "graph", "gpus"), [(68, "overlap", "shared"), (122, "chain", "own")])
def test_tasks_that_do_the_same_for_longer_do_not_repeat(seed: int, graph: str, gpus: str) -> None:
    """Found by search: at two ends of an iteration every job is as old as at the other and does the same, but a
    transfer has more left to send; whoever compares no further takes this for a repetition."""
    rng = random.Random(seed)
    always = {"skip": "exact", "stops": "none", "gate": "none", "latency": "none", "chance": "none", "demand": "none"}
    always["rule"] = always["weights"] = "none"
    chosen = {**always, "graph": graph, "sharing": "max-min", "admission": "at-most", "gpus": gpus}
    case = draw_case(rng, {name: chosen[name] for name in FEATURES}, iterations=40)
    whole = run_case(plain(case))
    assert well_posed(case, whole)
    assert not differences(run_case(case), whole, 1e-9, lone_links(case))


def network(sharing: str = "max-min") -> dict[str, Any]:
    """The network of a job file."""
    return {"sharing": sharing, "a_s": 0.0, "b_s_per_byte": 0.0, "eta_s_per_byte": 0.0, "admission": None}


def job(
    name: str, compute_s: float, size: float, *links: str, iterations: int = 1, start_s: float = 0.0
) -> dict[str, Any]:
    """A job of a job file: compute, then send."""
    return {
        "id": name,
        "start_s": start_s,
        "iterations": iterations,
        "gate": None,
        "phases": [
            {"compute_s": compute_s, "bytes": 0.0, "flows": {}, "demand_gbps": None},
            {"compute_s": 0.0, "bytes": size, "flows": dict.fromkeys(links, 1), "demand_gbps": None},
        ],
    }


def pairs(iterations: int, n: int = 50) -> dict[str, Any]:
    """n pairs of jobs, each pair on a link of its own, with periods in ratio 1:1, 1:2 or 2:3 when alone."""
    rng = random.Random(7)
    jobs = []
    for i in range(n):
        base = rng.uniform(0.1, 0.3)
        for k, part in enumerate(RATIOS[i % 3]):
            sending = rng.uniform(0.2, 0.6) * part * base
            jobs.append(
                job(
                    f"{i}.{k}", part * base - sending, sending * 6.25e9, f"l{i}",
                    iterations=iterations * 6 // part, start_s=k * rng.uniform(0.0, 0.3),
                )
            )  # fmt: skip
    return {"links": {f"l{i}": {"gbps": 50.0} for i in range(n)}, "network": network(), "jobs": jobs}


def finishes(result: dict[str, Any]) -> dict[str, float]:
    """When each job finished."""
    return {name: row["finish_s"] for name, row in result["jobs"].items()}


def test_pairs_equal_the_plain_run() -> None:
    """Fifty pairs: finish times, bytes and iteration times to 1e-9."""
    spec = pairs(50)
    skipped, whole = run_replay(spec), run_replay(spec, skip=False)
    assert finishes(skipped) == pytest.approx(finishes(whole), rel=1e-9)
    for name, row in whole["jobs"].items():
        assert skipped["jobs"][name]["iteration_s"] == pytest.approx(row["iteration_s"], rel=1e-9)
    for name, row in whole["links"].items():
        assert skipped["links"][name] == pytest.approx(row, rel=1e-9)
    assert skipped["iterations"] == whole["iterations"]
    assert skipped["exact"]
    assert skipped["events"] < whole["events"] / 2


def test_a_hundred_times_as_many_iterations_cost_no_more() -> None:
    """Events, which are what a run costs, less than double."""
    few, many = run_replay(pairs(50)), run_replay(pairs(5000))
    assert many["iterations"] == 100 * few["iterations"]
    assert many["events"] < 2 * few["events"]


def lone(engine: Engine, uid: int, link: int, iterations: int) -> int:
    """A job alone on a link."""
    nodes = [compute_node(0, 0.1 + 0.01 * uid), transfer_node(1, 0.1, [(link, 1)], (0,))]
    return engine.attach(uid, make_program(nodes, engine.spec.capacity), iterations)


def quiet_engine(n: int = 8, iterations: int = 10_000) -> tuple[Engine, list[int]]:
    """Jobs that do not meet, on their own links."""
    engine = Engine(EngineSpec(np.ones(n + 1), np.ones(n + 1, np.bool_)))
    return engine, [lone(engine, i, i, iterations) for i in range(n)]


def test_idle_wake_ups_cost_nothing() -> None:
    """Looking in a thousand times, and asking how far everybody is, simulates nothing more."""
    once, _ = quiet_engine()
    while finished := once.run():
        for row in finished:
            once.detach(row)
    engine, rows = quiet_engine()
    seen = dict.fromkeys(rows, 0)
    done: list[int] = []
    for t in range(1, 5001):
        for row in engine.run(float(t)):
            done.append(row)
            engine.detach(row)
        for i, row in enumerate(rows):
            if row not in done:
                now = engine.iterations_done(row)
                assert now >= seen[row]
                assert now == pytest.approx(engine.now / (0.2 + 0.01 * i), abs=1.001)
                seen[row] = now
    assert len(done) == len(rows)
    assert engine.events <= once.events


def test_others_do_not_wake_a_parked_job() -> None:
    """Jobs that come and go elsewhere leave parked ones parked."""
    engine, rows = quiet_engine()
    engine.run(10.0)
    before = engine.events
    for t in range(10, 200):
        assert engine.run(float(t)) == []
        row = lone(engine, 100 + t, len(rows), 1000)
        engine.run(t + 0.5)
        engine.detach(row)
    assert engine.events - before < 190 * 2


def test_gates_are_skipped_too() -> None:
    """Two jobs behind gates of their own repeat: as good as no events, and the finish of the plain run."""
    spec = pairs(1)
    spec["links"], n = {"l": {"gbps": 50.0}}, 2000
    spec["jobs"] = [job(name, 0.141, 641250000.0, "l", iterations=n) for name in "ab"]
    for gated, epoch in zip(spec["jobs"], (0.0, 0.12), strict=True):
        gated["gate"] = {"epoch_s": epoch, "period_s": 0.255, "task": 0, "tolerance": 0.05}
    skipped, whole = run_replay(spec), run_replay(spec, skip=False)
    assert skipped["events"] < 100 < whole["events"]
    assert finishes(skipped) == pytest.approx(finishes(whole), rel=1e-9)
    assert finishes(skipped)["a"] == pytest.approx(0.255 * (n - 1) + 0.141 + 641250000 / 6.25e9, rel=1e-9)


def test_a_job_that_slides_within_the_tolerance_of_its_gate_has_not_come_round() -> None:
    """Iterations of 33/32 of a period begin later and later after their opening, and each looks like the one before,
    until the 18th would begin more than half a period late and waits: 17 iterations take 18 periods."""
    spec = pairs(1)
    spec["links"] = {"l": {"gbps": 50.0}}
    spec["jobs"] = [job("a", 0.53125, 0.5 * 6.25e9, "l", iterations=17 * 20)]
    spec["jobs"][0]["gate"] = {"epoch_s": 0.0, "period_s": 1.0, "task": 0, "tolerance": 0.5}
    skipped, whole = run_replay(spec), run_replay(spec, skip=False)
    assert skipped["events"] < whole["events"] / 2
    assert finishes(skipped) == finishes(whole) == {"a": pytest.approx(18.0 * 19 + 17 * 33 / 32, rel=1e-12)}


TURNS = [
    ((0.0, 0.0), (1.0, 0.0), (2.0, 0.0)),
    ((0.0, 1.0), (0.0, 1.0), (0.0, 1.0)),
    ((50.0, -0.5), (0.0, 0.5), (20.0, 0.0)),
    ((400.0, -1.0), (410.0, -1.5), (390.0, -0.5)),
]


@pytest.mark.parametrize("turns", TURNS)
def test_shared_gpus_are_skipped_while_the_order_holds(turns: tuple[tuple[float, float], ...]) -> None:
    """Turns that depend on what is left may change hands in the middle: the skip ends before that.

    Of three jobs two wait for the GPU whenever the third has it, so it matters whose turn comes first.
    """
    results = []
    for skip in (True, False):
        engine = Engine(EngineSpec(np.ones(3), np.ones(3, np.bool_), n_gpus=1, skip=skip))
        for i, turn in enumerate(turns):
            nodes = [compute_node(0, 1.0 + 0.25 * i, gpu=0), transfer_node(1, 0.125, [(i, 1)], (0,))]
            engine.attach(i, make_program(nodes, engine.spec.capacity), 200 + 50 * i, turn=turn)
        usage = {}
        while finished := engine.run():
            usage.update({row: engine.detach(row) for row in finished})
        results.append([usage[i].finish_s for i in range(3)])
    assert results[0] == pytest.approx(results[1], rel=1e-9)


def test_regate_of_a_parked_job() -> None:
    """A gate that is set in the middle of a skipped stretch counts from the next iteration on."""
    results = []
    for skip in (True, False):
        engine = Engine(EngineSpec(np.ones(1), np.ones(1, np.bool_), skip=skip))
        row = lone(engine, 0, 0, 1000)
        engine.run(50.05)
        engine.set_gate(row, Gate(0.0, 0.15))
        engine.run()
        results.append(engine.detach(row))
    skipped, whole = results
    assert skipped.finish_s == pytest.approx(whole.finish_s, rel=1e-9)
    assert skipped.gate_s == pytest.approx(whole.gate_s, rel=1e-6)
    assert skipped.adjusted == whole.adjusted > 700


def crowd(iterations: int, seed: int = 3) -> dict[str, Any]:
    """A hundred random jobs, each over 2 of 200 links."""
    rng = random.Random(seed)
    jobs = [
        job(
            f"j{i}", rng.uniform(0.05, 0.3), rng.uniform(1e8, 1e9), *rng.sample([f"l{k}" for k in range(200)], 2),
            iterations=iterations, start_s=rng.uniform(0.0, 1.0),
        )
        for i in range(100)
    ]  # fmt: skip
    return {"links": {f"l{k}": {"gbps": 50.0} for k in range(200)}, "network": network(), "jobs": jobs}


def errors(a: dict[str, Any], b: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Relative differences of finish times."""
    x, y = finishes(a), finishes(b)
    return np.array([abs(x[name] / y[name] - 1.0) for name in y])


def test_estimates_are_close_and_cheap() -> None:
    """exact = false: 0.1 % in the mean and 2 % at p95, or the spread of the exact run when computing is stretched by
    1e-12 if that is larger; ten times the iterations cost less than twice as much; and the result says so."""
    spec = crowd(5000)
    whole, moved = run_replay(spec), run_replay(spec, perturb=1e-12)
    estimated, longer = run_replay(spec, exact=False), run_replay(crowd(50_000), exact=False)
    off, spread = errors(estimated, whole), errors(moved, whole)
    assert off.mean() <= max(0.001, spread.mean())
    assert np.quantile(off, 0.95) <= max(0.02, np.quantile(spread, 0.95))
    assert longer["events"] < 2 * estimated["events"]
    assert whole["exact"]
    assert not estimated["exact"]
    assert estimated["iterations"] == whole["iterations"]
    for name, row in whole["links"].items():
        assert estimated["links"][name]["bytes"] == pytest.approx(row["bytes"], rel=1e-9)


def test_what_repeats_is_not_estimated() -> None:
    """exact = false changes nothing for pairs that repeat."""
    spec = pairs(50, n=6)
    assert run_replay(spec, exact=False)["exact"]
    assert finishes(run_replay(spec, exact=False)) == finishes(run_replay(spec))


def test_estimate_states_its_error() -> None:
    """The engine says by how much its measuring windows disagreed."""
    engine = Engine(EngineSpec(np.ones(1), np.ones(1, np.bool_), exact=False, window=32.0, jitter=0.05))
    for i in range(3):
        nodes = [compute_node(0, 1.0 + 0.37 * i), transfer_node(1, 1.0, [(0, 1)], (0,))]
        engine.attach(i, make_program(nodes, engine.spec.capacity), 3000)
    assert engine.estimate_error == 0.0
    while finished := engine.run():
        for row in finished:
            engine.detach(row)
    assert not engine.exact
    assert 0.0 < engine.estimate_error < 0.1
    assert math.isfinite(engine.now)


def test_progress_of_skipped_periods_is_that_of_the_plain_run() -> None:
    """Two jobs (0.75 s + 0.5 bytes) and (1.25 s + 0.5 bytes) on a link of one byte per second lock in: a period has
    iterations of different lengths, and each counts when it ends."""

    def engine(skip: bool) -> tuple[Engine, list[int]]:
        made = Engine(EngineSpec(np.ones(1), np.ones(1, np.bool_), skip=skip))
        programs = (
            make_program([compute_node(0, seconds), transfer_node(1, 0.5, [(0, 1)], (0,))], np.ones(1))
            for seconds in (0.75, 1.25)
        )
        return made, [made.attach(uid, program, 200) for uid, program in enumerate(programs)]

    (skipping, rows), (plain, _) = engine(True), engine(False)
    for moment in np.arange(0.137, 200.0, 0.731):
        skipping.run(float(moment))
        plain.run(float(moment))
        assert [skipping.iterations_done(s) for s in rows] == [plain.iterations_done(s) for s in rows]
    assert skipping.events < plain.events / 5
