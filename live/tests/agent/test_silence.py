"""What keeps an agent from its work is said in one line, once, where somebody looks: by the agent and by the server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("grpc")

import weft_live.agent.host
from weft.errors import InputError
from weft.network.topologies import Machine, leaf_spine
from weft.stacks.registry import make
from weft_live.agent.conductor import Conductor
from weft_live.agent.control import Control
from weft_live.agent.plane import Placed, Plane
from weft_live.agent.service import AgentService, listed
from weft_live.agent.trust import secret_of
from weft_live.agent.wire import Line, Message
from weft_live.clock import Clock

CLUSTER = leaf_spine(1, 2, Machine(gpus_per_server=2, nic_gbps=1.0))


def _wait(true: Callable[[], bool], patience_s: float = 20.0) -> None:
    until = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def _service(secret: str, said: list[str], address: str = "127.0.0.1:0") -> AgentService:
    return AgentService(Conductor(CLUSTER, make("pace", "priority")), address, secret, say=said.append)


class Told:
    """An agent, and what it writes to its standard error."""

    def __init__(self, folder: Path, server: str, host: str, rights: tuple[str, ...]) -> None:
        self.log = folder.parent / f"{folder.name}.log"
        argv = ["agent", "--host", host, "--server", server, "--dir", str(folder)]
        with self.log.open("wb") as log:
            self.agent = subprocess.Popen([*rights, sys.executable, "-m", "weft", *argv], stderr=log)

    @property
    def lines(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if "bursts of 64 kB" not in line]


@contextmanager
def _agent(folder: Path, server: str, host: str = "s0", rights: tuple[str, ...] = ()) -> Iterator[Told]:
    folder.mkdir(exist_ok=True)
    told = Told(folder, server, host, rights)
    try:
        yield told
    finally:
        told.agent.kill()
        told.agent.wait()


def test_an_agent_waits_for_a_secret_and_then_for_its_server(tmp_path: Path) -> None:
    """It makes no secret, and every line comes once, however long it waits."""
    folder = tmp_path / "agent"
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with _agent(folder, address) as told:
        _wait(lambda: len(told.lines) == 1)
        time.sleep(1.2)
        assert told.lines[0].startswith(f"waiting for {folder / 'agents.secret'}: weft serve makes it")
        assert list(folder.iterdir()) == []
        secret = secret_of(folder)
        _wait(lambda: len(told.lines) == 2)
        time.sleep(1.5)
        assert told.lines[1].startswith(f"no server answers at {address}; it is called again and again (")
        service = _service(secret, [], address)
        _wait(lambda: service.hosts == {"s0"})
        _wait(lambda: len(told.lines) == 3)
        assert told.lines[2] == f"the server at {address} answers"
        service.close()


def test_another_secret_is_named_by_both_sides(tmp_path: Path) -> None:
    said: list[str] = []
    service = _service("another", said)
    secret_of(tmp_path)
    with _agent(tmp_path, service.address) as told:
        _wait(lambda: len(told.lines) == len(said) == 1)
        time.sleep(1.0)
        words = "has another secret; copy agents.secret from its folder to --dir"
        assert told.lines == [f"the server at {service.address} {words}"]
        assert said == [
            "agents: somebody called with another secret (ipv4:127.0.0.1); an agent needs a copy of this one"
        ]
    service.close()


def test_a_host_that_is_not_in_the_cluster_is_told_which_are(tmp_path: Path) -> None:
    said: list[str] = []
    service = _service(secret_of(tmp_path), said)
    with _agent(tmp_path, service.address, "elsewhere") as told:
        _wait(lambda: len(told.lines) == 1)
        time.sleep(1.0)
        words = "the cluster has no server 'elsewhere'; it has s0, s1"
        assert told.lines == [f"{words}: name one of them with --host"]
        assert said == [f"agents: {words}"]
        assert service.hosts == set()
    service.close()
    assert listed([f"s{n}" for n in range(9)]) == "s0, s1, s2, s3, s4, s5 and 3 more"


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_an_agent_without_the_right_to_trace_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    service = _service(secret_of(tmp_path), said)
    rights = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    with _agent(tmp_path, service.address, rights=rights) as told:
        _wait(lambda: bool(said))
        assert "CAP_SYS_PTRACE" in said[0]
        assert [f"agents: that of s0 {line.removeprefix('this agent ')}" for line in told.lines] == said
    service.close()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("agent --server nonsense", "--server nonsense: write HOST:PORT, or unix:FILE"),
        ("agent --server here:1 --netns /no/such", "--netns /no/such: there is no such file"),
        ("agent --server here:1 --netns /etc/passwd", "--netns /etc/passwd: this is no network namespace"),
        ("agent --server here:1 --netns /proc/self/ns/pid", "--netns /proc/self/ns/pid: this is no network namespace"),
        ("serve --pace flow --switches nonsense", "--switches nonsense: write HOST:PORT, or unix:FILE"),
    ],
)
def test_bad_options_are_refused_in_a_line(more: str, words: str, tmp_path: Path) -> None:
    secret_of(tmp_path)
    argv = [sys.executable, "-m", "weft", *more.split(), "--dir", str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_where_others_may_write_is_refused_in_a_line(tmp_path: Path) -> None:
    secret_of(tmp_path)
    tmp_path.chmod(0o777)
    argv = [sys.executable, "-m", "weft", "agent", "--dir", str(tmp_path), "--server", "127.0.0.1:1"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "others may write there" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_job_is_not_said_to_be_paced_where_no_agent_is(tmp_path: Path) -> None:
    said: list[str] = []

    def control(pace: object) -> Control:
        return Control(CLUSTER, make("pace", "priority"), tmp_path, {}, listen="127.0.0.1:0")

    plane = Plane(CLUSTER, Clock.begin(), control, said.append)
    plane.pace, plane.agents_s = make("pace", "priority"), 0.3
    there = plane.open()
    lines = [Line(there.service.address, there.secret) for _ in range(2)]

    def look(true: Callable[[], bool]) -> None:
        _wait(lambda: bool(plane.look({"a": Placed((0, 2), 1)})) or true())

    def join(host: str) -> Iterator[Message]:
        yield {"host": host}
        time.sleep(20.0)

    rest = "RDMA, NVLink, shared memory cannot be paced"
    try:
        look(lambda: len(said) == 1)
        until = time.monotonic() + 1.0
        look(lambda: time.monotonic() > until)
        assert said == [f"a: no agent is on s0, s1, so its TCP sockets are not paced there; {rest}"]
        talks = [line.talk("join", join(f"s{n}")) for n, line in enumerate(lines)]
        assert [next(talk) for talk in talks]
        look(lambda: len(said) == 2)
        assert said[1] == f"a: its TCP sockets are paced on 2 servers; {rest}"
        plane.look({"a": Placed((0, 2), 1), "b": Placed((1, 3), 1, owner=(-1, ""))})
        assert said.pop() == "b: nobody knows whose it is, so no process is taken for its own, and none is paced"
        lines[1].close()
        look(lambda: len(said) == 3)
        assert said[2] == f"a: no agent is on s1, so its TCP sockets are not paced there; {rest}"
    finally:
        for line in lines:
            line.close()
        plane.close()


def test_a_second_agent_of_a_host_is_refused_until_the_first_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the first one's notes, and nobody would know which sockets are paced."""
    monkeypatch.setattr(weft_live.agent.host, "_PATIENT_S", 0.1)
    first = weft_live.agent.host.Agent("here", tmp_path)
    with pytest.raises(InputError, match="another agent serves here"):
        weft_live.agent.host.Agent("here", tmp_path)
    other = weft_live.agent.host.Agent("there", tmp_path)
    first.close()
    weft_live.agent.host.Agent("here", tmp_path).close()
    other.close()
    with pytest.raises(InputError, match="cannot be the name of a host"):
        weft_live.agent.host.Agent("../here", tmp_path)
