import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

from live.tests.testbed.needs import need_testbed
from weft.network.topologies import Machine, leaf_spine
from weft.stacks.registry import make
from weft_live.agent.control import Control, cpu_s
from weft_live.agent.host import FLOOR_BYTES_PER_S, Agent
from weft_live.agent.sockets import UNLIMITED, Process
from weft_live.testbed.build import Testbed
from weft_live.testbed.jobs import foreign
from weft_live.testbed.plan import blueprint

need_testbed()
pytestmark = [pytest.mark.testbed, pytest.mark.alone]


def _streams(bed: Testbed, n: int) -> None:
    here, there = bed.blueprint.hosts[:2]
    foreign(bed, here.server, there.server, n, env={"WEFT_JOB": "stream"})


def _agent(bed: Testbed, folder: Path, n: int) -> Agent:
    agent = Agent("s0", folder, netns=bed.namespace("s0"))
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
            before, start = agent.moved("stream"), time.monotonic()
            agent.beat(start)
            time.sleep(0.06)
            sent, took = agent.moved("stream") - before, time.monotonic() - start
            errors.append(abs(sent / took / rate - 1))
        agent.close()
        assert median(errors) < 0.03, sorted(errors)


@pytest.mark.long
def test_a_whole_agent_with_32_sockets_costs_less_than_2_percent_of_a_core(tmp_path: Path) -> None:
    """The process that a server starts, at slots of 60 ms and with as many looks as it makes by itself: two jobs send
    over 16 connections each, and one of them is held."""
    cluster = leaf_spine(1, 3, Machine(gpus_per_server=2, nic_gbps=50.0))
    with Testbed(blueprint(cluster, 125.0)) as bed:
        hosts = {"s0": bed.namespace("s0")}
        with Control(cluster, make("pace", "priority"), tmp_path, hosts, 125.0, slot_s=0.06) as control:
            control.wait()
            senders = []
            for n, peer in enumerate((1, 2)):
                control.add(f"j{n}", [n, 2 * peer + n])
                senders.append(foreign(bed, 0, peer, 16, env={"WEFT_JOB": f"j{n}"})[1].pid)
            until = time.monotonic() + 20.0
            while _limits(senders) != [[UNLIMITED] * 16, [FLOOR_BYTES_PER_S] * 16]:
                assert time.monotonic() < until
                time.sleep(0.1)
            shares, pid = [], control.agents["s0"].pid
            for _ in range(3):  # interrupts for others count as time of whoever runs
                used, began = cpu_s(pid), time.monotonic()
                time.sleep(3.0)
                shares.append((cpu_s(pid) - used) / (time.monotonic() - began))
            assert _limits(senders) == [[UNLIMITED] * 16, [FLOOR_BYTES_PER_S] * 16]  # it has worked meanwhile
        assert min(shares) < 0.02, shares


def _limits(pids: Sequence[int]) -> list[list[int]]:
    """What the kernel allows the sockets of processes."""
    processes = [Process(pid) for pid in pids]
    found = [[remote.paced() for remote in process.sockets({}).values()] for process in processes]
    for process in processes:
        process.close()
    return found
