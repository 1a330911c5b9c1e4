"""A rate that an agent sets is kept by the kernel, and what watching and pacing 32 sockets costs."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from statistics import median

import pytest

from tests.testbed.needs import need_testbed
from weft.agent.host import Agent
from weft.agent.processes import jobs_here, namespace_of
from weft.model.topologies import Machine, leaf_spine
from weft.testbed.build import Testbed
from weft.testbed.jobs import foreign
from weft.testbed.plan import blueprint

need_testbed()
pytestmark = pytest.mark.testbed


def _streams(bed: Testbed, n: int) -> None:
    here, there = bed.blueprint.hosts[:2]
    foreign(bed, here.server, there.server, n, env={"WEFT_JOB": "stream"})


def _agent(bed: Testbed, folder: Path, n: int) -> Agent:
    agent = Agent("s0", folder, namespace=bed.inode("s0"))
    until = time.monotonic() + 10
    while time.monotonic() < until and len(agent.jobs["stream"].sockets if "stream" in agent.jobs else ()) < n:
        agent.scan()
        time.sleep(0.1)
    return agent


def test_a_rate_is_kept_within_3_percent_at_slots_of_60_ms(tmp_path: Path) -> None:
    with Testbed(blueprint(leaf_spine(1, 2, Machine(nic_gbps=50.0)), 125.0)) as bed:
        _streams(bed, 1)
        agent = _agent(bed, tmp_path, 1)
        errors = []
        for k in range(32):
            rate = (5e6, 20e6, 10e6, 30e6)[k % 4]
            agent.order("stream", rate)
            before, start = agent._progress(agent.jobs["stream"])[0], time.monotonic()
            agent.beat(start)
            time.sleep(0.06)
            sent, took = agent._progress(agent.jobs["stream"])[0] - before, time.monotonic() - start
            errors.append(abs(sent / took / rate - 1))
        agent.close()
        assert median(errors) < 0.03, sorted(errors)


def _share_of_a_core(agent: Agent) -> float:
    """What the agent takes in two seconds of slots of 60 ms."""
    start, used, k = time.monotonic(), time.process_time(), 0
    while time.monotonic() - start < 2.0:
        k += 1
        agent.order("stream", 20e6 + 1e3 * k)
        now = time.monotonic()
        agent.beat(now)
        agent.look(now)
        time.sleep(max(0.0, start + 0.06 * k - time.monotonic()))
    return (time.process_time() - used) / (time.monotonic() - start)


def test_32_sockets_cost_less_than_2_percent_of_a_core(tmp_path: Path) -> None:
    """Everything that an agent does at slots of 60 ms, a new rate for each socket in every slot included."""
    with Testbed(blueprint(leaf_spine(1, 2, Machine(nic_gbps=50.0)), 125.0)) as bed:
        _streams(bed, 32)
        agent = _agent(bed, tmp_path, 32)
        assert len(agent.jobs["stream"].sockets) == 32
        shares = [_share_of_a_core(agent) for _ in range(3)]  # interrupts for others count as time of whoever runs
        agent.close()
        assert min(shares) < 0.02


def test_a_pipe_that_nobody_reads_is_no_socket(tmp_path: Path) -> None:
    """Processes without connections are found, and there is nothing to pace."""
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, "WEFT_JOB": "quiet"})
    agent = Agent("here", tmp_path)
    try:
        until = time.monotonic() + 5
        while "quiet" not in agent.jobs and time.monotonic() < until:
            agent.scan()
            agent.beat(time.monotonic())
            time.sleep(0.05)
        assert agent.jobs["quiet"].sockets == {}
    finally:
        child.kill()
        child.wait()
        agent.close()


def test_a_job_whose_name_is_no_text_does_not_stop_the_agent() -> None:
    """Whoever may start a process may write anything into its environment."""
    with subprocess.Popen(["sleep", "30"], env={b"WEFT_JOB": b"\xff"}) as process:
        try:
            found = jobs_here(namespace_of("self"), {})
        finally:
            process.kill()
    assert found[process.pid] == "\ufffd"
