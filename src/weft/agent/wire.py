"""The wire between agents, switches and a server: gRPC with JSON messages, so that there is no generated code.

A service is a dict of functions. Whoever calls shows a secret that only its owner can read; a server on this machine is
better reached by a socket in a folder of its own (`unix:PATH`), which others cannot open at all.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from weft.errors import InputError

Message = dict[str, Any]
Answer = Callable[[Message], Message]
Talk = Callable[[Iterator[Message]], Iterator[Message]]
_SERVICE, _KEY = "weft.Wire", "weft-secret"


def _grpc() -> Any:
    try:
        import grpc
    except ImportError:
        raise InputError("agent: grpcio is missing; pip install 'weft[agent]' brings it") from None
    return grpc


def has_grpc() -> bool:
    """Whether agents can talk at all."""
    return find_spec("grpc") is not None


def secret_of(folder: Path) -> str:
    """The secret of a run: made once, readable by its owner alone. It is there as a whole or not at all."""
    file = folder / "agents.secret"
    if not file.exists():
        draft = folder / f"agents.secret.{secrets.token_hex(8)}"
        with open(draft, "x", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as new:
            new.write(secrets.token_hex(16))
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
        draft.unlink()
    secret = file.read_text(encoding="ascii").strip()
    if not secret:
        raise InputError(f"{file} is empty, so anybody could give orders; remove it and start again")
    return secret


def _packed(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def listen(
    address: str,
    secret: str,
    answers: Mapping[str, Answer] | None = None,
    talks: Mapping[str, Talk] | None = None,
    threads: int = 1024,
    weigh: Callable[[int], None] = lambda size: None,
) -> tuple[Any, str]:
    """A server of these functions, and the address by which it is reached (port 0 is any free one); `weigh` is told how
    many bytes come and go. Every agent that talks keeps a thread, and threads are made when they are needed."""
    grpc = _grpc()

    def read(data: bytes) -> Message:
        weigh(len(data))
        message: Message = json.loads(data)
        return message

    def packed(message: Message) -> bytes:
        data = _packed(message)
        weigh(len(data))
        return data

    def trusted(context: Any) -> None:
        given = dict(context.invocation_metadata()).get(_KEY, "")
        if not hmac.compare_digest(given, secret):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "this is not an agent of this server")

    def one(act: Answer) -> Any:
        def handle(message: Message, context: Any) -> Message:
            trusted(context)
            return act(message)

        return grpc.unary_unary_rpc_method_handler(handle, read, packed)

    def many(act: Talk) -> Any:
        def handle(messages: Iterator[Message], context: Any) -> Iterator[Message]:
            trusted(context)
            yield from act(messages)

        return grpc.stream_stream_rpc_method_handler(handle, read, packed)

    handlers = {name: one(act) for name, act in (answers or {}).items()}
    handlers |= {name: many(act) for name, act in (talks or {}).items()}
    server = grpc.server(ThreadPoolExecutor(threads), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        raise InputError(f"cannot listen at {address}: write HOST:PORT of this machine, or unix:FILE") from None
    server.start()
    return server, address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"


class Line:
    """A connection to such a server."""

    def __init__(self, address: str, secret: str) -> None:
        grpc = _grpc()
        backoff = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
        self._channel = grpc.insecure_channel(address, options=[*backoff, ("grpc.enable_http_proxy", 0)])
        self._metadata = ((_KEY, secret),)
        self.lost: type[Exception] = grpc.RpcError
        self._calls: dict[str, Any] = {}
        self._told: set[Any] = set()

    def ask(self, name: str, message: Message, timeout_s: float = 1.0) -> Message:
        """Call a function; raises `lost` if nobody answers in time."""
        if name not in self._calls:
            self._calls[name] = self._channel.unary_unary(f"/{_SERVICE}/{name}", _packed, json.loads)
        answer: Message = self._calls[name](message, timeout=timeout_s, metadata=self._metadata)
        return answer

    def tell(self, name: str, message: Message, timeout_s: float = 1.0) -> None:
        """Call a function, and wait for no answer."""
        if name not in self._calls:
            self._calls[name] = self._channel.unary_unary(f"/{_SERVICE}/{name}", _packed, json.loads)
        call = self._calls[name].future(message, timeout=timeout_s, metadata=self._metadata)
        self._told.add(call)  # a call that nobody holds is cancelled
        call.add_done_callback(self._told.discard)

    def talk(self, name: str, messages: Iterable[Message]) -> Any:
        """Send messages as they come, and iterate over what comes back."""
        call = self._channel.stream_stream(f"/{_SERVICE}/{name}", _packed, json.loads)
        return call(iter(messages), metadata=self._metadata)

    def close(self) -> None:
        """Hang up."""
        self._channel.close()
