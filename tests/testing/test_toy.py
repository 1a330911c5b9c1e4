import pytest

from weft.model import (
    Failed,
    Finished,
    Gate,
    NodeDown,
    NodeUp,
    SetGate,
    Start,
    Started,
    Stop,
    Stopped,
    Submitted,
    Withdrawn,
)
from weft.testing import ToyWorld, toy_cluster, toy_job


def begun(**more: object) -> ToyWorld:
    """A world with job a, of 2 GPUs, 10 iterations, 1 s of computing and 1.25 GB to send, submitted at 0."""
    world = ToyWorld(toy_cluster(), [toy_job("a", 2, 10, 1.0, 1.25e9, checkpoint_every=4)], **more)  # type: ignore[arg-type]
    (event,) = world.next_events(None)
    assert isinstance(event, Submitted)
    return world


def test_runs_at_the_speed_of_its_estimate() -> None:
    """Inside a server 1 s an iteration; over two, 1.25 GB at 1.25 GB/s more: 2 s."""
    for gpus, end_s in (((0, 1), 10.0), ((0, 4), 20.0)):
        world = begun()
        assert world.apply([Start("a", gpus, "")]) == [Started(0.0, "a")]
        assert world.next_events(3.5) == []
        assert world.iterations_done("a") == int(3.5 / (end_s / 10))
        assert world.next_events(None) == [Finished(end_s, "a")]


def test_stop_goes_back_to_the_checkpoint() -> None:
    world = begun()
    world.apply([Start("a", (0, 1), "")])
    world.next_events(6.5)
    assert world.iterations_done("a") == 6
    assert world.apply([Stop("a", "")]) == [Stopped(6.5, "a", 4, "stopped as asked")]
    assert world.apply([Start("a", (0, 1), "")]) == [Started(6.5, "a")]
    assert world.next_events(None) == [Finished(12.5, "a")]


def test_latency_delays_both_answers() -> None:
    world = begun(latency_s=2.0)
    assert world.apply([Start("a", (0, 1), "")]) == []
    (started,) = world.next_events(None)
    assert isinstance(started, Started)
    assert 1.0 <= started.time_s <= 3.0
    assert world.apply([Stop("a", "")]) == []
    (stopped,) = world.next_events(None)
    assert isinstance(stopped, Stopped)
    assert 1.0 <= stopped.time_s - started.time_s <= 3.0


def test_finish_overtakes_a_slow_stop() -> None:
    world = begun(latency_s=100.0)
    world.apply([Start("a", (0, 1), "")])
    (started,) = world.next_events(None)
    world.apply([Stop("a", "")])
    assert world.next_events(None) == [Finished(started.time_s + 10.0, "a")]
    assert world.next_events(None) == []


def test_failures_by_lot() -> None:
    world = begun(failure_rate=0.5)
    answers = []
    for _ in range(200):
        (event,) = world.apply([Start("a", (0, 1), "")])
        answers.append(type(event))
        if isinstance(event, Started):
            world.apply([Stop("a", "")])
    assert 60 < answers.count(Failed) < 140


def test_lost_server_stops_what_runs_and_fails_what_starts() -> None:
    jobs = [toy_job("run", 1, 100), toy_job("far", 1, 100)]
    world = ToyWorld(toy_cluster(), jobs, script=[NodeDown(5.0, 0), NodeDown(6.0, 0), NodeUp(7.0, 0), NodeUp(8.0, 0)])
    world.next_events(None)
    world.apply([Start("run", (0,), ""), Start("far", (15,), "")])
    down, stopped = world.next_events(None)
    assert (down, stopped) == (NodeDown(5.0, 0), Stopped(5.0, "run", 5, "server s0 went down"))
    assert world.next_events(None) == [NodeUp(7.0, 0)]  # down twice is down once
    slow = ToyWorld(toy_cluster(), jobs, latency_s=50.0, script=[NodeDown(5.0, 0)])
    slow.next_events(None)
    slow.apply([Start("run", (0,), "")])
    assert slow.next_events(None) == [NodeDown(5.0, 0), Failed(5.0, "run", "server s0 went down")]
    assert slow.next_events(None) == []


@pytest.mark.parametrize("start", [True, False])
def test_withdrawn(start: bool) -> None:
    world = begun(script=[Withdrawn(3.0, "a"), Withdrawn(4.0, "a"), Withdrawn(4.0, "nobody")])
    if start:
        world.apply([Start("a", (0, 1), "")])
    assert world.next_events(None) == [Withdrawn(3.0, "a")]
    assert world.next_events(None) == []


def test_gates_are_noted() -> None:
    world = begun()
    world.apply([Start("a", (0, 1), "", Gate(1.0))])
    assert world.gates == {"a": Gate(1.0)}
    world.apply([SetGate("a", Gate(2.0), "")])
    assert world.gates == {"a": Gate(2.0)}
    world.apply([SetGate("a", None, "")])
    assert world.gates == {}


def test_elastic_jobs_compute_less_on_more_workers() -> None:
    job = toy_job("a", 2, 10, 1.0, sizes=(1, 4))
    assert job.sizes == (1, 2, 4)
    assert [job.profiles[n].compute_s for n in job.sizes] == [2.0, 1.0, 0.5]
