"""random and ideal: conform; at random; a cluster each."""

from typing import Any

import pytest

import weft
from tests.policies.planners.test_themis import sequence
from weft.network.topologies.clos import cassini
from weft.policies.planners.baselines import Ideal, RandomPlanner
from weft.results.metrics import summary
from weft.testing import check_planner, toy_job
from weft.testing.toy import UNEQUAL


@pytest.mark.parametrize("planner", [RandomPlanner, Ideal])
def test_conforms(planner: Any) -> None:
    check_planner(planner, range(3))


def test_random_by_hand() -> None:
    """Four GPUs; a (2) and b (2) start, c (3) and d (1) wait; at 10 s two are free: d passes c."""
    jobs = [toy_job("a", 2, 10), toy_job("b", 2, 20), toy_job("c", 3, 5), toy_job("d", 1, 5)]
    assert sequence("random", *jobs) == [
        (0.0, "Start", "a", 2), (0.0, "Start", "b", 2), (10.0, "Start", "d", 1), (20.0, "Start", "c", 3),
        (25.0, "end", "", 0),
    ]  # fmt: skip


def test_ideal_by_hand_one_cluster() -> None:
    """Where there is one cluster, jobs have it one after another."""
    assert sequence("ideal", toy_job("a", 2, 10), toy_job("b", 2, 20)) == [
        (0.0, "Start", "a", 2), (10.0, "Start", "b", 2), (30.0, "end", "", 0),
    ]  # fmt: skip


def test_copies_have_nothing_in_common() -> None:
    cluster = cassini()
    three = cluster.copied(3)
    assert (three.copies, three.n_gpus, three.n_racks) == (3, 72, 18)
    for src, dst in ((0, 9), (3, 20)):
        one = cluster.topology.route(src, dst, 5)
        for copy in range(3):
            route = three.topology.route(src + 24 * copy, dst + 24 * copy, 5)
            assert route == tuple(link + copy * len(cluster.topology.links) for link in one)


def test_ideal_is_every_job_alone() -> None:
    """Three jobs that would meet on one uplink: iteration times are those of the job alone."""
    scenario = {
        "cluster": {"topology": "cassini"},
        "workload": {
            "source": "jobs",
            "job": [{"id": f"j{i}", "model": "vgg16", "gpus": 8, "iterations": 20} for i in range(3)],
        },
    }
    alone = {**scenario, "workload": {"source": "jobs", "job": scenario["workload"]["job"][:1]}}  # type: ignore[index]
    together = summary(weft.simulate(scenario, stack="ideal"))
    assert together["iteration_s"]["p99"] == pytest.approx(
        summary(weft.simulate(alone, stack="ideal"))["iteration_s"]["mean"]
    )
    assert together["queueing_s"]["mean"] == 0.0


@pytest.mark.parametrize("planner", [RandomPlanner, Ideal])
def test_conforms_on_unequal_gpus(planner: Any) -> None:
    check_planner(planner, (UNEQUAL,))
