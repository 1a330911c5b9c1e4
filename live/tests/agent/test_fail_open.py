"""Agents that die, hang or lose their server let go of every socket within a second, and no job fails.

Two jobs send to themselves over loopback. By the cluster that the server believes in they share a NIC, so the younger
one is held as long as the agent, its guardian and the server are well.
"""

import os
import random
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from live.tests.agent.moments import PATIENCE_S, wait, wait_until
from live.tests.agent.stand_in import connected, watched
from weft import __version__
from weft.network.topologies import Machine, leaf_spine
from weft.stacks.registry import make
from weft_live.agent.caller import Caller
from weft_live.agent.conductor import HELD_BYTES_PER_S, Conductor
from weft_live.agent.host import SILENCE_S, Agent
from weft_live.agent.processes import may_trace
from weft_live.agent.service import _BEAT_S as BEAT_S
from weft_live.agent.service import AgentService
from weft_live.agent.sockets import UNLIMITED, Process
from weft_live.agent.trust import secret_of
from weft_live.agent.wire import Line, LostError, Message

if not may_trace():
    pytest.skip("looking into other processes needs root, or kernel.yama.ptrace_scope = 0", allow_module_level=True)
KILLS = int(os.environ.get("WEFT_KILLS", "3"))


class Scene:
    """Two jobs, an agent and its server."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.secret = folder, secret_of(folder)
        self.jobs = {name: self._job(name) for name in ("old", "new")}
        self.serve()
        self.agent = self.start_agent()

    def _job(self, name: str) -> subprocess.Popen[bytes]:
        script = Path(__file__).with_name("stream.py")
        return subprocess.Popen([sys.executable, str(script)], env={**os.environ, "WEFT_JOB": name})

    def serve(self) -> None:
        cluster = leaf_spine(1, 2, Machine(gpus_per_server=2, nic_gbps=10.0))
        conductor = Conductor(cluster, make("pace", "priority"))
        conductor.add("old", (0, 2))
        conductor.add("new", (1, 3))
        self.service = AgentService(conductor, f"unix:{self.folder / 'agents.sock'}", self.secret)

    def start_agent(self) -> subprocess.Popen[bytes]:
        argv = [
            "agent",
            "--host",
            "s0",
            "--server",
            self.service.address,
            "--dir",
            str(self.folder),
            "--watch-ms",
            "10",
            "--near",
        ]
        return subprocess.Popen([sys.executable, "-m", "weft", *argv])

    def limit(self, name: str) -> int:
        """The least that the kernel allows a socket of this job."""
        with closing(Process(self.jobs[name].pid)) as process:
            return min((remote.paced() for remote in process.sockets({}).values()), default=UNLIMITED)

    def guardian(self) -> int:
        children = Path(f"/proc/{self.agent.pid}/task/{self.agent.pid}/children").read_text().split()
        return next((int(pid) for pid in children if b"guardian" in Path(f"/proc/{pid}/cmdline").read_bytes()), 0)

    def close(self) -> None:
        for child in (self.agent, *self.jobs.values()):
            child.send_signal(signal.SIGCONT)
            child.kill()
            child.wait()
        self.service.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.close()


def held(scene: Scene) -> Callable[[], bool]:
    return lambda: scene.limit("new") == HELD_BYTES_PER_S and scene.limit("old") == UNLIMITED


def free(scene: Scene) -> Callable[[], bool]:
    return lambda: scene.limit("new") == scene.limit("old") == UNLIMITED


@pytest.mark.alone
def test_whatever_dies_or_hangs_sockets_are_free_within_a_second(scene: Scene) -> None:
    wait_until(held(scene), 20.0)

    scene.agent.send_signal(signal.SIGSTOP)  # the agent hangs
    assert wait_until(free(scene), 2.0) < 1.2
    scene.agent.send_signal(signal.SIGCONT)
    wait_until(held(scene), 5.0)

    guardian = scene.guardian()
    assert guardian > 0
    os.kill(guardian, signal.SIGKILL)  # there is another one soon
    wait_until(lambda: scene.guardian() not in (0, guardian) and held(scene)(), 5.0)

    scene.service.close()  # the server goes
    assert wait_until(free(scene), 2.0) < 1.2
    scene.serve()
    wait_until(held(scene), 10.0)

    scene.agent.kill()
    assert wait_until(free(scene), 2.0) < 1.2
    assert all(job.poll() is None for job in scene.jobs.values())


@pytest.mark.alone
def test_random_kills_leave_no_socket_paced_and_no_job_failed(scene: Scene) -> None:
    dice = random.Random(0)
    for _ in range(KILLS):
        wait_until(lambda: scene.guardian() > 0, 30.0)
        wait_until(held(scene), 30.0)
        time.sleep(dice.random() * 0.3)
        victim, guardian = dice.choice(["agent", "guardian", "server", "both"]), 0
        while guardian == 0:  # the one before may just have ended; 0 would be all of us
            guardian = scene.guardian()
        if victim in ("both", "guardian"):
            os.kill(guardian, signal.SIGKILL)
        if victim in ("both", "agent"):  # both: nobody is left, until an agent comes back and finds its notes
            scene.agent.kill()
            scene.agent.wait()
        if victim == "server":
            scene.service.close()
        if victim in ("agent", "server"):
            assert wait_until(free(scene), 3.0) < 1.2
        if victim == "server":
            scene.serve()
        if victim in ("both", "agent"):
            scene.agent = scene.start_agent()
        assert all(job.poll() is None for job in scene.jobs.values())
    scene.service.close()
    wait_until(free(scene), 10.0)


def test_only_who_knows_the_secret_is_heard() -> None:
    conductor = Conductor(leaf_spine(1, 2, Machine(gpus_per_server=2)), make("pace", "priority"))
    service = AgentService(conductor, "127.0.0.1:0", "right")
    with closing(Line(service.address, "wrong")) as line, pytest.raises(LostError) as lost:
        next(iter(line.talk("join", [{"host": "s0"}])))
    assert lost.value.kind == "secret"
    assert service.hosts == set()
    service.close()


def test_a_server_with_nothing_to_say_gives_signs_of_life() -> None:
    """Often enough that one may be late."""
    assert 2 * BEAT_S < SILENCE_S
    service = AgentService(Conductor(leaf_spine(1, 2, Machine()), make("pace", "priority")), "127.0.0.1:0", "right")
    heard: list[Message] = []
    caller = Caller(
        Line(service.address, "right"), {"host": "s0", "version": __version__}, heard.append, lambda words: None
    )
    caller.start()
    wait(lambda: {} in heard)
    assert any("orders" in message for message in heard[: heard.index({})])
    caller.close()
    service.close()


def _agent(folder: Path) -> Agent:
    """One whose guardian is patient: the tests say what time it is."""
    return Agent("local", folder, near=True, patience_s=600.0)


def test_an_agent_lets_go_when_its_server_has_been_silent_for_three_quarters_of_a_second(tmp_path: Path) -> None:
    """Any word counts, and orders hold again when they come again."""
    with connected() as ends, closing(_agent(tmp_path)) as agent:
        job = agent.jobs["a"] = watched("a", ends)

        def limits(now: float) -> set[int]:
            agent.mind_silence(now)
            return {remote.paced() for remote in job.sockets.values()}

        agent.hear({"orders": {"a": (1e6, 1e6, 1)}}, 100.0)
        assert limits(100.7) == {1_000_000}
        agent.hear({}, 100.7)
        assert limits(101.4) == {1_000_000}
        assert limits(101.5) == {UNLIMITED}
        assert job.rate is None
        agent.hear({"orders": {"a": (1e6, None, 2)}}, 101.6)
        assert limits(101.6) == {UNLIMITED}
        agent.hear({"orders": {"a": (1e6, 2e6, 3)}}, 101.7)
        assert limits(102.4) == {2_000_000}
        agent.hear({"orders": {}}, 102.4)  # the server knows the job no more
        assert limits(102.4) == {UNLIMITED}


@pytest.mark.parametrize("silent", ["agent", "both"])
def test_whoever_lives_lets_go_of_what_a_silent_agent_has_paced(silent: str, tmp_path: Path) -> None:
    """Its guardian after a while, of which the agent learns when it wakes up; or the next agent, where both died."""
    with connected() as ends:
        agent = Agent("local", tmp_path, near=True, patience_s=0.1 if silent == "agent" else 600.0)
        job = agent.jobs["a"] = watched("a", ends)
        if silent == "agent":  # also where it has been silent before, and gave no sign when it woke up
            assert select.select([agent._guardian.stdout], [], [], PATIENCE_S)[0]
        agent.order("a", 1e6, 1e6)

        def free() -> bool:
            return {remote.paced() for remote in job.sockets.values()} == {UNLIMITED}

        if silent == "agent":
            wait(free)
            agent.beat(100.0)
            assert (job.rate, job.held) == (None, 0.0)
            assert {remote.rate for remote in job.sockets.values()} == {UNLIMITED}
        else:
            kept = agent.state.read_text()
            agent._guardian.kill()
            agent._guardian.wait()
            assert not free()
            folder = tmp_path / "next"
            folder.mkdir()
            (folder / "paced.local").write_text(kept)
            with closing(_agent(folder)) as after:
                assert after.let_go == 2
            assert free()
        agent.close()


def test_an_agent_whose_guardian_has_died_paces_nothing_until_there_is_another(tmp_path: Path) -> None:
    with connected() as ends, closing(_agent(tmp_path)) as agent:
        job = agent.jobs["a"] = watched("a", ends)
        guardian = agent._guardian
        guardian.kill()
        guardian.wait()
        agent.order("a", 1e6)
        assert {remote.paced() for remote in job.sockets.values()} == {UNLIMITED}
        assert agent._guardian is not guardian
        agent.order("a", 1e6)
        assert {remote.paced() for remote in job.sockets.values()} == {1_000_000}


def test_an_agent_with_more_than_a_thousand_open_files_has_the_guardian_that_it_started(tmp_path: Path) -> None:
    """It has a file for each process of its jobs."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 1200:
        pytest.skip("fewer files may be open here")
    with ExitStack() as files:
        while files.enter_context(open(os.devnull)).fileno() < 1024:
            pass
        agent = files.enter_context(closing(_agent(tmp_path)))
        guardian = agent._guardian
        agent.beat(100.0)
        agent.beat(101.0)
        assert agent._guardian is guardian
        assert guardian.poll() is None
