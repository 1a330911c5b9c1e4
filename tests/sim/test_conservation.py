import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.draws import thorough
from tests.sim.audit import assert_one_at_a_time, check_conservation, check_totals
from tests.sim.cases import draw_case, draw_features, plain
from tests.sim.driver import run_case
from tests.sim.engine.test_twins import FEW
from tests.sim.runs import Books, Run, draw_run, watch
from weft.model.job import Job
from weft.model.profile import Compute
from weft.results.run import RunResult


@given(st.randoms(use_true_random=False))
@FEW
def test_nothing_is_created(rng: random.Random) -> None:
    """Every law of `audit`, whatever features are drawn."""
    case = plain(draw_case(rng, draw_features(rng), iterations=10))
    check_conservation(case, run_case(case))


def test_seeded_runs_with_stops() -> None:
    """The same on cases that are stopped in the middle: aborted transfers keep the bytes they sent, and no more."""
    for seed in range(thorough(150)):
        rng = random.Random(seed)
        case = plain(draw_case(rng, draw_features(rng, stops=rng.choice(["stopped", "resized"])), iterations=10))
        check_conservation(case, run_case(case))


@pytest.mark.parametrize("rule", ["caps", "ranks"])
def test_seeded_runs_under_rules(rule: str) -> None:
    """The same under caps, weights and levels that change from slot to slot, also in cases that are stopped."""
    for seed in range(thorough(75)):
        rng = random.Random(seed)
        stops = rng.choice(["none", "stopped", "resized"])
        case = draw_case(rng, draw_features(rng, rule=rule, stops=stops), iterations=10)
        check_conservation(case, run_case(case))


def test_skipping_creates_nothing() -> None:
    """Skipped iterations carry their bytes too, exactly or estimated."""
    for seed in range(thorough(150)):
        rng = random.Random(seed)
        case = draw_case(rng, draw_features(rng, skip=rng.choice(["exact", "estimate"])), iterations=40)
        check_totals(case, run_case(case), slack=1e-9 if case.spec.exact else 0.25)


def check_run(run: Run, result: RunResult, books: Books) -> None:
    """The laws on the frames that a simulation leaves behind."""
    least, most = books.bounds()
    links = result.links
    carried = links["bytes"].to_numpy()
    assert np.all(carried >= least * (1 - 1e-9))
    assert np.all(carried <= most * (1 + 1e-9))
    now = books.engines[-1].now
    if run.network.sharing != "ideal":
        assert np.all(carried <= links["bytes_per_s"].to_numpy() * now * (1 + 1e-9))
    jobs = result.jobs
    assert jobs["gpu_s"].sum() <= run.cluster.n_gpus * now * (1 + 1e-9)
    assert ((jobs["lost_gpu_s"] >= 0) & (jobs["lost_gpu_s"] <= jobs["gpu_s"] * (1 + 1e-9))).all()
    held = dict.fromkeys((job.id for job in run.jobs), 0.0)
    on_gpu: dict[int, list[tuple[float, float, float]]] = {}
    for span in result.spans.iter_rows(named=True):
        held[span["job_id"]] += len(span["gpus"]) * (span["end_s"] - span["start_s"])
        for gpu in span["gpus"]:
            on_gpu.setdefault(gpu, []).append((span["start_s"], span["end_s"], 1.0))
    for row in jobs.iter_rows(named=True):
        assert row["gpu_s"] <= held[row["job_id"]] * (1 + 1e-9) + 1e-9
        if row["status"] == "finished":
            assert row["jct_s"] >= row["run_s"] * (1 - 1e-9)
            assert row["comm_s"] <= row["run_s"] * (1 + 1e-9)
    if not run.stack.planner.shares_gpus:
        for spells in on_gpu.values():
            assert_one_at_a_time(spells)


def check_work(run: Run, result: RunResult) -> None:
    """Without jitter the GPU seconds that were not lost are those of the iterations asked for."""
    if run.run.jitter or run.run.stragglers:
        return
    for job, row in zip(run.jobs, result.jobs.iter_rows(named=True), strict=True):
        if row["status"] == "finished":
            work = job.iterations * job.profile.gpu_s
            assert row["gpu_s"] - row["lost_gpu_s"] == pytest.approx(work, rel=1e-9)
            assert row["iterations"] >= job.iterations


def test_simulations_create_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random clusters, jobs and stacks, with preemption, failures, restart cost, checkpoints, jitter."""
    books = watch(monkeypatch)
    preempted = 0
    for seed in range(thorough(60)):
        run = draw_run(random.Random(seed), wired=seed % 3 == 1, skip=False)
        result = run.simulate()
        assert (result.jobs["status"] == "finished").all()
        check_run(run, result, books)
        check_work(run, result)
        preempted += result.jobs["preemptions"].sum()
    assert preempted > thorough(60) / 4  # aborted work was in it


def test_simulations_that_skip_carry_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipping is invisible in bytes, GPU seconds and finish times; an estimate still carries every byte."""
    books = watch(monkeypatch)
    for seed in range(thorough(40)):
        run = draw_run(random.Random(seed), wired=seed % 3 == 1, jitter=0.0, stragglers=0.0)
        result = run.simulate()
        check_run(run, result, books)
        check_work(run, result)
        whole = replace(run, run=replace(run.run, skip=False)).simulate()
        nudged = [job_nudged(job, 1e-13) for job in run.jobs]
        other = replace(run, jobs=tuple(nudged), run=replace(run.run, skip=False)).simulate()
        if not close(whole, other, 1e-11):
            continue  # the plain run is not that certain itself
        assert close(result, whole, 1e-9), seed
        estimated = replace(run, run=replace(run.run, exact=False)).simulate()
        check_work(run, estimated)


def close(a: RunResult, b: RunResult, tolerance: float) -> bool:
    """Whether two runs agree on jobs and links."""
    jobs, links = ["finish_s", "comm_s", "gpu_s", "lost_gpu_s", "run_s"], ["bytes"]
    pairs = [(a.jobs[c].to_numpy(), b.jobs[c].to_numpy()) for c in jobs]
    pairs += [(a.links[c].to_numpy(), b.links[c].to_numpy()) for c in links]
    return all(np.allclose(x, y, rtol=tolerance, atol=tolerance) for x, y in pairs)


def job_nudged(job: Job, by: float) -> Job:
    """The same job, computing a little longer."""
    tasks = tuple(replace(t, seconds=t.seconds * (1 + by)) if isinstance(t, Compute) else t for t in job.profile.tasks)
    return replace(job, profiles={job.gpus: replace(job.profile, tasks=tasks)})
