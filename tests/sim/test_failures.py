"""Servers that fail at random, and jobs that go on from their last checkpoint."""

from collections import Counter
from typing import Any

import pytest

import weft
from weft.errors import InputError
from weft.model.job import Job
from weft.model.profile import Compute, Profile
from weft.network.topologies import Machine, single_switch
from weft.sim import RunSpec, simulate
from weft.sim.failures import FAILURES, HOUR_S, FailureSpec, Losses
from weft.stacks import resolve

CLUSTER = single_switch(4, Machine(gpus_per_server=8))


def failures(spec: FailureSpec, until_s: float, seed: int = 0) -> list[tuple[float, int]]:
    """When which server of the cluster fails."""
    losses, found = Losses(CLUSTER, (), spec, seed), []
    while losses.next_s <= until_s:
        now = losses.next_s
        found += [(now, server) for server, lost in losses.due(now) if lost]
    return found


def test_failures_come_at_the_rate_and_hit_all_servers() -> None:
    """Rate x GPUs x hours: 0.01 x 32 x 20,000 = 6,400 failures; a Poisson count has a deviation of 80."""
    found = failures(FailureSpec(0.01), 20_000 * HOUR_S)
    assert len(found) == pytest.approx(6_400, abs=4 * 80)
    hits = Counter(server for _, server in found)
    assert set(hits) == {0, 1, 2, 3}
    assert min(hits.values()) > 0.9 * 6_400 / 4


def test_a_server_that_is_away_does_not_fail() -> None:
    """With a repair of r a server fails every 1 / rate + r on average."""
    spec = FailureSpec(0.01, repair_s=12.5 * HOUR_S)
    found = failures(spec, 20_000 * HOUR_S)
    assert len(found) == pytest.approx(4 * 20_000 / (1 / 0.08 + 12.5), rel=0.05)
    last: dict[int, float] = {}
    for now, server in found:
        assert now - last.get(server, -1e9) > spec.repair_s
        last[server] = now


@pytest.mark.parametrize(("every", "repair_s"), [(1, 0.0), (50, 0.0), (50, 90.0)])
def test_a_job_goes_on_from_its_last_checkpoint(every: int, repair_s: float) -> None:
    """1,000 iterations of 2 s on all servers. At each failure the job falls back to a multiple of `every`, waits for
    the server and pays 7 s for its restart."""
    spec, restart_s = FailureSpec(0.8, repair_s), 7.0
    job = Job("a", 0.0, 32, 1_000, {32: Profile("p", (Compute("c", 2.0),), 32)}, checkpoint_every=every)
    at, saved, n = 0.0, 0, 0
    for now, _ in failures(spec, 1e7, seed=3):
        if now >= at + 2.0 * (1_000 - saved):
            break
        if now >= at:
            done = saved + int((now - at) / 2.0)
            saved = max(saved, done - done % every)
        at, n = now + repair_s + restart_s, n + 1
    run = RunSpec(seed=3, restart_s=restart_s, failures=spec)
    row = simulate(CLUSTER, [job], resolve("fifo"), run=run).jobs.row(0, named=True)
    assert n > 3  # so that there was something to see
    assert row["finish_s"] == pytest.approx(at + 2.0 * (1_000 - saved), rel=1e-9)


@pytest.mark.parametrize("stack", ["fifo", "srsf-tight", "weft"])
def test_nothing_runs_on_a_server_that_is_away(stack: str) -> None:
    """Whatever the stack, the same servers are away at the same times."""
    spec = FailureSpec(0.5, repair_s=60.0)
    jobs = [Job(f"j{i}", 0.0, 8, 500, {8: Profile("p", (Compute("c", 2.0),), 8)}) for i in range(9)]
    run = simulate(CLUSTER, jobs, resolve(stack), run=RunSpec(seed=5, restart_s=3.0, failures=spec), record=True)
    assert run.jobs["finish_s"].is_not_null().all()
    hit = 0
    for now, server in failures(spec, max(run.jobs["finish_s"]), seed=5):
        there = set(CLUSTER.servers[server].gpus)
        for _, start, end, gpus, _ in run.spans.iter_rows():
            if there & set(gpus):
                assert end <= now or start >= now + spec.repair_s - 1e-9
                hit += end == now
    assert hit > 3


def test_published_rates() -> None:
    """Llama 3: one interruption in three hours on 16,384 GPUs, 54 days and 419 of them."""
    assert FAILURES["llama-3"].per_gpu_hour * 16_384 == pytest.approx(419 / (54 * 24))
    assert FAILURES["rsc-1"].per_gpu_hour > FAILURES["llama-3"].per_gpu_hour > FAILURES["rsc-2"].per_gpu_hour


def scenario(**run: Any) -> dict[str, Any]:
    """Two jobs on eight servers."""
    return {
        "cluster": {"topology": "single-switch", "servers": 8, "gpus_per_server": 4},
        "workload": {
            "source": "batch", "jobs": 2, "gpus": {"16": 1}, "models": ["resnet50"], "iterations": [3000, 3000],
        },
        "stack": {"name": "fifo"}, "run": run,
    }  # fmt: skip


def test_a_scenario_says_them() -> None:
    quiet = weft.simulate(scenario()).summary()
    told = weft.simulate(scenario(failures={"per_gpu_hour": 1.0}, checkpoint_s=100.0)).summary()
    named = weft.simulate(scenario(failures="llama-3"))
    assert told["makespan_s"] > quiet["makespan_s"]
    assert named.summary()["makespan_s"] == quiet["makespan_s"]  # a failure in 66 days on 32 GPUs


@pytest.mark.parametrize(
    "run",
    [
        {"failures": "llama-9"}, {"failures": {"per_gpu_hour": 0.0}}, {"failures": {"repair_s": 5.0}},
        {"checkpoint_s": 60.0, "checkpoint_every": 5}, {"checkpoint_s": 0.0},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(run: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"run\."):
        weft.simulate(scenario(**run))
