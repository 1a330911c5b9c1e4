"""The story of a job: every decision has words, and says why, of paths too."""

from __future__ import annotations

from typing import get_args

import polars as pl
import pytest

from weft.core.journal import rows
from weft.core.stack import Stack
from weft.model.job import Job
from weft.model.plan import Decision, Gate, Hold, SetGate, SetRoutes, Start, Stop
from weft.model.profile import Phase, Profile
from weft.model.reason import Why, because, both, read_why, speak
from weft.network.topologies import Machine, leaf_spine
from weft.policies.route.base import whole
from weft.results.explain import decision_line, explain_run
from weft.results.run import RunResult
from weft.sim import simulate
from weft.stacks.registry import make
from weft.testing.probes import Fixed

OF_EACH_KIND: tuple[Decision, ...] = (
    Start("a", (0,), "why"), Stop("a", "why"), SetGate("a", Gate(0.0), "why"),
    SetRoutes("a", (whole(0),), "why"), Hold("a", "why"),
)  # fmt: skip


def test_every_decision_has_words() -> None:
    assert {type(decision) for decision in OF_EACH_KIND} == set(get_args(Decision))
    actions = rows([(1, 0.0, decision) for decision in OF_EACH_KIND])["action"]
    told = [decision_line(action, "server 0: 0", "why") for action in actions]
    assert len(set(told)) == len(OF_EACH_KIND)
    assert all(line.endswith(": why") for line in told)


def two_jobs(route: str) -> RunResult:
    """Two jobs between two racks of two servers, over two spines; the second comes 4 s later."""
    cluster = leaf_spine(2, 2, Machine(gpus_per_server=1), spines=2)
    phases = [Phase(1.0), Phase(bytes=float(cluster.topology.capacity[0]), collective="ring")]
    profile = {2: Profile.from_phases("p", phases, 2)}
    jobs = [Job(name, at, 2, 20, profile) for name, at in (("a", 0.0), ("b", 4.0))]
    stack = Stack("two", Fixed({"a": (0, 2), "b": (1, 3)}), route=make("route", route))
    return simulate(cluster, jobs, stack)


def reasons(run: RunResult) -> list[Why]:
    """Of the jobs' starts."""
    return [read_why(text) for text in run.decisions.filter(pl.col("action") == "start")["reason"]]


@pytest.mark.parametrize("route", ["least-loaded", "edge-colouring", "crux", "sglb"])
def test_a_start_says_why_it_has_its_paths(route: str) -> None:
    """The planner's reason comes first; with ECMP it is the only one."""
    run, plain = reasons(two_jobs(route)), reasons(two_jobs("ecmp"))
    assert len(run) == len(plain) == 2
    assert all(speak(why).startswith(f"{speak(before)}; ") for why, before in zip(run, plain, strict=True))


def test_the_reason_of_paths_is_kept_as_a_code() -> None:
    run, (before, _) = two_jobs("least-loaded"), reasons(two_jobs("ecmp"))
    assert reasons(run)[0] == both(before, because("weft.least-loaded", by="flows"))
    started = explain_run(run, "b").lines[1]
    assert started.time_s == 4.0
    assert started.text.endswith(speak(because("weft.least-loaded", by="flows")))


def test_routes_that_change_are_told() -> None:
    """Each decision of a job has a line, between its submission and its end."""
    run = two_jobs("edge-colouring")
    for job in ("a", "b"):
        its = run.decisions.filter(pl.col("job_id") == job)
        assert len(explain_run(run, job).lines) == its.height + 2
    assert "route" in run.decisions["action"].to_list()
