"""The wire between agents, switches and a server: gRPC with JSON messages, so that there is no generated code.

A service is a dict of functions. Both sides prove with every message that they know the secret of the run
(weft_live.agent.trust), over TCP as well as over a Unix socket (`unix:PATH`).
"""

from __future__ import annotations

import itertools
import json
import queue
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft_live.agent.trust import Calls, ForgedError, Seal, key_of, new_nonce, refuse_socket

Message = dict[str, Any]
Answer = Callable[[Message], Message]
Talk = Callable[[Iterator[Message]], Iterator[Message]]
_SERVICE, _KEY, _HELLO = "weft.Wire", "weft-call", "hello"
_PATIENCE_S = 2.0  # for the first word of a server


def _grpc() -> Any:
    try:
        import grpc
    except ImportError:
        raise InputError("agent: grpcio is missing; pip install 'weft[agent]' brings it") from None
    return grpc


def has_grpc() -> bool:
    """Whether agents can talk at all."""
    return find_spec("grpc") is not None


def refuse_address(address: str, option: str) -> None:
    """Raise if nobody could be called there."""
    host, _, port = address.rpartition(":")
    if address.startswith("unix:") and len(address) > 5:
        return
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"{option} {address}: write HOST:PORT, or unix:FILE")


def _packed(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def _unpacked(data: bytes) -> Message:
    message: Message = json.loads(data)
    return message


def listen(
    address: str,
    secret: str,
    answers: Mapping[str, Answer] | None = None,
    talks: Mapping[str, Talk] | None = None,
    threads: int = 1024,
    weigh: Callable[[int], None] = lambda size: None,
    refused: Callable[[str], None] = lambda peer: None,
) -> tuple[Any, str]:
    """A server of these functions, and the address by which it is reached (port 0 is any free one); `weigh` is told how
    many bytes come and go, and `refused` who called with another secret. Every agent that talks keeps a thread, and
    threads are made when they are needed."""
    grpc = _grpc()
    nonce, calls = new_nonce(), Calls()

    def trusted(name: str, context: Any) -> tuple[Callable[[bytes], Message], Callable[[Message], bytes]]:
        """How to read and write the messages of a call."""
        told = str(dict(context.invocation_metadata()).get(_KEY, "")).split(" ")
        if len(told) != 4 or told[1] != nonce or not told[2].isdecimal():
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "say hello first")
        seal = Seal(key_of(secret, told[0], nonce), f"{name} {told[2]}", caller=False)
        if not seal.shown(told[3]):
            refused(context.peer().rpartition(":")[0])
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "this is not an agent of this server")
        if not calls.fresh(told[0], int(told[2])):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "this has been said before")

        def read(data: bytes) -> Message:
            weigh(len(data))
            return _unpacked(seal.open(data))

        def packed(message: Message) -> bytes:
            data = seal.close(_packed(message))
            weigh(len(data))
            return data

        return read, packed

    def one(name: str, act: Answer) -> Any:
        def handle(data: bytes, context: Any) -> bytes:
            read, packed = trusted(name, context)
            try:
                message = read(data)
            except ForgedError as error:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
            return packed(act(message))

        return grpc.unary_unary_rpc_method_handler(handle)

    def many(name: str, act: Talk) -> Any:
        def handle(messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
            read, packed = trusted(name, context)
            try:
                yield from map(packed, act(map(read, messages)))
            except ForgedError as error:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))

        return grpc.stream_stream_rpc_method_handler(handle)

    handlers = {_HELLO: grpc.unary_unary_rpc_method_handler(lambda data, context: nonce.encode())}
    handlers |= {name: one(name, act) for name, act in (answers or {}).items()}
    handlers |= {name: many(name, act) for name, act in (talks or {}).items()}
    server = grpc.server(ThreadPoolExecutor(threads), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        raise InputError(
            f"cannot listen at {address}: it is in use, or it is no HOST:PORT of this machine (nor unix:FILE)"
        ) from None
    server.start()
    return server, address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"


class LostError(Exception):
    """No answer, or none that may be believed. Its kind is "silent", "secret" (the other side has another one) or
    "forged" (the other side does not know it)."""

    def __init__(self, words: str, kind: str = "silent") -> None:
        super().__init__(words)
        self.kind = kind


class Line:
    """A connection to such a server. Whatever goes wrong on it is a LostError."""

    def __init__(self, address: str, secret: str) -> None:
        grpc = _grpc()
        self.address, self._secret, self._grpc = address, secret, grpc
        backoff = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
        self._channel = grpc.insecure_channel(address, options=[*backoff, ("grpc.enable_http_proxy", 0)])
        self._errors = (grpc.RpcError, grpc.FutureTimeoutError, grpc.FutureCancelledError, ForgedError)
        self._nonce, self._numbers = new_nonce(), itertools.count()
        self._key: tuple[str, bytes] | None = None  # the server's number, and the key that it makes
        self._hello: Any = None
        self._calls: dict[str, Any] = {}
        self._told: dict[str, tuple[Any, queue.SimpleQueue[Message | None]]] = {}

    def ask(self, name: str, message: Message, timeout_s: float = 1.0) -> Message:
        """Call a function, and wait for its answer."""
        try:
            seal, shown = self._greeted(name, timeout_s)
            data = self._unary(name)(seal.close(_packed(message)), timeout=timeout_s, metadata=shown)
            return _unpacked(seal.open(data))
        except self._errors as error:
            raise self._lost(error) from None

    def begin(self, name: str, message: Message, timeout_s: float = 1.0) -> Callable[[], Message]:
        """Call a function; whoever calls the result has its answer."""
        try:
            seal, shown = self._greeted(name, timeout_s)
        except self._errors as error:
            raise self._lost(error) from None
        call = self._unary(name).future(seal.close(_packed(message)), timeout=timeout_s, metadata=shown)

        def answer() -> Message:
            try:
                return _unpacked(seal.open(call.result()))
            except self._errors as error:
                raise self._lost(error) from None

        return answer

    def tell(self, name: str, message: Message) -> None:
        """Send a message and wait for no answer, by a stream that stays open: a call for each would cost a thread.
        Nothing is sent before the server has ever answered."""
        if self._key is None:
            return
        call, box = self._told.get(name, (None, None))
        if call is None or call.done():
            if box is not None:
                box.put(None)
            self._told[name] = (call, box) = self._open(name)
        assert box is not None
        box.put(message)

    def _open(self, name: str) -> tuple[Any, queue.SimpleQueue[Message | None]]:
        box: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        seal, shown = self._greeted(name, 0.0)

        def said() -> Iterator[bytes]:
            while (message := box.get()) is not None:
                yield seal.close(_packed(message))

        return self._channel.stream_stream(f"/{_SERVICE}/{name}")(said(), metadata=shown), box

    def talk(self, name: str, messages: Iterable[Message]) -> Iterator[Message]:
        """Send messages as they come, and iterate over what comes back."""
        self._key = self._hello = None  # another server may answer there by now
        call = None
        try:
            seal, shown = self._greeted(name, _PATIENCE_S)
            stream = self._channel.stream_stream(f"/{_SERVICE}/{name}")
            call = stream((seal.close(_packed(message)) for message in messages), metadata=shown)
            for data in call:
                yield _unpacked(seal.open(data))
        except self._errors as error:
            raise self._lost(error) from None
        finally:
            if call is not None:
                call.cancel()

    def renew(self, secret: str) -> None:
        """Another secret from the next call on."""
        self._secret, self._key, self._hello = secret, None, None

    def close(self) -> None:
        """Hang up."""
        for _, box in self._told.values():
            box.put(None)
        self._channel.close()

    def _unary(self, name: str) -> Any:
        if name not in self._calls:
            self._calls[name] = self._channel.unary_unary(f"/{_SERVICE}/{name}")
        return self._calls[name]

    def _greeted(self, name: str, timeout_s: float) -> tuple[Seal, tuple[tuple[str, str]]]:
        """The seal of another call, and what is shown with it; the server says its number first, if it has not."""
        if self._key is None:
            self._greet(timeout_s)
        assert self._key is not None
        theirs, key = self._key
        number = next(self._numbers)
        seal = Seal(key, f"{name} {number}", caller=True)
        return seal, ((_KEY, f"{self._nonce} {theirs} {number} {seal.begin()}"),)

    def _greet(self, timeout_s: float) -> None:
        """Ask the server for its number. An answer that is late counts for the next call."""
        if self.address.startswith("unix:"):
            refuse_socket(Path(self.address[5:]))
        if self._hello is None or (self._hello.done() and self._hello.exception() is not None):
            self._hello = self._unary(_HELLO).future(b"", timeout=_PATIENCE_S)
        theirs = self._hello.result(timeout=timeout_s).decode("ascii", "replace")
        if not re.fullmatch("[0-9a-f]{32}", theirs):
            raise ForgedError("this is no server of weft")
        self._key = (theirs, key_of(self._secret, self._nonce, theirs))

    def _lost(self, error: Any) -> LostError:
        if isinstance(error, ForgedError):
            return LostError(str(error), "forged")
        if not isinstance(error, self._grpc.RpcError):
            return LostError("no answer in time")
        code = error.code()
        if code == self._grpc.StatusCode.UNAUTHENTICATED:  # another server answers now, and wants to be greeted
            self._key = self._hello = None
        return LostError(error.details(), "secret" if code == self._grpc.StatusCode.PERMISSION_DENIED else "silent")
