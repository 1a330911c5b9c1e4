import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grpc")

import grpc

from live.tests.agent.moments import PATIENCE_S, wait
from weft import __version__
from weft.errors import InputError
from weft.network.topologies import Machine, leaf_spine
from weft.stacks.registry import make
from weft_live.agent import wire
from weft_live.agent.caller import Caller
from weft_live.agent.conductor import Conductor
from weft_live.agent.service import AgentService
from weft_live.agent.trust import Calls, ForgedError, Seal, key_of, new_nonce, refuse_socket, secret_in, secret_of
from weft_live.agent.wire import Line, LostError, Message, listen

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="giving files to other users needs root")
SECRET = "5ec2e7" * 6


class Proxy:
    """Passes bytes on, and keeps a copy of what went each way."""

    def __init__(self, port: int) -> None:
        self.to, self.listener = port, socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.up, self.down = bytearray(), bytearray()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.to))
            for source, sink, copy in ((near, far, self.up), (far, near, self.down)):
                threading.Thread(target=self._pass, args=(source, sink, copy), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, copy: bytearray) -> None:
        try:
            while data := source.recv(1 << 16):
                copy += data
                sink.sendall(data)
        except OSError:
            pass
        source.close()
        sink.close()


def _service(address: str = "127.0.0.1:0") -> AgentService:
    conductor = Conductor(leaf_spine(1, 2, Machine(gpus_per_server=2, nic_gbps=1.0)), make("pace", "priority"))
    conductor.add("a", (0, 2))
    return AgentService(conductor, address, SECRET)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _present(over: threading.Event) -> Iterator[Message]:
    """What an agent says that joins, and stays until it is over."""
    yield {"host": "s0", "version": __version__}
    over.wait(30.0)


@contextmanager
def _joined(service: AgentService) -> Iterator[Proxy]:
    """A proxy through which an agent has joined and heard orders; it is gone again."""
    proxy = Proxy(_port(service.address))
    line, over = Line(proxy.address, SECRET), threading.Event()
    talk = line.talk("join", _present(over))
    assert any("orders" in message for message in talk)
    assert service.hosts == {"s0"}
    proxy.up = proxy.up[:]  # what comes after this is the end of it
    over.set()
    line.close()
    wait(lambda: not service.hosts)
    proxy.listener.close()
    yield proxy


def test_the_secret_is_not_on_the_wire() -> None:
    service = _service()
    try:
        with _joined(service) as proxy:
            assert b"orders" in proxy.down
            assert b"weft.Wire/join" in proxy.up or len(proxy.up) > 100
            for way in (bytes(proxy.up), bytes(proxy.down)):
                assert SECRET.encode() not in way
                assert bytes.fromhex(SECRET) not in way
    finally:
        service.close()


def _joins_again(port: int, data: bytes) -> bool:
    """The bytes of a caller once more: whether the server talks to him (in the third stream of HTTP/2, after his
    greeting in the first), or ends it at once."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as again, again.makefile("rb") as frames:
        again.sendall(data)
        while head := frames.read(9):
            frames.read(int.from_bytes(head[:3]))
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:])
            if stream == 3 and kind == 0:  # data
                return True
            if stream == 3 and (kind == 3 or (kind == 1 and flags & 1)):  # a reset, or headers that are the end
                return False
    raise AssertionError("the server has hung up")


def test_what_an_agent_has_said_is_not_heard_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes once more: to the same server, and to one that is started after it. Where calls are not counted, and
    only there, the same bytes make an agent, so it is the count that keeps them out."""
    service = _service()
    joined: list[str] = []
    hear = service.conductor.lost
    monkeypatch.setattr(service.conductor, "lost", lambda host: (joined.append(host), hear(host)))
    with _joined(service) as proxy:
        data = bytes(proxy.up)
    joined.clear()
    assert not _joins_again(_port(service.address), data)
    assert joined == []
    monkeypatch.setattr(Calls, "fresh", lambda *_: True)
    assert _joins_again(_port(service.address), data)
    wait(lambda: joined == ["s0"])
    service.close()
    after = _service(service.address)
    assert not _joins_again(_port(after.address), data)
    after.close()


@contextmanager
def _answering(
    hello: Callable[[bytes, Any], bytes], join: Callable[[Iterator[bytes], Any], Iterator[bytes]]
) -> Iterator[str]:
    """The address of a server that knows how one talks, and answers like this."""
    server = grpc.server(ThreadPoolExecutor(16))
    handlers = {
        "hello": grpc.unary_unary_rpc_method_handler(hello), "join": grpc.stream_stream_rpc_method_handler(join),
    }  # fmt: skip
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("weft.Wire", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0)


@pytest.mark.parametrize("same", [True, False])
def test_what_a_server_has_said_is_not_believed_a_second_time(same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages once more. An agent that chose the number of the first one again, and only such a one, would believe
    them."""
    numbers = iter([new_nonce(), "a" * 32, "a" * 32 if same else new_nonce()])
    monkeypatch.setattr(wire, "new_nonce", lambda: next(numbers))
    service, known, said = _service(), list[bytes](), list[bytes]()
    with grpc.insecure_channel(service.address) as channel:

        def hello(data: bytes, context: Any) -> bytes:
            known.append(channel.unary_unary("/weft.Wire/hello")(data))
            return known[0]

        def join(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
            shown = [(key, value) for key, value in context.invocation_metadata() if key == "weft-call"]
            for message in channel.stream_stream("/weft.Wire/join")(messages, metadata=shown):
                said.append(message)
                yield message

        over = threading.Event()
        with _answering(hello, join) as address, closing(Line(address, SECRET)) as line:
            assert isinstance(next(line.talk("join", _present(over))), dict)
            over.set()
    service.close()
    with _answering(lambda *_: known[0], lambda *_: iter(said)) as address, closing(Line(address, SECRET)) as line:
        talk = line.talk("join", [{"host": "s0"}])
        if same:
            assert isinstance(next(talk), dict)
        else:
            with pytest.raises(LostError) as lost:
                next(talk)
            assert lost.value.kind == "forged"


@contextmanager
def _impostor() -> Iterator[str]:
    """A server that does not know the secret; it holds the job "a"."""
    nonce, orders = new_nonce(), {"owners": {"a": [os.geteuid(), ""]}, "orders": {"a": [1e6, 1e6, 0]}}

    def join(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
        seal = Seal(key_of("a guess", new_nonce(), nonce), "join 0", caller=False)
        while context.is_active():
            yield seal.close(json.dumps(orders).encode())

    with _answering(lambda *_: nonce.encode(), join) as address:
        yield address


def test_an_impostor_gives_orders_and_they_are_not_obeyed() -> None:
    heard, said = list[Message](), list[str]()
    with _impostor() as address:
        caller = Caller(Line(address, SECRET), {"host": "s0", "version": __version__}, heard.append, said.append)
        wait(lambda: bool(caller.call() and said))
        caller.call()
        caller.close()
    assert said == [f"whoever answers at {address} does not know the secret; no order from there is obeyed"]
    assert heard == []


def test_a_message_counts_in_its_place_alone() -> None:
    key = key_of("secret", new_nonce(), new_nonce())

    def pair(call: str = "slot 1") -> tuple[Seal, Seal]:
        return Seal(key, call, caller=True), Seal(key, call, caller=False)

    asks, answers = pair()
    first, second = asks.close(b"1"), asks.close(b"2")
    assert (answers.open(first), answers.open(second)) == (b"1", b"2")
    for bad in (first, second, first[:-1] + b"2", first[:10], b""):  # none of them is the third message
        with pytest.raises(ForgedError):
            answers.open(bad)
    with pytest.raises(ForgedError):
        pair("slot 2")[1].open(first)
    with pytest.raises(ForgedError):
        pair()[0].open(first)  # sent back to where it came from
    calls = Calls()
    assert [calls.fresh("x", n) for n in (0, 2, 1, 2, 0)] == [True, True, True, False, False]
    assert calls.fresh("y", 0)
    assert all(calls.fresh("x", n) for n in range(10, 2000))
    assert not any(calls.fresh("x", n) for n in range(2000))


def test_a_line_finds_the_server_that_was_started_after_the_one_it_knew() -> None:
    server, address = listen("127.0.0.1:0", SECRET, answers={"add": lambda said: {"sum": said["a"] + 1}})
    line = Line(address, SECRET)
    assert line.ask("add", {"a": 1}, 5.0) == {"sum": 2}
    assert line.begin("add", {"a": 2}, 5.0)() == {"sum": 3}
    server.stop(0).wait()
    server, _ = listen(address, SECRET, answers={"add": lambda said: {"sum": said["a"] + 10}})

    def answers() -> bool:
        try:
            return line.ask("add", {"a": 1}) == {"sum": 11}
        except LostError:
            return False

    wait(answers)
    line.close()
    server.stop(0)


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    assert secret_in(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    secret_of(tmp_path)
    (tmp_path / "agents.secret").chmod(0o640)
    for read in (secret_in, secret_of):
        with pytest.raises(InputError, match="other users may read or write it"):
            read(tmp_path)


@ROOT
def test_a_secret_or_a_socket_of_another_user_is_refused(tmp_path: Path) -> None:
    secret_of(tmp_path)
    os.chown(tmp_path / "agents.secret", 65534, -1)
    with pytest.raises(InputError, match="belongs to another user"):
        secret_in(tmp_path)
    path = tmp_path / "agents.sock"
    refuse_socket(path)  # nobody listens yet
    with socket.socket(socket.AF_UNIX) as there:
        there.bind(str(path))
        path.chmod(0o755)
        refuse_socket(path)
        os.chown(path, 65534, -1)
        with pytest.raises(InputError, match="no socket that this user alone may use"):
            Line(f"unix:{path}", "secret").ask("slot", {})
    path.unlink()
    os.chown(tmp_path, 65534, -1)
    with pytest.raises(InputError, match="belongs to somebody else"):
        refuse_socket(path)


def test_a_socket_where_others_may_write_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(InputError, match="others may write there"):
        refuse_socket(tmp_path / "agents.sock")
