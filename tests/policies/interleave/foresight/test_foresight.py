"""foresight: conforms; two jobs that would meet are held apart by one delay."""

import pytest

from weft.core.stack import Stack
from weft.errors import StackError
from weft.model.flows import Traffic
from weft.model.job import Job
from weft.model.profile import Phase, Profile
from weft.network.topologies import Machine, single_switch
from weft.policies.interleave.base import Interleave, NoInterleave
from weft.policies.interleave.foresight import Foresight, contending
from weft.policies.interleave.foresight.slots import Room, Way, schedule
from weft.sim import simulate
from weft.testing import check_interleave, toy_cluster
from weft.testing.probes import Fixed


def test_conforms() -> None:
    check_interleave(Foresight, range(3))
    check_interleave(lambda: Foresight(2), range(1))


def test_links_of_a_rack_count_together() -> None:
    """Two jobs over different spines: each has all of its link, and both together the two links up of a rack."""
    cluster = toy_cluster(2, 2, 4)
    up = [link.id for link in cluster.topology.links if link.src == "leaf0" and link.dst.startswith("spine")]
    line = float(cluster.topology.capacity[up[0]])
    one, two = (Traffic(2.0, 1, 1.0, 0.0, {link: ((0.0, 1.0, line),)}) for link in up)
    assert contending(cluster, {"a": one, "b": two}) == ({}, {})
    three = {"a": one, "b": two, "c": one}
    ways, room = contending(cluster, three)
    assert sorted(ways) == ["a", "b", "c"]
    assert room == {("leaf0", "up"): 2 * line}
    assert ways["a"].loads == {("leaf0", "up"): line}
    assert (ways["a"].period_s, ways["a"].offset_s, ways["a"].window_s) == (2.0, 1.0, 1.0)


def test_settings() -> None:
    assert Foresight.from_text("ahead=3").name == "foresight:ahead=3"
    with pytest.raises(StackError):
        Foresight.from_text("ahead=0")


def ends(interleave: Interleave, *computes_s: float, iterations: int = 10) -> list[float]:
    """When jobs end that each have a worker on both of two servers: they compute, then send for 4 s alone."""
    n = len(computes_s)
    cluster = single_switch(2, Machine(gpus_per_server=n))
    line = float(cluster.topology.capacity[0])
    jobs = []
    for i, compute_s in enumerate(computes_s):
        profile = Profile.from_phases(
            f"p{compute_s}", [Phase(compute_s), Phase(bytes=4.0 * line, collective="ring")], 2
        )
        jobs.append(Job(str(i), 0.0, 2, iterations, {2: profile}))
    planner = Fixed({str(i): (i, n + i) for i in range(n)})
    found = simulate(cluster, jobs, Stack("x", planner, interleave)).jobs.sort("job_id")
    return [float(end) for end in found["finish_s"]]


def test_two_jobs_take_turns() -> None:
    """Together they share the link and need 4 + 8 s for each iteration. One delay of 4 s keeps them apart for ever."""
    assert ends(NoInterleave(), 4.0, 4.0) == pytest.approx([120.0, 120.0])
    for ahead in (1, 2, 8):
        assert ends(Foresight(ahead), 4.0, 4.0) == pytest.approx([80.0, 84.0])


def test_three_jobs_take_turns() -> None:
    assert ends(Foresight(), 8.0, 8.0, 8.0) == pytest.approx([120.0, 124.0, 128.0])


def test_periods_that_differ() -> None:
    """8 and 12 s: each of the delays is found in the schedule, iteration by iteration."""
    one, two = Way(8.0, 4.0, 4.0, {"e": 1.0}), Way(12.0, 8.0, 4.0, {"e": 1.0})
    slots = schedule({"0": [one], "1": [two]}, Room({"e": 1.0}), {"0": 0.0, "1": 0.0}, 96.0)
    assert any(slot.delay_s for slot in slots["0"][1:])
    for n in (3, 6, 10):
        assert ends(Foresight(8), 4.0, 8.0, iterations=n)[0] == pytest.approx(slots["0"][n - 1].ends_s)
