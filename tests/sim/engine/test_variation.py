"""Variation per task and worker: its shape, how what it costs grows with the number of workers, and who knows of it."""

import numpy as np
import pytest

import weft
from weft.errors import ScenarioError
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import compute_node, make_program

N = 2000


def durations(workers: int, spread: float, uneven: bool, tasks: int = 1, **more: float) -> np.ndarray:
    """Iteration times of a job of as many tasks of one second, one after the other."""
    spec = EngineSpec(np.ones(1), np.ones(1, bool), seed=3, task_jitter=spread, uneven=uneven, skip=False, **more)
    engine = Engine(spec)
    ranks = tuple(range(workers))
    nodes = [compute_node(i, 1.0, (i - 1,) if i else (), weight=float(workers), ranks=ranks) for i in range(tasks)]
    row = engine.attach(0, make_program(nodes, spec.capacity), N)
    engine.run()
    engine.detach(row)
    records = engine.records()
    return np.repeat(records["duration"], records["count"].astype(int))


@pytest.mark.parametrize("uneven", [False, True])
def test_mean_and_spread_of_one_worker(uneven: bool) -> None:
    found = durations(1, 0.1, uneven)
    assert found.mean() == pytest.approx(1.0, abs=4 * 0.1 / N**0.5)
    assert found.std() == pytest.approx(0.1, rel=0.08)
    skew = (((found - found.mean()) / found.std()) ** 3).mean()
    assert skew == pytest.approx(1.66 if uneven else 0.0, abs=0.25)


@pytest.mark.parametrize("workers", [2, 8, 32, 128])
def test_what_it_costs_grows_as_measured(workers: int) -> None:
    """Uneven: the largest of k draws of u^5 is k / (k + 5) on average, less 1/6 and over sqrt(1/11 - 1/36). Recorded
    micro-batches with uneven sequences have 0.47, 1.73, 2.93 and 3.28 standard deviations at 2, 8, 32 and 128 workers;
    those of equal work 0.57, 1.33, 1.8 to 2.4 and 1.9 to 3.2."""
    expected = (workers / (workers + 5) - 1 / 6) / (1 / 11 - 1 / 36) ** 0.5
    grown = (durations(workers, 0.1, True).mean() - 1.0) / 0.1
    assert grown == pytest.approx(expected, abs=0.08)
    assert grown == pytest.approx({2: 0.47, 8: 1.73, 32: 2.93, 128: 3.28}[workers], abs=0.2)
    even = (durations(workers, 0.1, False).mean() - 1.0) / 0.1
    assert even == pytest.approx({2: 0.56, 8: 1.42, 32: 2.0, 128: 2.43}[workers], abs=0.08)


def test_tasks_differ_within_an_iteration() -> None:
    """Of n tasks the sum spreads as sqrt(n); jitter per worker and iteration is common to them and spreads as n."""
    each, common = durations(1, 0.1, False, tasks=16), durations(1, 0.0, False, tasks=16, jitter=0.1)
    assert each.std() == pytest.approx(0.1 * 4, rel=0.1)
    assert common.std() == pytest.approx(0.1 * 16, rel=0.1)


def test_off_is_as_before_and_on_is_one_seed_one_result() -> None:
    def run(**how: object) -> list[float]:
        demo = weft.Scenario.load("demo").model_dump(exclude_unset=True)
        small = {**demo, "workload": {**demo["workload"], "jobs": 12}, "run": {"seed": 2, **how}}
        return weft.simulate(small).jobs["finish_s"].to_list()

    assert run() == run(task_jitter=0.0)
    assert run(task_jitter=0.05) == run(task_jitter=0.05) != run()
    assert run(task_jitter=0.05, task_shape="sequences") != run(task_jitter=0.05)


def test_a_shape_of_nothing_is_refused() -> None:
    demo = weft.Scenario.load("demo").model_dump(exclude_unset=True)
    with pytest.raises(ScenarioError, match="task_shape"):
        weft.Scenario.load({**demo, "run": {"task_shape": "sequences"}})
