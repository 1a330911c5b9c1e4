import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.sim.runs import draw_run
from weft.core.stack import Stack
from weft.errors import EngineError
from weft.model.job import Job
from weft.model.profile import Compute, Profile
from weft.network.cost import Tier, TierTable
from weft.network.topologies import Machine, leaf_spine, single_switch
from weft.results.run import RunResult
from weft.sim import NetworkSpec, RunSpec, simulate
from weft.sim.world import SimWorld
from weft.stacks import resolve
from weft.testing import check_world, toy_cluster, toy_job
from weft.testing.probes import Fixed, StopOnce

FRAMES = ("jobs", "iterations", "links", "decisions", "spans", "segments", "link_series")


@pytest.mark.parametrize("sharing", ["max-min", "k-way", "ideal"])
@pytest.mark.parametrize("circumstances", [{}, {"jitter": 0.05, "restart_s": 0.02}, {"exact": False}])
def test_keeps_the_promises_of_worlds(sharing: str, circumstances: dict[str, Any]) -> None:
    """The conformance suite, with and without GPU sharing."""
    for shared in (False, True):

        def make(
            jobs: Sequence[Job], *, latency_s: float, failure_rate: float, seed: int, s: bool = shared
        ) -> SimWorld:
            run = RunSpec(seed=seed, start_latency_s=latency_s, failure_rate=failure_rate, **circumstances)
            return SimWorld(toy_cluster(), jobs, NetworkSpec(sharing=sharing), run, shared_gpus=s)

        check_world(make)


def same(a: RunResult, b: RunResult, but: Sequence[str] = ()) -> None:
    """Two results are equal, wall time aside."""
    for name in FRAMES:
        if name not in but:
            assert_frame_equal(getattr(a, name), getattr(b, name), check_exact=True)
    assert (a.events, a.exact, a.seed) == (b.events, b.exact, b.seed)


@pytest.mark.parametrize("seed", range(6))
def test_one_seed_one_result(seed: int) -> None:
    """A run repeats to the last bit, whatever goes wrong in it."""
    same(draw_run(random.Random(seed)).simulate(record=True), draw_run(random.Random(seed)).simulate(record=True))


def test_another_seed_another_result() -> None:
    """The seed drives jitter, stragglers and failures."""
    finishes = set()
    for seed in range(4):
        run = replace(draw_run(random.Random(2)), run=RunSpec(seed=seed, jitter=0.05))
        finishes.add(tuple(run.simulate().jobs["finish_s"]))
    assert len(finishes) == 4


@pytest.mark.parametrize("seed", range(8))
def test_recording_changes_nothing(seed: int) -> None:
    """Looking at link loads now and then leaves the run as it is; what they add up to is what links carried."""
    run = draw_run(random.Random(seed), skip=False)
    plain, recorded = run.simulate(), run.simulate(record=True)
    same(plain, recorded, but=("segments", "link_series"))
    carried = recorded.links.filter(pl.col("bytes") > 0)
    series = recorded.link_series.group_by("link").agg(pl.col("bytes").sum()).sort("link")
    assert series["link"].to_list() == carried["link"].to_list()
    np.testing.assert_allclose(series["bytes"], carried["bytes"], rtol=1e-9)
    assert (recorded.link_series["end_s"] > recorded.link_series["start_s"]).all()
    rates = recorded.link_series["bytes"] / (recorded.link_series["end_s"] - recorded.link_series["start_s"])
    limits = recorded.links["bytes_per_s"].gather(recorded.link_series["link"])
    if run.network.sharing != "ideal":
        assert (rates <= limits * (1 + 1e-9)).all()


def test_late_start_is_sampled_from_there() -> None:
    """A record of a run whose first job comes late does not turn the clock back."""
    jobs = [toy_job("late", 4, 20, 0.5, 1e9, submit_s=100.0)]
    cluster = leaf_spine(2, 2, Machine(gpus_per_server=1))
    plain, recorded = (simulate(cluster, jobs, resolve("fifo"), record=r) for r in (False, True))
    assert recorded.jobs["finish_s"][0] == plain.jobs["finish_s"][0]
    assert recorded.link_series["start_s"].min() == 100.0
    assert recorded.link_series["end_s"].max() == pytest.approx(recorded.jobs["finish_s"][0], rel=1e-12)


def test_segments_are_the_tasks_of_the_run() -> None:
    """Where nothing is skipped every task is there: its bytes are what links carried, its seconds what GPUs did."""
    cluster = single_switch(2, Machine(nic_gbps=8.0))
    jobs = [toy_job(name, 2, 5, 0.5, 1e8) for name in ("a", "b")]
    planner = Fixed({"a": (0, 1), "b": (0, 1)}, shares_gpus=True)
    result = simulate(cluster, jobs, Stack("both", planner), run=RunSpec(skip=False), record=True)
    assert result.segments.height == 2 * 5 * (2 + 1)
    computed = result.segments.filter(pl.col("kind") == "compute")
    assert (computed["end_s"] - computed["start_s"]).sum() == pytest.approx(result.jobs["gpu_s"].sum(), rel=1e-9)
    sent = result.segments.filter(pl.col("kind") == "transfer")
    assert (sent["end_s"] - sent["start_s"]).min() >= 1e8 / 1e9 * (1 - 1e-9)
    assert result.links["bytes"].max() == pytest.approx(2 * 5 * 1e8, rel=1e-9)


def test_until() -> None:
    """Cut at 5.5 s: five iterations are done, half of the sixth is booked, nothing is lost."""
    job = toy_job("a", 2, 10)
    result = simulate(toy_cluster(), [job], resolve("fifo"), run=RunSpec(until_s=5.5))
    row = result.jobs.row(0, named=True)
    assert (row["status"], row["finish_s"], row["jct_s"], row["iterations"]) == ("unfinished", None, None, 5)
    assert row["gpu_s"] == pytest.approx(2 * 5.5, rel=1e-12)
    assert row["lost_gpu_s"] == 0
    assert result.spans.row(0, named=True)["end"] == "running"
    assert result.spans["end_s"][0] == 5.5


def test_until_leaves_what_came_before() -> None:
    """A run that is cut short is the beginning of the whole one."""
    run = draw_run(random.Random(4), skip=False)
    whole = run.simulate()
    middle = float(whole.jobs["finish_s"].median())  # type: ignore[arg-type]
    cut = replace(run, run=replace(run.run, until_s=middle)).simulate()
    before = whole.jobs.filter(pl.col("finish_s") <= middle)
    assert before.height > 0
    assert_frame_equal(cut.jobs.filter(pl.col("status") == "finished"), before, check_exact=True)
    assert (cut.links["bytes"] <= whole.links["bytes"]).all()


@pytest.mark.parametrize("checkpoint_every", [1, 3])
def test_lost_gpu_seconds_of_a_resized_job(checkpoint_every: int) -> None:
    """What is kept is counted at the size at which the job ran: here 2 GPU s an iteration on one GPU, not 3 on two.

    Stopped after 9 s of 2 s an iteration: four are done, 4 - 4 mod every kept, the rest of the 9 GPU s lost.
    """
    sizes = {n: Profile("p", (Compute("c", seconds),), n) for n, seconds in ((1, 2.0), (2, 1.5))}
    job = Job("a", 0.0, 2, 10, sizes, min_gpus=1, max_gpus=2, checkpoint_every=checkpoint_every)
    planner = StopOnce(Fixed({"a": (0,)}, resizes=True), "a", 9.0)
    planner.resizes = True
    row = simulate(toy_cluster(), [job], Stack("s", planner)).jobs.row(0, named=True)
    kept = 4 - 4 % checkpoint_every
    assert row["lost_gpu_s"] == pytest.approx(9.0 - 2.0 * kept, rel=1e-9)
    assert row["finish_s"] == pytest.approx(9.0 + 2.0 * (10 - kept), rel=1e-12)


def test_iterations_that_count_more_than_one() -> None:
    """2 s an iteration on one GPU, each worth 2.5: stopped after 9 s, four are done, ten of 21 kept, and 1 GPU s of the
    fifth is lost; five more (11 / 2.5, rounded up) are left."""
    job = Job("a", 0.0, 1, 21, {1: Profile("p", (Compute("c", 2.0),), 1, worth=2.5)})
    row = simulate(toy_cluster(), [job], Stack("s", StopOnce(Fixed({"a": (0,)}), "a", 9.0))).jobs.row(0, named=True)
    assert row["finish_s"] == pytest.approx(9.0 + 5 * 2.0, rel=1e-12)
    assert (row["iterations"], row["lost_gpu_s"]) == (9, pytest.approx(1.0))


def test_starts_take_their_time() -> None:
    """Start latency l: the job holds its GPUs from the decision on and runs l later."""
    row = simulate(toy_cluster(), [toy_job("a", 1, 4)], resolve("fifo"), run=RunSpec(start_latency_s=2.5)).jobs.row(
        0, named=True
    )
    assert row["finish_s"] == pytest.approx(2.5 + 4.0, rel=1e-12)
    assert row["start_s"] == 2.5


def test_failing_starts_are_tried_again() -> None:
    """Every job finishes in the end; failures are journalled and differ from seed to seed."""
    waits = []
    for seed in range(3):
        run = RunSpec(seed=seed, start_latency_s=1.0, failure_rate=0.5)
        result = simulate(toy_cluster(), [toy_job(f"j{i}", 2, 3) for i in range(8)], resolve("fifo"), run=run)
        assert (result.jobs["status"] == "finished").all()
        waits.append(tuple(result.jobs["start_s"]))
    assert len(set(waits)) == 3


def test_needs_a_pace_first() -> None:
    """A world that nobody has told how transfers are paced does not run."""
    with pytest.raises(EngineError, match="pace"):
        _ = SimWorld(toy_cluster(), [], NetworkSpec(), RunSpec()).engine


def test_tiers() -> None:
    """Cost model "tiers": exposed communication is a part of the compute time, by how far apart the workers are."""
    cluster = leaf_spine(2, 2, Machine(gpus_per_server=2))
    network = NetworkSpec(cost=TierTable({"toy": Tier(0.1, 0.2, 0.5)}))
    for gpus, part in (((0, 1), 0.1), ((0, 2), 0.2), ((0, 4), 0.5)):
        job = toy_job("a", 2, 10, 1.0, 1e9)
        row = simulate(cluster, [job], Stack("s", Fixed({"a": gpus})), network).jobs.row(0, named=True)
        assert row["finish_s"] == pytest.approx(10 * (1.0 + part), rel=1e-9)
        assert row["comm_s"] == pytest.approx(10 * part, rel=1e-9)


def test_shared_gpus_take_turns() -> None:
    """Two jobs of N times c on one GPU, no network: whose turn comes first needs N c, the other waits: 2 N c."""
    jobs = [toy_job("a", 1, 10, submit_s=0.5), toy_job("b", 1, 10)]
    planner = Fixed({"a": (0,), "b": (0,)}, shares_gpus=True)
    result = simulate(toy_cluster(), jobs, Stack("both", planner))
    assert result.jobs["finish_s"].to_list() == pytest.approx([20.0, 10.0], rel=1e-12)
    assert result.jobs["gpu_s"].to_list() == pytest.approx([10.0, 10.0], rel=1e-12)
    assert result.jobs["comm_s"].to_list() == [0.0, 0.0]
