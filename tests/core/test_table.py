from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.table import Table
from weft.errors import WorldError
from weft.model import (
    Barred,
    Cleared,
    Failed,
    Finished,
    Gate,
    NodeDown,
    NodeUp,
    Prioritised,
    Started,
    Stopped,
    Submitted,
    Withdrawn,
)
from weft.model.view import JobStatus, JobView
from weft.testing import toy_cluster, toy_job


def table_with(*jobs: object) -> Table:
    table = Table(toy_cluster())
    for job in jobs:
        table.take(Submitted(0.0, job))  # type: ignore[arg-type]
    return table


def in_order(table: Table, key: Callable[[JobView], float]) -> list[str]:
    return [job.id for job in table.waiting_by(key).in_order(None)]


def test_life_of_a_job() -> None:
    table = table_with(toy_job("a", 2))
    assert list(table.waiting) == ["a"]
    assert table.demand == {(2, 1e9): 1}

    table.starting("a", (4, 5), None)
    assert table.jobs["a"].status is JobStatus.STARTING
    assert (list(table.waiting), list(table.running), table.demand) == ([], ["a"], {})
    assert table.gpus.offer.n_free == 14  # held before the world confirms
    assert table.gpus.offer.free_per_server.tolist() == [4, 2, 4, 4]

    table.take(Started(3.0, "a"))
    job = table.jobs["a"]
    assert (job.status, job.started_s, job.first_start_s) == (JobStatus.RUNNING, 3.0, 3.0)
    assert (job.run_time_s(10.0), job.attained_gpu_s(10.0)) == (7.0, 14.0)

    table.stopping("a")
    table.take(Stopped(13.0, "a", 6))
    assert job.status is JobStatus.RUNNING  # what was shown of a job stays as it was
    job = table.jobs["a"]
    assert (job.status, job.gpus, job.saved_iterations, job.preemptions) == (JobStatus.WAITING, (), 6, 1)
    assert (job.run_s, job.service_gpu_s, job.waiting_since_s, job.started_s) == (10.0, 20.0, 13.0, None)
    assert table.gpus.offer.n_free == 16

    table.starting("a", (0, 1), None)
    table.take(Started(14.0, "a"))
    job = table.jobs["a"]
    table.take(Finished(18.0, "a"))
    assert table.ended == {"a": JobStatus.FINISHED}
    assert (table.jobs, dict(table.running), table.placements) == ({}, {}, {})
    assert job.first_start_s == 3.0


def test_failed_start_waits_again_and_is_counted() -> None:
    table = table_with(toy_job("a"))
    table.starting("a", (0,), None)
    table.take(Failed(5.0, "a", "no luck"))
    job = table.jobs["a"]
    assert (job.status, job.failures, job.waiting_since_s) == (JobStatus.WAITING, 1, 0.0)
    assert table.gpus.offer.n_free == 16


def test_a_barred_job_is_shown_to_nobody_until_it_is_cleared() -> None:
    """It keeps its place in line and the time since when it waits; it can be withdrawn meanwhile."""
    table = table_with(toy_job("a", 2), toy_job("b", 2))
    by_size = table.waiting_by(lambda job: job.job.gpus)
    table.take(Barred(5.0, "a", "no licence"))
    table.take(Barred(6.0, "a", "no licence yet"))
    assert (list(table.waiting), [job.id for job in by_size.in_order(None)]) == (["b"], ["b"])
    assert table.demand == {(2, 1e9): 1}
    assert (table.jobs["a"].status, table.jobs["a"].barred) == (JobStatus.WAITING, "no licence yet")
    table.take(Cleared(7.0, "a"))
    table.take(Cleared(7.0, "a"))
    assert list(table.waiting) == ["a", "b"]
    assert (table.jobs["a"].waiting_since_s, table.jobs["a"].barred) == (0.0, "")
    table.take(Barred(8.0, "b", "no licence"))
    table.take(Withdrawn(9.0, "b"))
    assert (list(table.jobs), table.demand) == (["a"], {(2, 1e9): 1})
    table.starting("a", (0, 1), None)
    with pytest.raises(WorldError, match="job a is starting"):
        table.take(Barred(9.0, "a", "too late"))


def test_another_priority_moves_a_waiting_job_and_keeps_what_it_was_told() -> None:
    table = table_with(toy_job("a", 2), toy_job("b", 2), toy_job("c", 1))
    by_size = table.waiting_by(lambda job: job.job.gpus)
    table.hold("b", "no room")
    table.take(Prioritised(1.0, "b", 3))
    assert list(table.waiting) == ["b", "a", "c"]
    assert [job.id for job in by_size.in_order(None)] == ["b", "c", "a"]
    assert (table.held, table.demand, table.jobs["b"].job.priority) == ({"b": "no room"}, {(2, 1e9): 2, (1, 1e9): 1}, 3)
    table.starting("c", (0,), None)
    table.take(Prioritised(2.0, "c", -1))
    assert (table.running["c"].job.priority, list(table.waiting)) == (-1, ["b", "a"])
    table.take(Barred(3.0, "a", "no licence"))
    table.take(Prioritised(4.0, "a", 9))
    table.take(Cleared(5.0, "a"))
    assert list(table.waiting) == ["a", "b"]


def test_stop_that_nobody_asked_for_is_a_failure() -> None:
    table = table_with(toy_job("a"))
    table.starting("a", (0,), None)
    table.take(Started(0.0, "a"))
    table.take(Stopped(5.0, "a", 2, "server went down"))
    assert (table.jobs["a"].preemptions, table.jobs["a"].failures) == (0, 1)


def test_finish_that_overtakes_a_stop() -> None:
    table = table_with(toy_job("a"))
    table.starting("a", (0,), None)
    table.take(Started(0.0, "a"))
    table.stopping("a")
    table.take(Finished(1.0, "a"))
    table.take(Stopped(2.0, "a", 10))  # late: the job has ended
    assert table.ended == {"a": JobStatus.FINISHED}


def test_withdrawn_while_waiting_and_while_running() -> None:
    table = table_with(toy_job("a"), toy_job("b"))
    table.starting("b", (0,), Gate(1.0))
    table.take(Withdrawn(1.0, "a"))
    table.take(Withdrawn(1.0, "b"))
    assert table.ended == {"a": JobStatus.WITHDRAWN, "b": JobStatus.WITHDRAWN}
    assert (table.gpus.offer.n_free, table.demand, table.gates) == (16, {}, {})


def test_lost_server_takes_its_free_gpus_away() -> None:
    table = table_with(toy_job("a"))
    table.starting("a", (0,), None)
    table.take(NodeDown(1.0, 0))
    assert table.gpus.offer.n_free == 12
    table.take(Failed(1.0, "a", "server went down"))
    assert table.gpus.offer.n_free == 12  # the GPU it left is not usable
    assert not table.gpus.offer.usable[0]
    table.take(NodeUp(2.0, 0))
    assert table.gpus.offer.n_free == 16


def test_preempted_job_returns_to_its_place_in_line() -> None:
    table = table_with(*(toy_job(f"j{i}", submit_s=float(i)) for i in range(4)))
    table.starting("j1", (0,), None)
    assert list(table.waiting) == ["j0", "j2", "j3"]
    table.take(Failed(9.0, "j1", ""))
    assert list(table.waiting) == ["j0", "j1", "j2", "j3"]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Started(1.0, "nobody"), "never submitted"),
        (Started(1.0, "a"), "Started at 1.0 s: job a is waiting"),
        (Finished(1.0, "a"), "was not running"),
        (Stopped(1.0, "a", 0), "job a is waiting"),
        (Failed(1.0, "a", ""), "job a is waiting"),
        (Submitted(1.0, toy_job("a")), "ids must differ"),
        (NodeDown(1.0, 99), "no server 99"),
    ],
)
def test_impossible_reports_are_refused(event: object, text: str) -> None:
    table = table_with(toy_job("a"))
    with pytest.raises(WorldError, match=text):
        table.take(event)  # type: ignore[arg-type]


def test_waiting_by_follows_every_change() -> None:
    def length(job: object) -> float:
        return job.job.compute_s  # type: ignore[attr-defined, no-any-return]

    table = table_with(toy_job("long", iterations=9), toy_job("short", iterations=1))
    assert in_order(table, length) == ["short", "long"]
    table.take(Submitted(1.0, toy_job("middle", iterations=5)))
    table.starting("short", (0,), None)
    assert in_order(table, length) == ["middle", "long"]


def test_careless_keys_do_not_pile_up() -> None:
    table = table_with(toy_job("a"))
    for _ in range(50):
        assert in_order(table, lambda job: 0.0) == ["a"]
    assert len(table._queues) <= 8


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(["start", "fail", "stop", "finish", "down", "up"])), max_size=60
    )
)
def test_counts_always_equal_a_recount(steps: list[tuple[int, str]]) -> None:
    """Incremental counts = counts made anew from the placements, after any sequence of events."""
    table = table_with(*(toy_job(f"j{i}", 1 + i % 3, memory_bytes=1e9 * (1 + i)) for i in range(10)))
    for i, step in steps:
        job_id, job = f"j{i}", table.jobs.get(f"j{i}")
        if step in ("down", "up"):
            server = i % 4
            table.take(NodeDown(0.0, server) if step == "down" else NodeUp(0.0, server))
        elif job is not None and step == "start" and job.status is JobStatus.WAITING:
            free = np.flatnonzero(table.gpus.offer.free).tolist()
            if len(free) >= job.job.gpus:
                table.starting(job_id, tuple(free[-job.job.gpus :]), None)
        elif job is not None and job.status is JobStatus.STARTING:
            table.take(Failed(0.0, job_id, "") if step == "fail" else Started(0.0, job_id))
        elif job is not None and job.status is JobStatus.RUNNING:
            table.take(Stopped(0.0, job_id, 0) if step == "stop" else Finished(0.0, job_id))
    offer = table.gpus.offer
    residents = np.zeros(16, dtype=int)
    for gpus in table.placements.values():
        residents[list(gpus)] += 1
    free = (residents == 0) & offer.usable
    assert offer.residents.tolist() == residents.tolist()
    assert offer.free_per_server.tolist() == free.reshape(4, 4).sum(axis=1).tolist()
    assert offer.n_free == free.sum()
    assert sum(table.demand.values()) == len(table.waiting)


def test_the_end_of_a_job_is_told_with_what_it_had_in_the_end() -> None:
    """Two jobs start at 2 s: one finishes at 7 s, the other is stopped at 5 s with 3 iterations and withdrawn."""
    table = table_with(toy_job("a", 2), toy_job("b", 1))
    told: list[JobView] = []
    table.on_end = told.append
    table.starting("a", (4, 5), None)
    table.starting("b", (0,), None)
    for event in (Started(2.0, "a"), Started(2.0, "b"), Finished(7.0, "a"), Stopped(5.0, "b", 3), Withdrawn(5.0, "b")):
        table.take(event)
    assert [(job.id, job.status) for job in told] == [("a", JobStatus.FINISHED), ("b", JobStatus.WITHDRAWN)]
    assert [(job.run_s, job.service_gpu_s) for job in told] == [(5.0, 10.0), (3.0, 3.0)]
    assert told[1].saved_iterations == 3
