"""MonkeyTree's generator, its jobs alone, and the paths that its program calls Crux's."""

import random

import numpy as np
import pytest

from weft.model.job import Job
from weft.model.routes import Flow, RoutedJob, RouteView
from weft.model.view import JobView
from weft.network.topologies import leaf_spine
from weft.runs.run import Task
from weft.scenario import Scenario
from weft.scenario.build import Layers, build
from weft.testing import toy_job
from weft_evidence import claims_of
from weft_evidence.checks import verdict_of
from weft_evidence.claims import Measured, Request
from weft_evidence.monkeytree.jobs import (
    BY_NAME,
    TYPES,
    Drawn,
    draw,
    gpu_s,
    jobs_of,
    mean,
    seed_of,
    state_s,
)
from weft_evidence.monkeytree.played import Outcome, play, task_part
from weft_evidence.monkeytree.released import CruxReleased
from weft_evidence.monkeytree.runs import QUICK_SHAPE, SYSTEMS, Sweep, scenario

FSDP, TP, GPT = BY_NAME["llama2_70b_fsdp"], BY_NAME["llama2_70b_tp_dp"], BY_NAME["gpt_7b_dp"]


def test_the_generator_draws_what_the_released_one_draws() -> None:
    assert [seed_of(0.5, 1), seed_of(1.0, 1), seed_of(0.7, 3)] == [1001, 6001, 3003]
    assert draw(6001, 1.0, 1024, 3) == [
        Drawn(0, "gpt_7b_dp", 32, 663), Drawn(71672697, "llama2_70b_tp_dp", 32, 753),
        Drawn(77828432, "llama2_70b_tp_dp", 16, 541),
    ]  # fmt: skip
    assert draw(1001, 0.5, 1024, 3) == [
        Drawn(0, "llama3_70b_tp_dp", 16, 878), Drawn(87445596, "gpt_7b_dp", 16, 668),
        Drawn(229981698, "llama3_70b_tp_dp", 32, 839),
    ]  # fmt: skip
    random.seed(0)  # it has a generator of its own
    before = random.getstate()
    draw(1, 1.0, 64, 5)
    assert random.getstate() == before


def test_a_mean_job() -> None:
    """E = 31,350.498 GPU seconds, 28.5 GPUs; gaps on 1,024 GPUs at loads of 0.5 and 1; the true load is 3.1 % more."""
    assert gpu_s() == pytest.approx(31350.498, abs=1e-3)
    assert mean(lambda kind, n: n) == pytest.approx(28.5)
    assert [gpu_s() / (load * 1024) for load in (0.5, 1.0)] == pytest.approx([61.2314, 30.6157], abs=1e-4)
    assert mean(lambda kind, n: n * 550 * kind.alone_s(n)) / gpu_s() == pytest.approx(1.031, abs=5e-4)
    assert 1.0 < state_s() < 1.3


def test_iterations_alone() -> None:
    assert FSDP.alone_s(16) == pytest.approx(7.531625)
    assert [TP.alone_s(16), TP.alone_s(32), GPT.alone_s(32)] == pytest.approx([0.6846, 0.8564, 0.61675])
    two, four = BY_NAME["llama2_70b_tp_dp_pp_2"], BY_NAME["llama2_70b_tp_dp_pp_4"]
    assert two.alone_s(32) / two.nominal_s(32) == pytest.approx(1.11, abs=0.005)
    assert four.alone_s(64) / four.nominal_s(64) == pytest.approx(1.33, abs=0.005)
    assert [len(kind.ranks(64)) for kind in (FSDP, TP, two, four)] == [1, 8, 16, 32]
    assert two.ranks(64)[9] == [33, 41, 49, 57]


@pytest.mark.parametrize("kind", ["llama2_70b_fsdp", "llama2_70b_tp_dp", "llama2_70b_tp_dp_pp_2", "gpt_oss_20b"])
def test_the_simulator_takes_as_long_as_the_formula(kind: str) -> None:
    """Alone, 5 iterations on 2 ToRs. What experts exchange inside a block leaves its NICs free: 0.15 % faster."""
    from weft.sim import simulate

    n = BY_NAME[kind].sizes[0]
    made = build(Scenario.load(scenario(2, 32, 8)), 0, Layers(stack=SYSTEMS["perfect"]))
    jobs = jobs_of([Drawn(0, kind, n, 5)])
    run = simulate(made.cluster, jobs, made.stack, made.network, made.run)
    assert run.jobs["finish_s"][0] == pytest.approx(
        5 * BY_NAME[kind].alone_s(n), rel=2e-3 if kind == "gpt_oss_20b" else 1e-9
    )


def test_a_run_has_slowdowns_of_at_least_one_and_is_found_by_its_sources() -> None:
    sweep = Sweep(Request(quick=True, seeds=1, workers=1, settings={"sweep.jobs": 12}))
    for name in ("ecmp", "monkeytree"):
        (found,) = sweep.of(1.0, name)
        assert len(found.slowdown) == 12
        assert found.slowdown.min() >= 1.0 - 1e-9
    assert task_part(1.0, 1, 5) != task_part(1.0, 1, 6)
    given = Scenario.load(scenario(*QUICK_SHAPE))
    said = play(Task(given, Layers(stack=SYSTEMS["sglb"]), 1, part=task_part(1.0, 1, 5)))
    assert Outcome.of(said).number("p99") == pytest.approx(float(np.quantile(said["slowdown"], 0.99)))


def test_pauses_are_counted_and_queues_are_not() -> None:
    outcome = Outcome(np.array([1.0, 1.5, 3.5]), 2, 0.0)
    assert [outcome.number(name) for name in ("mean", "p90", "moves")] == pytest.approx([2.0, 3.1, 2.0])


def _job(name: str, pairs: list[tuple[int, int]], iteration_s: float) -> RoutedJob:
    flows = tuple(Flow(a, b, i, 1e9) for i, (a, b) in enumerate(pairs))
    return RoutedJob(JobView(toy_job(name, 1)), flows, iteration_s, 1.0)


def test_what_is_released_as_crux_counts_flows_of_pairs_of_hosts() -> None:
    """The job with the longer iteration chooses first: its two flows of one pair of hosts go over one spine, spine 0.
    The other's flow leaves the same rack: spine 1 has none yet."""
    cluster = leaf_spine(2, 4, spines=2)
    jobs = {"a": _job("a", [(1, 5)], 1.0), "b": _job("b", [(0, 4), (0, 4)], 3.0)}
    found = CruxReleased().route(RouteView(0.0, cluster, jobs, {}), {}).routes
    assert [parts[0][0] for parts in found["b"]] == [0, 0]
    assert found["a"][0][0][0] == 1


def test_claims_about_no_slowdown_at_all() -> None:
    none = claims_of("monkeytree")["figure-6.mean.0.7.monkeytree"]
    assert verdict_of(none, Measured(1.001, (1.0, 1.002)), 3) == "direction"
    assert verdict_of(none, Measured(1.01, (1.0, 1.02)), 3) == "no"
    nearly_none = claims_of("monkeytree")["figure-6.mean.1.0.monkeytree"]
    assert verdict_of(nearly_none, Measured(1.3, (1.2, 1.4)), 3) == "no"
    assert isinstance(jobs_of(draw(1, 1.0, 64, 1))[0], Job)
    assert len(TYPES) == 10
