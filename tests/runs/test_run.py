"""Tasks and the grid of them: what is kept of one run in several parts, and the order of outcomes."""

import pytest

from weft.errors import ScenarioError, StackError
from weft.runs.run import Task, run_grid
from weft.scenario import Scenario
from weft.scenario.build import Layers, build, build_cluster, build_workload
from weft.stacks import resolve

GIVEN = {
    "cluster": {"topology": "single-switch", "servers": 2, "gpus_per_server": 2, "nic_gbps": 10.0},
    "workload": {"source": "jobs", "job": [{"model": "resnet50", "gpus": 2, "iterations": 5}]},
    "stack": {"name": "srsf"},
    "run": {"seed": 4},
}


def test_parts_of_a_run_are_kept_beside_each_other() -> None:
    given = Scenario.load(GIVEN)
    tasks = [Task(given, Layers("fifo"), 1, part=part) for part in ((), ("fit",), (0.0, 5.0), (0.0, 5.5))]
    tasks += [
        Task(given, Layers("fifo"), 2),
        Task(given, Layers("sjf"), 1),
        Task(given, Layers("fifo"), 1, record=True),
    ]
    keys = [task.identity() for task in tasks]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert Task(given, Layers("fifo")).identity() == Task(given, Layers("fifo"), 4).identity()


def test_what_was_kept_has_the_name_that_the_scenario_has_now() -> None:
    task = Task(Scenario.load(GIVEN), Layers())
    assert task.again({"scenario": "old", "jobs": 3}) == {"scenario": task.scenario.name, "jobs": 3}
    assert task.again({"jct_mean_s": 3.0}) == {"jct_mean_s": 3.0}
    assert task.again("it failed") == "it failed"


def test_outcomes_are_in_the_order_of_the_tasks() -> None:
    given, told = Scenario.load(GIVEN), list[tuple[int, int]]()
    tasks = [Task(given, Layers(), seed) for seed in (3, 1, 2)]
    assert run_grid(tasks, 1, lambda task: task.seed, lambda *done: told.append(done)) == [3, 1, 2]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert run_grid([], 1, lambda task: task.seed) == []


def test_an_experiment_is_what_the_scenario_says() -> None:
    given = Scenario.load(GIVEN)
    made = build(given)
    assert (made.seed, made.stack.name, made.run.seed) == (4, "srsf", 4)
    assert made.workload is made.workload
    assert made.workload.jobs == build_workload(given, build_cluster(given, 4), 4).jobs
    assert build(given, 7).run.seed == 7
    assert build(given, 7, Layers(pace="equal")).stack.name == "srsf[pace=equal]"
    themis = resolve("themis")
    assert build(given, 7, themis).stack is themis


def test_what_cannot_run_is_refused_before_anything_is_drawn() -> None:
    with pytest.raises(StackError):
        build(Scenario.load(GIVEN), 1, Layers("nosuch"))
    foreign = {"foreign": [{"src": "nowhere", "dst": "s0"}]}
    with pytest.raises(ScenarioError, match="which is no server"):
        build(Scenario.load({**GIVEN, "network": foreign}))
