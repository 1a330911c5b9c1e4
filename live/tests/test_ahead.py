"""Answers about what comes: ranges, reasons with numbers, what changes do, which moves free a rack."""

import math
from pathlib import Path

import numpy as np
import pytest

from testkit.queues import running, waiting
from weft.advise.forward import Present
from weft.advise.spread import Past
from weft.errors import InputError, StackError
from weft.model.view import JobView
from weft.stacks import resolve
from weft.testing import toy_cluster
from weft_live.ahead import (
    COUNTED,
    Range,
    cluster_of,
    defrag,
    drained,
    effect,
    forecasts,
    limited,
    rack_names,
    with_nodes,
)
from weft_live.answers import Answers


def racks(*jobs: JobView, n: int = 2) -> Present:
    """Racks of two servers of four GPUs."""
    cluster = cluster_of([(f"n{i}", 4, i // 2) for i in range(2 * n)])
    return Present(cluster, 100.0, jobs, {job.id: float(job.job.iterations) for job in jobs})


def test_a_range_is_counted_where_there_are_many_samples() -> None:
    found = Range.of([float(i) for i in range(1, 101)])
    assert (found.low, found.middle, found.high) == pytest.approx((10.0, 50.0, 90.0), abs=1.0)
    assert Range.of([0.0] * 5) == Range(0.0, 0.0, 0.0, 5)


def test_few_samples_still_hold_what_they_promise() -> None:
    """Of log-normal waits, 80 % of further ones lie in the range that six samples give, and so with ten."""
    rng = np.random.default_rng(3)
    for n in (6, 10):
        inside = []
        for _ in range(3000):
            waits = np.exp(rng.normal(8.0, 1.0, n + 1))
            said = Range.of(waits[:n].tolist())
            inside.append(said.low <= waits[n] <= said.high)
        assert np.mean(inside) == pytest.approx(0.8, abs=0.03)


def test_what_never_comes_is_said() -> None:
    assert Range.of([5.0] * COUNTED + [math.inf] * COUNTED).high == math.inf


def test_a_reason_names_the_jobs_that_must_end_and_the_numbers() -> None:
    at = racks(
        running("x", range(8), 160, 0.0), running("y", range(8, 12), 120, 0.0), waiting("a", 16, 10), waiting("b", 4, 9)
    )
    first, second = forecasts(at, resolve("fifo"), ["a", "b"], n=4)
    assert (first.gpus, first.free, first.starts_in.middle) == (16, 4, pytest.approx(60.0))
    assert [(b.job, b.gpus, round(b.until.middle)) for b in first.blockers] == [("y", 4, 20), ("x", 8, 60)]
    assert (first.ahead, second.ahead) == (0, 1)
    assert second.starts_in.middle == pytest.approx(70.0)


def test_a_drained_rack_delays_by_the_job_that_was_to_run_there() -> None:
    at = racks(waiting("a", 8, 50, user="u"), waiting("b", 8, 50, user="v"))
    stack = resolve("fifo")
    name = next(iter(rack_names(at.cluster)))
    found = effect(at, stack, drained(at, name), stack, 4)
    assert found.by_job == {"a": 0.0, "b": pytest.approx(50.0)}
    assert found.by_user["v"]["mean"] == pytest.approx(50.0)
    assert found.all["mean"] == pytest.approx(25.0)
    with pytest.raises(InputError):
        drained(at, "nowhere")


def test_a_job_that_can_never_start_any_more_is_named() -> None:
    at = racks(waiting("a", 16, 50))
    found = effect(at, resolve("fifo"), drained(at, "n0"), resolve("fifo"), 4)
    assert found.never == ("a",)


def test_more_servers_start_jobs_at_once_and_move_nobody() -> None:
    at = racks(running("r", (2, 3, 5, 12), 500, 0.0), waiting("a", 16, 50))
    more = with_nodes(at, 2)
    old, new = at.cluster, more.cluster
    servers = [[c.servers[int(c.server_of_gpu[g])].name for g in p.job("r").gpus] for c, p in ((old, at), (new, more))]
    assert servers[0] == servers[1]
    assert (new.n_gpus, new.n_racks) == (24, 3)
    assert effect(at, resolve("fifo"), more, resolve("fifo"), 4).by_job == {"a": pytest.approx(-400.0)}


def test_a_limit_delays_the_user_it_is_for_and_nobody_else() -> None:
    at = racks(waiting("a", 8, 50, user="u"), waiting("b", 8, 50, user="u"), waiting("c", 8, 70, user="v"))
    stack = resolve("fifo")
    found = effect(at, stack, at, limited(stack, "u=8"), 4)
    assert found.by_job == {"a": 0.0, "b": pytest.approx(50.0), "c": pytest.approx(-50.0)}
    with pytest.raises(InputError):
        limited(stack, "u")
    with pytest.raises(StackError):
        limited(resolve("themis"), "u=8")


def test_moving_a_job_frees_a_rack_and_wins_what_waiting_jobs_gain() -> None:
    """One GPU of rack 0 keeps a job of 8 GPUs, which wants one rack, waiting for 1,000 s."""
    at = racks(running("small", [0], 1100, 0.0), running("big", range(8, 12), 1100, 0.0), waiting("a", 8, 10))
    found = defrag(at, resolve("fifo/delay:consolidated"), 4)
    assert [(move.job, move.gpus) for move in found.moves] == [("small", 1)]
    assert set(found.moves[0].to) <= {12, 13, 14, 15}
    assert found.racks_free == (0, 1)
    assert found.largest == (7, 8)
    assert found.starts == ("a",)
    assert found.cost_gpu_s == pytest.approx(at.restart_s + 0.5)
    assert found.wins_gpu_s["mean"] == pytest.approx(8 * 1000.0 - found.cost_gpu_s)


def test_nobody_moves_a_job_that_would_begin_anew_or_that_fits_nowhere() -> None:
    fixed = racks(running("s", [0], 1100, 0.0, resumes=False), running("b", range(8, 12), 1100, 0.0, resumes=False))
    assert defrag(fixed, resolve("fifo"), 4).moves == ()
    assert defrag(fixed, resolve("fifo"), 4).fixed == ("s", "b")
    full = racks(running("s", range(8), 1100, 0.0), running("b", range(8, 16), 1100, 0.0))
    assert defrag(full, resolve("fifo"), 4).moves == ()


def test_answers_are_kept_and_compared_with_what_came(tmp_path: Path) -> None:
    at = racks(running("x", range(16), 160, 0.0), waiting("a", 16, 10), waiting("b", 16, 10))
    answers = Answers(tmp_path)
    answers.give(1000.0, forecasts(at, resolve("fifo"), ["a", "b"], n=4))
    assert answers.accuracy() == {"answers": 2, "known": 0}
    assert sorted(answers.open()) == ["a", "b"]
    answers.give(1100.0, forecasts(at, resolve("fifo"), ["a"], n=4))  # the same question once more
    assert answers.accuracy()["answers"] == 2
    answers.started({"a": 1060.0, "c": 5.0})
    answers.started({"b": 1500.0})
    found = answers.accuracy()
    assert (found["known"], found["inside"], found["later"], found["earlier"]) == (2, 0.5, 0.5, 0.0)
    assert found["median_error_s"] == pytest.approx((0.0 + 430.0) / 2)
    answers.close()


def test_what_was_seen_of_ended_jobs_is_kept_once(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    one = Past("u", 4, 10.0, 3600.0, 60.0)
    for _ in range(2):
        answers.saw({"7": (one, 100.0), "8": (Past("v", 1, 5.0, None, 6.0), 50.0)})
    assert answers.past(10) == [Past("v", 1, 5.0, None, 6.0), one]
    assert answers.past(1) == [one]
    answers.close()


def test_the_toy_cluster_is_as_it_was_made() -> None:
    """Servers, GPUs and racks are the same in a cluster of which only those are known."""
    old = toy_cluster(2, 2, 4)
    new = cluster_of([(server.name, len(server.gpus), server.rack) for server in old.servers])
    assert [(s.name, s.gpus, s.rack) for s in new.servers] == [(s.name, s.gpus, s.rack) for s in old.servers]
