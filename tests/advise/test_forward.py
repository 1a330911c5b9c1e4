"""Simulating forward: exact where lengths are known, and the same decisions as everywhere else."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.queues import running, waiting
from weft.advise.forward import Present, claimed, samples
from weft.advise.spread import ENOUGH, Past, Spreads
from weft.errors import InputError, StackError
from weft.model.view import JobView
from weft.sim import NetworkSpec, simulate
from weft.stacks import resolve
from weft.testing import toy_cluster


def present(*jobs: JobView, now_s: float = 100.0, past: Sequence[Past] = ()) -> Present:
    claims = {job.id: float(job.job.iterations) for job in jobs}
    return Present(toy_cluster(1, 2, 4), now_s, jobs, claims, past=past)


def test_without_a_past_every_job_takes_what_it_claims() -> None:
    """Equation: start = start of the job before + its claim, and now counts from when that one began."""
    at = present(running("r", range(8), 90, since_s=60.0), waiting("a", 8, 30), waiting("b", 8, 5))
    for one in samples(at, resolve("fifo"), ["a", "b"], 2):
        assert one.starts == {"a": 150.0, "b": 180.0}
        assert one.ends == {"r": 150.0, "a": 180.0}


def test_what_is_free_is_used_at_once() -> None:
    at = present(running("r", range(4), 90, since_s=60.0), waiting("a", 4, 30))
    assert samples(at, resolve("fifo"), ["a"], 1)[0].starts == {"a": 100.0}
    assert set(samples(at, resolve("fifo"), ["a"], 1)[0].places["a"]) == {4, 5, 6, 7}


def test_nothing_starts_on_a_server_that_is_down() -> None:
    at = present(running("r", range(4), 90, since_s=60.0), waiting("a", 4, 30))
    down = Present(at.cluster, at.now_s, at.jobs, at.claims, down=frozenset({1}))
    assert down.free() == []
    assert samples(down, resolve("fifo"), ["a"], 1)[0].starts == {"a": 150.0}


def test_a_job_that_is_stopped_goes_on_where_it_was_after_its_restart() -> None:
    """r has 1,000 s to go when the short one takes its GPUs for 10 s: it ends 10 s and a restart later."""
    at = present(running("r", range(8), 1100, since_s=0.0), waiting("a", 8, 10))
    one = samples(at, resolve("srsf-preemptive"), ["a"], 1)[0]
    assert one.starts == {"a": 100.0}
    late = present(running("r", range(8), 1100, since_s=0.0), waiting("a", 8, 10), waiting("b", 8, 2000))
    last = samples(late, resolve("srsf-preemptive"), ["b"], 1)[0]
    assert last.starts["b"] == 100.0 + 10.0 + late.restart_s + 1000.0


@pytest.mark.parametrize("stack", ["fifo", "fifo-backfill", "srsf", "sjf"])
@given(jobs=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 500)), min_size=1, max_size=25))
@settings(max_examples=6, deadline=None)
def test_with_known_lengths_it_is_the_simulated_run(stack: str, jobs: list[tuple[int, int]]) -> None:
    """The same core and policies, so the same starts, where no job communicates."""
    views = [waiting(f"j{i}", n, s) for i, (n, s) in enumerate(jobs)]
    at = present(*views, now_s=0.0)
    run = simulate(at.cluster, [view.job for view in views], resolve(stack), NetworkSpec(sharing="ideal"))
    known = dict(zip(run.jobs["job_id"], run.jobs["start_s"], strict=True))
    found = samples(at, resolve(stack), [view.id for view in views], 1)[0].starts
    assert found == pytest.approx(known)


@given(
    ratios=st.lists(st.floats(0.001, 1.0), min_size=ENOUGH, max_size=60),
    ran=st.floats(0.0, 5000.0),
    rank=st.floats(0.0, 0.999),
)
def test_a_length_is_never_less_than_the_time_that_has_passed_nor_more_than_the_limit(
    ratios: list[float], ran: float, rank: float
) -> None:
    past = [Past("u", 1, float(i), 3600.0, 3600.0 * ratio) for i, ratio in enumerate(ratios)]
    found = Spreads(past).length("u", 3600.0, 3600.0, ran, rank)
    assert found >= ran
    assert found <= max(3600.0, ran)


def test_lengths_are_those_of_the_same_user_where_there_are_enough() -> None:
    past = [Past("fast", 1, float(i), 1000.0, 10.0) for i in range(ENOUGH)]
    past += [Past("slow", 1, float(i), 1000.0, 900.0) for i in range(ENOUGH)]
    spreads = Spreads(past)
    assert {spreads.length("fast", 500.0, None, 0.0, r / 10) for r in range(10)} == {5.0}
    assert {round(spreads.length("slow", 500.0, None, 0.0, r / 10)) for r in range(10)} == {450}
    assert {round(spreads.length("new", 500.0, None, 0.0, r / 10)) for r in range(10)} == {5, 450}


def test_jobs_one_after_the_other_are_as_alike_as_they_were() -> None:
    """Ten short jobs, then ten long ones, and so on: neighbours among new jobs nearly always are of the same length."""
    past = [Past("u", 1, float(i), 100.0, 1.0 + 98.0 * ((i // 10) % 2) + 0.01 * i) for i in range(100)]
    spreads, rng = Spreads(past), np.random.default_rng(1)
    same = []
    for _ in range(200):
        lengths = [spreads.length("u", 100.0, None, 0.0, rank) for rank in spreads.ranks(["u", "u"], rng)]
        same.append((lengths[0] > 50.0) == (lengths[1] > 50.0))
    assert np.mean(same) == pytest.approx(0.9, abs=0.06)


def test_a_job_more_leaves_the_draws_of_the_others_alone() -> None:
    past = [Past("u", 1, 60.0 * i, 100.0, 1.0 + i) for i in range(80)]
    jobs = [running("r", range(8), 100, since_s=90.0), waiting("a", 8, 100, user="u")]
    at = present(*jobs, past=past)
    more = at.with_job(waiting("z", 4, 50).job, 50.0)
    first, second = (samples(p, resolve("fifo"), ["a"], 6, arrivals=False) for p in (at, more))
    assert [one.starts for one in first] == [one.starts for one in second]
    assert len({one.starts["a"] for one in first}) > 1


def test_jobs_that_have_yet_to_come_hold_up_a_large_one() -> None:
    """Every second a job of one GPU comes that takes 7 s, on 8 GPUs with backfilling: 7 are busy at any time."""
    past = [Past("u", 1, float(i), 7.0, 7.0) for i in range(400)]
    at = present(running("r", [0], 9, since_s=95.0), waiting("big", 8, 10), past=past)
    quiet = samples(at, resolve("fifo-backfill"), ["big"], 5, arrivals=False)
    busy = samples(at, resolve("fifo-backfill"), ["big"], 5)
    assert all(one.starts["big"] < 107.0 for one in quiet)
    assert all(one.starts.get("big", math.inf) > 150.0 for one in busy)


def test_claims_alone_are_the_control() -> None:
    past = [Past("", 1, float(i), 100.0, 1.0) for i in range(50)]
    at = present(running("r", range(8), 90, since_s=60.0), waiting("a", 8, 30), past=past)
    assert claimed(at, resolve("fifo"), ["a"]).starts == {"a": 150.0}


def test_a_stack_that_needs_more_is_refused_in_words() -> None:
    with pytest.raises(StackError, match="forward world"):
        samples(present(waiting("a", 1, 5)), resolve("ada-srsf"), ["a"], 1)
    with pytest.raises(InputError):
        present().job("nobody")


def test_another_size_is_asked_about_in_place() -> None:
    at = present(running("r", range(4), 90, since_s=60.0), waiting("a", 8, 30))
    assert samples(at.resized("a", 4), resolve("fifo"), ["a"], 1)[0].starts == {"a": 100.0}
    assert at.job("a").job.gpus == 8
