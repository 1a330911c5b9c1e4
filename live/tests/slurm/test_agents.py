"""Agents on the nodes of a real Slurm: jobs that nobody edited are paced and shifted on their sockets.

All nodes of the sandbox are this machine, and have one network, its loopback. So what is shown is that a node's agent
finds the tasks of its own node and no others, that orders reach them, and that they are let go; not what pacing gains.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from live.tests.slurm.serving import Serving, ended, running, serve_until
from live.tests.slurm.test_fuzz import installed
from live.tests.testbed.needs import need_testbed
from testkit.engines import load_torch, missing_engine
from testkit.sandbox import Sandbox, missing
from weft.core.stack import Stack
from weft.errors import StackError
from weft.model.plan import Candidate, Gate, State
from weft.model.view import ClusterView
from weft.policies.interleave.base import Interleave, Pick
from weft.policies.pace.admission import Fair
from weft.stacks import resolve
from weft_live.agent.conductor import HELD_BYTES_PER_S
from weft_live.agent.namespaces import inside, new_namespace, refine
from weft_live.agent.sockets import UNLIMITED, Process
from weft_live.agent.worlds import PacedSlurmWorld
from weft_live.server.server import Server
from weft_live.slurm.notes import write_gate

pytestmark = pytest.mark.engine
STACK = "fifo[place=even:best-fit]"
TRAIN = Path(__file__).parents[3] / "examples" / "ddp" / "train.py"
LENGTHS = "ITERATIONS=12 COMPUTE_S=0.62"
STREAM = Path(__file__).parents[1] / "agent" / "stream.py"
SHAPE = ("--nodes=2", "--gpus-per-node=4", "--ntasks=2", "--ntasks-per-node=1")
Agents = Callable[[Server, str], "subprocess.Popen[bytes]"]

# Computes for 0.62 s and sends 4 MB to itself, nine times; writes down when they had arrived.
BURSTS = """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
sender = socket.create_connection(listener.getsockname())
receiver, _ = listener.accept()
for _ in range(9):
    time.sleep(0.62)
    sender.setblocking(False)
    out = come = 4_000_000
    while come:
        if out:
            try:
                out -= sender.send(bytes(min(out, 1 << 16)))
            except BlockingIOError:
                pass
        receiver.settimeout(0.001)
        try:
            come -= len(receiver.recv(1 << 16))
        except TimeoutError:
            pass
    with open(sys.argv[1], "a") as file:
        print(time.monotonic(), file=file)
"""


@contextmanager
def _started() -> Iterator[Agents]:
    """Starts the agent of a node, as its init system would."""
    made: list[subprocess.Popen[bytes]] = []

    def start(server: Server, node: str) -> subprocess.Popen[bytes]:
        world = server.world
        assert isinstance(world, PacedSlurmWorld)
        server.run(world.now() + 0.05)  # agents are awaited from the first look on
        assert world.plane.control is not None
        address = world.plane.control.service.address
        argv = ["agent", "--host", node, "--server", address, "--dir", str(world.folder), "--watch-ms", "10", "--near"]
        made.append(subprocess.Popen([sys.executable, "-m", "weft", *argv]))
        serve_until(server, lambda: node in world.plane.open().service.hosts)
        return made[-1]

    try:
        yield start
    finally:
        for agent in made:
            agent.kill()
            agent.wait()


@pytest.fixture
def agents(serving: Serving) -> Iterator[Agents]:
    """Starts agents, which end with the test."""
    with _started() as start:
        yield start


def limits(job: str, node: str) -> set[int]:
    """What the kernel allows the sockets of a job's tasks on a node."""
    found: set[int] = set()
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            told = set(process.read_bytes().split(b"\0"))
            if {f"WEFT_JOB={job}".encode(), f"SLURMD_NODENAME={node}".encode()} <= told:
                there = Process(int(process.parent.name))
                found |= {socket.paced() for socket in there.sockets({}).values()}
                there.close()
        except OSError:
            continue
    return found - {0}


@pytest.mark.alone
def test_a_pace_is_refused_without_agents_and_carried_out_by_those_of_a_jobs_nodes(
    serving: Serving, box: Sandbox, agents: Agents
) -> None:
    policies = resolve(STACK, pace="priority")
    with pytest.raises(StackError, match="leaves that to the network"):
        serving.start(policies)
    server = serving.start(policies, agents="127.0.0.1:0")
    first, _ = agents(server, "n1"), agents(server, "n2")
    script = f"srun {sys.executable} {STREAM}"
    old = serving.sbatch(8, script, *SHAPE)
    serve_until(server, running(server, old))
    new = serving.sbatch(8, script, *SHAPE)  # four GPUs of the same two nodes: the NICs are shared
    both = [(job, node) for job in (old, new) for node in ("n1", "n2")]
    wanted = {(old, node): {UNLIMITED} for node in ("n1", "n2")} | {
        (new, node): {HELD_BYTES_PER_S} for node in ("n1", "n2")
    }
    serve_until(server, lambda: {at: limits(*at) for at in both} == wanted, 120.0)
    assert any(line.startswith(f"{new}: its TCP sockets are paced on 2 servers; RDMA") for line in serving.said)

    first.kill()  # the guardian lets go of what it had paced, on its node alone
    until = time.monotonic() + 3.0
    while limits(new, "n1") != {UNLIMITED}:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert limits(new, "n2") == {HELD_BYTES_PER_S}
    agents(server, "n1")
    serve_until(server, lambda: limits(new, "n1") == {HELD_BYTES_PER_S}, 60.0)

    box.run("scancel", old)  # the younger one has the network to itself
    serve_until(server, lambda: limits(new, "n1") == limits(new, "n2") == {UNLIMITED}, 120.0)
    box.run("scancel", new)
    serve_until(server, ended(server, old, new))


class Held(Interleave):
    """Every job has one gate."""

    name = "held"
    shifts = True
    gate = Gate(epoch_s=1.0, period_s=0.85, tolerance=0.1)

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        plan = candidates[0].plan
        gates = dict.fromkeys(plan.placements, self.gate)
        return Pick(replace(candidates[0], plan=replace(plan, gates=gates)), state, dict.fromkeys(gates, "held"))


@pytest.mark.long
@pytest.mark.testbed
def test_a_gate_holds_the_bytes_of_a_job_that_reports_nothing(tmp_path: Path) -> None:
    """It computes for 0.62 s and sends at once. Its gate opens every 0.85 s, and its bytes arrive some time after an
    opening, always the same: a connection that was held takes a moment to gather speed.

    This Slurm has a network of its own, with packets as on Ethernet: where a packet has 64 kB, as on a plain loopback,
    a connection that was held stays so for half a second after it was let go."""
    _on_ethernet(tmp_path, _gated)


@pytest.mark.long
@pytest.mark.testbed
def test_a_gate_holds_ddp_jobs_over_gloo_that_nobody_edited(tmp_path: Path) -> None:
    """Their gates open every 0.85 s, and they exchange their gradients once per opening, though an iteration alone
    takes 0.7 s. They are held inside the iteration where `weft run` started them, else by their sockets."""
    load_torch()

    def gated(serving: Serving, agents: Agents, tmp_path: Path) -> None:
        server, epoch_s = _with_gates(serving)
        agents(server, "n1"), agents(server, "n2")
        jobs = {}
        for port, start in ((29511, f"{sys.executable} -m weft run --"), (29512, "exec")):
            rank = tmp_path / f"{port}.sh"
            rank.write_text(f"RANK=$SLURM_PROCID WEFT_LOG={rank}.$SLURM_PROCID {start} {sys.executable} {TRAIN}\n")
            settings = f"MASTER_ADDR=127.0.0.1 MASTER_PORT={port} WORLD_SIZE=2 GLOO_SOCKET_IFNAME=lo {LENGTHS}"
            jobs[serving.sbatch(8, f"env {settings} srun sh {rank}", *SHAPE)] = rank
        serve_until(server, ended(server, *jobs))
        assert serving.statuses() == dict.fromkeys(jobs, "finished")
        for rank in jobs.values():
            for log in (f"{rank}.0", f"{rank}.1"):
                late = (np.loadtxt(log)[-6:, 2] - epoch_s) % Held.gate.period_s
                assert np.mean(np.abs(late - np.median(late)) < 0.1) >= 0.7, (log, late)  # unheld: 0.15 s apart

    _on_ethernet(tmp_path, gated)


def _on_ethernet(tmp_path: Path, part: Callable[[Serving, Agents, Path], None]) -> None:
    """Run something on a Slurm of two nodes with a network of its own, with packets as on Ethernet."""
    need_testbed()
    if why := missing():
        missing_engine(f"Slurm ({why})")

    def like_ethernet() -> None:
        for words in (
            "link set lo up mtu 1500", "link add near type veth peer name far", "address add 10.77.0.1/16 dev near",
            "link set near up", "link set far up",
        ):  # fmt: skip
            subprocess.run(["ip", *words.split()], check=True)  # Slurm wants an address beside that of loopback
        refine()
        with Sandbox(tmp_path / "slurm", 2) as box:
            serving = Serving(box, tmp_path)
            try:
                with _started() as agents:
                    part(serving, agents, tmp_path)
            finally:
                serving.close()

    namespace = new_namespace()
    try:
        inside(namespace, like_ethernet)
    finally:
        os.close(namespace)


def _with_gates(serving: Serving) -> tuple[Server, float]:
    """A server that gives every job a gate, and the moment from which its openings count, by the monotonic clock."""
    server = serving.start(Stack("held", resolve(STACK).planner, Held(), Fair()), agents="127.0.0.1:0")
    world = server.world
    assert isinstance(world, PacedSlurmWorld)
    world.plane.tells_s = 0.5
    return server, world.clock.monotonic(Held.gate.epoch_s)


def _gated(serving: Serving, agents: Agents, tmp_path: Path) -> None:
    (tmp_path / "bursts.py").write_text(BURSTS)
    server, epoch_s = _with_gates(serving)
    agents(server, "n1")
    job = serving.sbatch(8, f"srun {sys.executable} -S {tmp_path}/bursts.py {tmp_path}/log", "--ntasks=1")
    serve_until(server, ended(server, job))
    assert serving.statuses() == {job: "finished"}
    late = (np.loadtxt(tmp_path / "log") - epoch_s) % Held.gate.period_s
    usual = float(np.median(late[3:]))
    assert np.mean(np.abs(late[3:] - usual) < 0.1) >= 0.7, late  # unheld they would come at any time between openings


def test_a_relay_holds_a_job_inside_its_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`weft run` has a DDP script ask before its first bucket: the gate is later by what comes before that."""
    module = installed(tmp_path / "etc")
    clock = SimpleNamespace(monotonic=lambda: 10.0, time=lambda: 2000.0)
    monkeypatch.setitem(module.answer.__globals__, "time", clock)  # those of reports.py, which lies beside it
    relay = module.Relay(str(tmp_path / "r.sock"), str(tmp_path), os.getpid())
    write_gate(tmp_path, (2000.5, 100.0, 0.05, 0.3))
    for said, at in (({"step": 1}, 10.5), ({"step": 2, "inside": True}, 10.8)):
        for rank in (0, 1):
            answer = json.loads(relay.answer(json.dumps({**said, "rank": rank}).encode()))
            assert answer["at"] == pytest.approx(at)
    relay.listener.close()
