from dataclasses import replace

import pytest

from testkit.toys import decided, moves, played
from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import Hold, Start, Stop, Submitted
from weft.model.view import JobView
from weft.policies.order.srsf import ShortestRemainingServiceFirst
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_service_counts_gpus() -> None:
    """Services 8 x 10 = 80, 4 x 30 = 120, 8 x 14 = 112 GPU s: 80, 112, then 120 has no room."""
    core = Core(resolve("srsf"), ToyWorld(toy_cluster(), []))
    jobs = [toy_job("a", 8, 10), toy_job("b", 4, 30), toy_job("c", 8, 14)]
    decisions = core.step(0.0, [Submitted(0.0, job) for job in jobs])
    assert [(type(d), d.job) for d in decisions] == [(Start, "a"), (Start, "c"), (Hold, "b")]
    assert decisions[0].reason == "shortest remaining service first: 80 GPU s; tightest fit on 2 servers"


@pytest.mark.parametrize(("order", "expected"), [("srsf", "bca"), ("srsf:size", "acb"), ("srsf:length", "bca")])
def test_size_and_length(order: str, expected: str) -> None:
    """GPUs 1, 4, 2; compute 90, 10, 30 s; service 90, 40, 60 GPU s."""
    core = Core(resolve("srsf", order=order), ToyWorld(toy_cluster(), []))
    jobs = [toy_job("a", 1, 90), toy_job("b", 4, 10), toy_job("c", 2, 30)]
    assert "".join(d.job for d in core.step(0.0, [Submitted(0.0, job) for job in jobs])) == expected


def test_length_is_not_service() -> None:
    """8 GPUs for 10 s against 1 GPU for 20 s: the longer one has less service."""
    jobs = [toy_job("wide", 8, 10), toy_job("thin", 1, 20)]
    for order, first in (("srsf", "thin"), ("srsf:length", "wide")):
        core = Core(resolve("srsf", order=order), ToyWorld(toy_cluster(), []))
        assert core.step(0.0, [Submitted(0.0, job) for job in jobs])[0].job == first


def test_a_running_job_keeps_its_gpus() -> None:
    world = ToyWorld(toy_cluster(), [toy_job("long", 16, 100), toy_job("short", 1, 1, submit_s=5.0)])
    core = played(world, "srsf")
    assert world.now() == 101.0
    assert not any(isinstance(d, Stop) for _, d in decided(core))


def test_preemptive_is_shortest_remaining_first() -> None:
    """At 5 s `long` has 95 s left and `short` 10: it gives way. At 6 s `shorter` (9.5 s) does not: short has 9 left."""
    jobs = [
        toy_job("long", 16, 100),
        toy_job("short", 16, 10, submit_s=5.0),
        toy_job("shorter", 16, 19, 0.5, submit_s=6.0),
    ]
    world = ToyWorld(toy_cluster(), jobs)
    core = played(world, "srsf-preemptive")
    assert moves(core) == [
        (0.0, Start, "long"), (5.0, Stop, "long"), (5.0, Start, "short"), (15.0, Start, "shorter"),
        (24.5, Start, "long"),
    ]  # fmt: skip
    assert world.now() == 24.5 + 95.0


def test_at_a_tie_the_running_job_stays() -> None:
    world = ToyWorld(toy_cluster(), [toy_job("a", 16, 20), toy_job("b", 16, 15, submit_s=5.0)])
    core = played(world, "srsf-preemptive")
    assert not any(isinstance(d, Stop) for _, d in decided(core))


def test_turn_is_the_remaining_service() -> None:
    """p0 + p1 x iterations left = 0.5 s x 4 GPUs x iterations left."""
    view = Core(resolve("fifo"), ToyWorld(toy_cluster(), [])).view
    assert ShortestRemainingServiceFirst().turn(view, JobView(toy_job("a", 4, 10, 0.5))) == (0.0, 2.0)
    job = JobView(toy_job("a", 4, 10, 0.5))
    assert ShortestRemainingServiceFirst.from_text("length").turn(view, job) == (0.0, 0.5)
    assert ShortestRemainingServiceFirst.from_text("size").turn(view, job) == (4.0, 0.0)


def test_parameter() -> None:
    with pytest.raises(StackError, match=r"not known|takes a (whole )?number|twice"):
        ShortestRemainingServiceFirst.from_text("2")


def test_a_running_job_gives_way_to_one_of_higher_priority_and_to_no_other() -> None:
    """The running job has 95 s left. A short job of lower priority waits; a long one of higher priority does not."""
    low, high = toy_job("low", 16, 1, submit_s=5.0), toy_job("high", 16, 500, submit_s=5.0)
    for other, priority, stops in ((low, -1, False), (low, 0, True), (high, 0, False), (high, 1, True)):
        jobs = [toy_job("long", 16, 100), replace(other, priority=priority)]
        core = played(ToyWorld(toy_cluster(), jobs), "srsf-preemptive", until=6.0)
        stopped = any(isinstance(d, Stop) for _, d in decided(core))
        assert stopped is stops, (other.id, priority)
