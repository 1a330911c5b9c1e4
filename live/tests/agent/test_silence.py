import contextlib
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("grpc")

import weft_live.agent.host
from live.tests.agent.moments import Moved, wait
from weft import __version__
from weft.cli.main import run
from weft.errors import InputError
from weft.network.topologies import Machine, leaf_spine
from weft.stacks.registry import make
from weft_live.agent.caller import Caller
from weft_live.agent.conductor import Conductor
from weft_live.agent.control import Control
from weft_live.agent.plane import Placed, Plane, refuse_simulated
from weft_live.agent.service import AgentService, listed
from weft_live.agent.trust import secret_of
from weft_live.agent.wire import Line, LostError, Message
from weft_live.clock import Clock

CLUSTER = leaf_spine(1, 2, Machine(gpus_per_server=2, nic_gbps=1.0))


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
    """It makes no secret."""
    folder = tmp_path / "agent"
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with _agent(folder, address) as told:
        wait(lambda: len(told.lines) == 1)
        assert told.lines[0].startswith(f"waiting for {folder / 'agents.secret'}: weft serve makes it")
        assert list(folder.iterdir()) == []
        service = _service(secret_of(folder), [], address)
        wait(lambda: service.hosts == {"s0"})
        service.close()


class Script(Line):
    """A line on which it goes as written: words of the server, or why there are none."""

    def __init__(self, *turns: Message | str) -> None:
        self.address, self.turns = "here", list(turns)

    def talk(self, name: str, messages: object) -> Iterator[Message]:
        turn = self.turns.pop(0)
        if isinstance(turn, str):
            raise LostError("gone", turn)
        yield turn

    def close(self) -> None:
        pass


def test_a_server_that_is_gone_is_called_ever_less_often_and_spoken_of_once() -> None:
    clock, said, heard = Moved(100.0), list[str](), list[Message]()
    line = Script(*["silent"] * 6, {"orders": {}}, "silent", "secret", "secret", {"refused": "no"}, {"refused": "no"})
    caller = Caller(line, {"host": "s0", "version": __version__}, heard.append, said.append, clock)
    pauses = []
    for moved in (0.0, 1.9, 0.2, 1.0, 1.0, 1.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0):
        clock.now += moved
        pauses.append((caller.call(), len(said)))
    assert pauses == [
        (0.2, 0), (0.4, 0), (0.5, 1), (0.5, 1), (0.5, 1), (0.5, 1), (0.1, 2), (0.2, 2), (0.4, 3), (0.5, 3),
        (5.0, 4), (5.0, 4),
    ]  # fmt: skip
    assert said == [
        "no server answers at here; it is called again and again (gone)", "the server at here answers",
        "the server at here has another secret; copy agents.secret from its folder to --dir", "no",
    ]  # fmt: skip
    assert heard == [{"orders": {}}]


def _called(service: AgentService, secret: str, host: str) -> tuple[list[str], float]:
    """What somebody is told who calls twice, and how long he is to wait then."""
    said: list[str] = []
    caller = Caller(
        Line(service.address, secret),
        {"host": host, "version": __version__},
        lambda message: None,
        said.append,
        Moved(0.0),
    )
    wait(lambda: bool(caller.call() and said))
    pause_s = caller.call()
    caller.close()
    return said, pause_s


def test_another_secret_is_named_by_both_sides() -> None:
    said: list[str] = []
    service = _service("another", said)
    words = "has another secret; copy agents.secret from its folder to --dir"
    assert _called(service, "secret", "s0")[0] == [f"the server at {service.address} {words}"]
    assert said == ["agents: one called with another secret (ipv4:127.0.0.1); it needs a copy of this server's"]
    service.close()


def test_a_host_that_is_not_in_the_cluster_is_told_which_are() -> None:
    said: list[str] = []
    service = _service("secret", said)
    words = "the cluster has no server 'elsewhere'; it has s0, s1"
    assert _called(service, "secret", "elsewhere") == ([f"{words}: name one of them with --host"], 5.0)
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
        wait(lambda: bool(said and told.lines))
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
def test_bad_options_are_refused_in_a_line(
    more: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret_of(tmp_path)
    _refused([*more.split(), "--dir", str(tmp_path)], words, capsys)


def test_a_folder_where_others_may_write_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret_of(tmp_path)
    tmp_path.chmod(0o777)
    _refused(["agent", "--dir", str(tmp_path), "--server", "127.0.0.1:1"], "others may write there", capsys)


def _refused(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(argv) != 0
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1


def test_a_job_is_not_said_to_be_paced_where_no_agent_is(tmp_path: Path) -> None:
    """An agent that has been away for ten seconds is missed."""
    said: list[str] = []

    def control(pace: object) -> Control:
        return Control(CLUSTER, make("pace", "priority"), tmp_path, {}, listen="127.0.0.1:0")

    plane = Plane(CLUSTER, Clock.begin(), control, said.append)
    plane.pace = make("pace", "priority")
    there = plane.open()
    jobs = {"a": Placed((0, 2), 1)}
    rest = "RDMA, NVLink, shared memory cannot be paced"

    def look(*times: float) -> list[str]:
        said.clear()
        for now in times:
            plane.look(jobs, now)
        return said

    with contextlib.ExitStack() as lines:
        assert look(100.0, 109.9) == []
        assert look(110.1, 150.0) == [f"a: no agent is on s0, s1, so its TCP sockets are not paced there; {rest}"]
        first, second = (lines.enter_context(_here(there, f"s{n}")) for n in range(2))
        wait(lambda: there.service.hosts == {"s0", "s1"})
        assert look(151.0, 190.0) == [f"a: its TCP sockets are paced on 2 servers; {rest}"]
        jobs["b"] = Placed((1, 3), 1, owner=(-1, ""))
        words = "b: weft does not know its user, so agents take no process for its own and pace none"
        assert look(191.0, 192.0) == [words]
        second.close()
        wait(lambda: there.service.hosts == {"s0"})
        assert look(200.0, 209.9) == []
        assert look(210.1) == [f"a: no agent is on s1, so its TCP sockets are not paced there; {rest}"]
        first.close()
    plane.close()


@contextmanager
def _here(control: Control, host: str) -> Iterator[Line]:
    """The line of a host whose agent has come."""
    over = threading.Event()

    def join() -> Iterator[Message]:
        yield {"host": host, "version": __version__}
        over.wait()

    with contextlib.closing(Line(control.service.address, control.secret)) as line:
        talk = line.talk("join", join())
        next(talk)
        yield line
        over.set()


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


def test_an_agent_of_another_version_is_refused_in_words_at_both_ends(tmp_path: Path) -> None:
    secret, told, said = secret_of(tmp_path), [], []  # type: ignore[var-annotated]
    service = _service(secret, told)
    for version in ({"version": "0.0.9"}, {}):
        with contextlib.closing(Line(service.address, secret)) as line:
            caller = Caller(line, {"host": "s0", **version}, lambda message: None, said.append, Moved(0.0))
            assert caller.call() > 1.0, "it does not call again at once"
    service.close()
    assert [("0.0.9" in words, __version__ in words) for words in said] == [(True, True), (False, True)]
    assert len(told) == 2
    assert service.hosts == set()


def test_the_loss_of_the_last_agent_is_reported(tmp_path: Path) -> None:
    told: list[str] = []
    control = Control(CLUSTER, make("pace", "priority"), tmp_path, {}, listen="127.0.0.1:0", say=told.append)
    with _here(control, "s0"), _here(control, "s1"):
        pass
    wait(lambda: bool(told))
    assert len([words for words in told if "the last one" in words]) == 1
    control.close()


def test_another_secret_counts_from_the_next_call_on(tmp_path: Path) -> None:
    told: list[str] = []
    service = _service("new", told)
    with contextlib.closing(Line(service.address, "old")) as line:
        with pytest.raises(LostError):
            next(line.talk("join", iter([{"host": "s0", "version": __version__}])))
        line.renew("new")
        over = threading.Event()

        def join() -> Iterator[Message]:
            yield {"host": "s0", "version": __version__}
            over.wait()

        assert isinstance(next(line.talk("join", join())), dict)
        over.set()
    service.close()


@pytest.mark.parametrize("name", ["flow:host-only", "flow:leaves=40%", "flow:loss=1%", "flow:delay=6ms", "flow:pauses"])
def test_a_setting_that_only_a_simulation_carries_out_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="for simulations"):
        refuse_simulated(make("pace", name))  # type: ignore[arg-type]
    for kept in ("flow", "flow:slot=20ms,slots=5", "flow:fill", "flow:quantised", "priority", "fair"):
        refuse_simulated(make("pace", kept))  # type: ignore[arg-type]
