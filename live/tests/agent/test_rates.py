"""A rate that an agent sets is kept by the kernel, and what watching and pacing 32 sockets costs."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

from live.tests.testbed.needs import need_testbed
from weft.network.topologies import Machine, leaf_spine
from weft.stacks.registry import make
from weft_live.agent.control import Control, cpu_s
from weft_live.agent.diag import Diag
from weft_live.agent.host import FLOOR_BYTES_PER_S, Agent
from weft_live.agent.processes import jobs_here, namespace_of
from weft_live.agent.sockets import UNLIMITED, Process
from weft_live.testbed.build import Testbed
from weft_live.testbed.jobs import foreign
from weft_live.testbed.plan import blueprint

need_testbed()
pytestmark = pytest.mark.testbed


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
@pytest.mark.alone
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


@pytest.mark.parametrize("family", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_sockets_are_read_at_one_go_as_one_by_one(family: str) -> None:
    """The kernel is asked about each by its addresses and cookie, also where IPv4 is spoken by a socket of IPv6."""
    kind = socket.AF_INET if family == "127.0.0.1" else socket.AF_INET6
    with socket.create_server((family, 0), family=kind, dualstack_ipv6=family.startswith("::ffff")) as listener:
        senders = [socket.create_connection(listener.getsockname()[:2]) for _ in range(70)]
        takers = [listener.accept()[0] for _ in senders]
        for n, sender in enumerate(senders):
            sender.sendall(bytes(1000 + n))
        process, diag = Process(os.getpid()), Diag()
        try:
            mine = {os.fstat(sender.fileno()).st_ino for sender in senders}
            remotes = [remote for inode, remote in process.sockets({}).items() if inode in mine]
            assert len(remotes) == 70
            until = time.monotonic() + 5.0
            while (told := diag.read(remotes)) != [remote.read() for remote in remotes]:
                assert time.monotonic() < until
            assert sorted(reading[0] for reading in told if reading) == [1001 + n for n in range(70)]  # and the SYN
            takers[0].close()
            senders[0].close()
            while (told := diag.read(remotes)) != [remote.read() for remote in remotes]:
                assert time.monotonic() < until
            assert sum(reading is None for reading in told) == 1
        finally:
            diag.close()
            process.close()
            for end in (*senders, *takers):
                end.close()


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
            until, found = time.monotonic() + 10.0, dict[int, str]()
            while process.pid not in found and time.monotonic() < until:  # its environment comes after its start
                found = jobs_here(namespace_of("self"), {})
        finally:
            process.kill()
    assert found[process.pid] == "\ufffd"
