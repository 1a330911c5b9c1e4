import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from live.tests.agent.moments import PATIENCE_S, wait
from live.tests.jobs import ENVIRONMENT
from live.tests.serving import all_ended, serve_until, server
from weft.network.topologies import Machine, leaf_spine
from weft.scenario import Scenario
from weft.scenario.build import build_cluster
from weft.stacks import resolve
from weft_live.agent.conductor import HELD_BYTES_PER_S
from weft_live.agent.host import Agent
from weft_live.agent.processes import jobs_here, may_trace, namespace_of
from weft_live.agent.sockets import UNLIMITED, Process
from weft_live.agent.switch import links_of
from weft_live.agent.trust import secret_of
from weft_live.agent.wire import Line
from weft_live.agent.worlds import PacedLocalEngine, PacedWorld
from weft_live.engine import find
from weft_live.local.engine import DryWorld
from weft_live.server.server import Server

if not may_trace():
    pytest.skip("looking into other processes needs root, or kernel.yama.ptrace_scope = 0", allow_module_level=True)
STREAM = Path(__file__).with_name("stream.py")


def _limits(job: str, folder: Path) -> set[int]:
    """What the kernel allows the sockets of a job of the server that has this folder, or one in it."""
    found = set()
    for process in Path("/proc").glob("[0-9]*/environ"):
        try:
            told = process.read_bytes()
            mine = f"WEFT_JOB={job}\0".encode() in told and f"WEFT_SERVER_DIR={folder}".encode() in told
            if mine and b"stream.py" in (process.parent / "cmdline").read_bytes():
                with closing(Process(int(process.parent.name))) as there:
                    found |= {s.paced() for s in there.sockets({}).values()}
        except OSError:
            continue
    return found


def test_priority_is_carried_out_live_and_let_go_at_the_end(tmp_path: Path) -> None:
    cluster = leaf_spine(1, 3, Machine(gpus_per_server=2))  # both jobs have a part of s1
    engine = find("local", {})
    assert isinstance(engine, PacedLocalEngine)
    said: list[str] = []
    serving = Server(tmp_path, cluster, resolve("fifo", pace="priority"), engine=engine, say=said.append)
    with serving:
        world = serving.world
        assert isinstance(world, PacedWorld)
        for name in ("old", "new"):
            job = {"name": name, "argv": [sys.executable, str(STREAM)], "env": ENVIRONMENT, "cwd": "/"}
            serving.submit({**job, "grace_s": 2.0, "gpus": 3})
        serve_until(
            serving, lambda: _limits("new", tmp_path) == {HELD_BYTES_PER_S} and _limits("old", tmp_path) == {UNLIMITED}
        )
        assert world.control is not None
        world.control.agents["local"].kill()
        wait(lambda: _limits("new", tmp_path) == {UNLIMITED})
        serve_until(serving, lambda: _limits("new", tmp_path) == {HELD_BYTES_PER_S})  # there is another agent
        serving.cancel("old")  # the younger one has the network to itself
        serve_until(serving, lambda: _limits("new", tmp_path) == {UNLIMITED})
        serving.cancel("new")
        serve_until(serving, all_ended(serving))
    assert any("cannot be paced" in line for line in said)
    assert world.control is not None
    assert all(agent.poll() is not None for agent in world.control.agents.values())


# Iterations that send to themselves.
BRIEF = """
import socket, threading, time
listener = socket.create_server(("127.0.0.1", 0))
sender = socket.create_connection(listener.getsockname())
receiver, _ = listener.accept()
for _ in range(N):
    time.sleep(0.2)
    reader = threading.Thread(target=lambda: [receiver.recv(1 << 16, socket.MSG_WAITALL) for _ in range(16)])
    reader.start()
    sender.sendall(bytes(1 << 20))
    reader.join()
"""


@pytest.mark.parametrize(("stack", "paced"), [("dally+cassini", False), ("dally+cassini[pace=flow]", True)])
def test_stacks_that_shift_and_pace_are_accepted_and_jobs_finish(stack: str, paced: bool, tmp_path: Path) -> None:
    cluster = leaf_spine(1, 3, Machine(gpus_per_server=2))
    with Server(tmp_path, cluster, resolve(stack), engine=find("local", {}), say=lambda _: None) as serving:
        world = serving.world
        assert isinstance(world, PacedWorld)
        world.plane.tells_s = 600.0  # gates alone need no agent while jobs are young
        for name in ("a", "b"):
            argv = [sys.executable, "-S", "-c", BRIEF.replace("N", "3")]
            job = {"name": name, "argv": argv, "env": ENVIRONMENT, "cwd": "/", "grace_s": 2.0}
            serving.submit({**job, "gpus": 3, "iterations": 3, "model": "resnet50"})
        serve_until(serving, all_ended(serving))
        assert {row.status for row in serving.ledger.jobs()} == {"finished"}
        assert (world.control is not None) == paced


SCENARIO = """
[cluster]
topology = "leaf-spine"
racks = 2
servers_per_rack = 1
gpus_per_server = 2
nic_gbps = 10
"""


@contextmanager
def _switch(folder: Path, *names: str) -> Iterator[str]:
    """A `weft switch` process that keeps these switches; where it listens."""
    where = ["--scenario", str(folder / "cluster.toml"), "--dir", str(folder)]
    argv = ["switch", *where, *(word for name in names for word in ("--switch", name))]
    with subprocess.Popen([sys.executable, "-m", "weft", *argv], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith(f"keeps the tables of {', '.join(names)} at ")
            yield said.split()[-1]
        finally:
            process.kill()


def test_a_process_keeps_the_tables_of_the_switches_that_are_named(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(SCENARIO)
    links = links_of(build_cluster(Scenario.load_site(str(tmp_path / "cluster.toml")), None))
    with _switch(tmp_path, "leaf0") as address, closing(Line(address, secret_of(tmp_path))) as line:
        assert line.ask("keeps", {}, PATIENCE_S)["switches"] == {"leaf0": links["leaf0"]}


@pytest.mark.long
def test_two_processes_keep_the_tables_of_a_flow_job(tmp_path: Path) -> None:
    """One has the leaf of one server, the other the rest; the agent asks both."""
    (tmp_path / "cluster.toml").write_text(SCENARIO)
    cluster = build_cluster(Scenario.load_site(str(tmp_path / "cluster.toml")), None)
    rest = sorted(links_of(cluster).keys() - {"leaf0"})
    said: list[str] = []
    with _switch(tmp_path, "leaf0") as first, _switch(tmp_path, *rest) as second:
        engine = find("local", {"switches": f"{first},{second}"})
        lines = [Line(address, secret_of(tmp_path)) for address in (first, second)]

        def messages() -> list[int]:
            return [line.ask("keeps", {}, PATIENCE_S)["messages"] for line in lines]

        stack = resolve("fifo", pace="flow:slot=50ms")
        with Server(tmp_path, cluster, stack, engine=engine, say=said.append) as serving:
            argv = [sys.executable, "-S", "-c", BRIEF.replace("N", "10000")]
            job = {"name": "a", "argv": argv, "env": ENVIRONMENT, "cwd": "/", "grace_s": 2.0, "gpus": 4}
            serving.submit(job)
            serve_until(serving, lambda: min(messages()) > 2)
            world = serving.world
            assert isinstance(world, PacedWorld)
            assert world.control is not None
            assert world.control.switches is None
            serving.cancel("a")
            serve_until(serving, all_ended(serving))
        for line in lines:
            line.close()
    assert not [line for line in said if "nobody keeps" in line or "weft switch" in line]


@pytest.mark.alone
def test_a_server_that_hangs_is_not_obeyed_for_a_second_and_obeyed_again_when_it_wakes(tmp_path: Path) -> None:
    scenario = SCENARIO.replace("racks = 2\nservers_per_rack = 1", "racks = 1\nservers_per_rack = 3")
    (tmp_path / "cluster.toml").write_text(scenario)
    weft, where = [sys.executable, "-m", "weft"], ["--dir", str(tmp_path / "run")]
    serve = ["serve", str(tmp_path / "cluster.toml"), "--stack", "fifo", "--pace", "priority", *where]

    def wait(limit: int) -> float:
        """Seconds until the sockets of the younger job have this limit."""
        began = time.monotonic()
        while _limits("behind", tmp_path) != {limit}:
            assert time.monotonic() - began < 40.0
            time.sleep(0.02)
        return time.monotonic() - began

    with subprocess.Popen([*weft, *serve], stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stderr is not None
        try:
            while "weft serves with" not in serving.stderr.readline():
                assert serving.poll() is None
            for name in ("before", "behind"):  # three of six GPUs each: both have a part of s1
                job = ["submit", "--gpus", "3", "--name", name, *where, "--", sys.executable, str(STREAM)]
                subprocess.run([*weft, *job], check=True, env=ENVIRONMENT, capture_output=True)
            wait(HELD_BYTES_PER_S)
            for _ in range(2):
                serving.send_signal(signal.SIGSTOP)
                assert wait(UNLIMITED) < 1.2
                serving.send_signal(signal.SIGCONT)
                wait(HELD_BYTES_PER_S)
        finally:
            serving.send_signal(signal.SIGCONT)
            for name in ("before", "behind"):
                subprocess.run([*weft, "cancel", name, *where], check=False, env=ENVIRONMENT, capture_output=True)
            until = time.monotonic() + 20.0
            while _limits("before", tmp_path) | _limits("behind", tmp_path) and time.monotonic() < until:
                time.sleep(0.1)
            serving.terminate()


def test_a_job_of_the_same_name_under_another_server_is_left_alone(tmp_path: Path) -> None:
    """Two servers on one machine, each with a job "a": an agent finds the one of its own server's folder. A process
    that names no folder was started by nobody's server, and any agent may take it."""
    folders = {name: tmp_path / name for name in ("mine", "theirs", "nobody's")}
    children = {}
    for name, folder in folders.items():
        folder.mkdir()
        told = {} if name == "nobody's" else {"WEFT_SERVER_DIR": str(folder.resolve())}
        children[name] = subprocess.Popen([sys.executable, str(STREAM)], env={**ENVIRONMENT, "WEFT_JOB": "a", **told})
    agent = Agent("local", folders["mine"], near=True, patience_s=600.0)
    try:
        here = namespace_of("self")
        for name, folder in folders.items():  # until an agent of each would find its own
            wait(lambda name=name, folder=folder: children[name].pid in jobs_here(here, {}, "", str(folder.resolve())))
        for _ in range(2):  # every other scan is for processes
            agent.scan()
        assert set(agent.jobs["a"].processes) == {children["mine"].pid, children["nobody's"].pid}
    finally:
        agent.close()
        for child in children.values():
            child.kill()
            child.wait()


@pytest.mark.parametrize("world", ["local", "testbed"])
def test_a_dry_run_says_that_it_can_pace_as_the_world_itself_can(world: str, tmp_path: Path) -> None:
    with server(tmp_path, engine=find(world, {}), dry_run=True) as serving:
        assert isinstance(serving.world, DryWorld)
        assert serving.world.capabilities == PacedWorld.capabilities
