"""The control socket: how `weft submit` and `weft cancel` reach a running `weft serve`. One JSON line each way."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from weft.errors import InputError, WeftError
from weft_live.server.folders import refuse_foreign
from weft_live.unix import ask, bound

SOCKET, TOKEN = "control.sock", "token"
_LONGEST = 4 << 20  # an environment of megabytes is a mistake
_MOST = 32  # callers at a time
_ANSWER_S = 30.0

Request = dict[str, Any]
Answer = dict[str, Any]


class Watcher(Protocol):
    """Who waits for sockets: a live world."""

    def watch(self, source: socket.socket, ready: Callable[[], None]) -> None: ...
    def forget(self, source: socket.socket) -> None: ...


class ControlSocket:
    """The server's end. Every request changes state, so every request carries the token of the folder."""

    def __init__(self, folder: Path, watcher: Watcher, handle: Callable[[Request], Answer]) -> None:
        self._watcher = watcher
        self._handle = handle
        self._token = _make_token(folder / TOKEN)
        self._path = folder / SOCKET
        self._listener = bound(self._path, socket.SOCK_STREAM, _MOST)
        self._own = self._path.stat().st_ino
        self._callers: dict[socket.socket, bytes] = {}
        watcher.watch(self._listener, self._accept)

    def close(self) -> None:
        """Nobody can call any more."""
        self._listener.close()
        for caller in self._callers:
            caller.close()
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._own:  # not that of a server which came after a dry run
                self._path.unlink()

    def _accept(self) -> None:
        with suppress(OSError):
            caller, _ = self._listener.accept()
            caller.setblocking(False)
            if len(self._callers) >= _MOST:
                caller.close()
                return
            self._callers[caller] = b""
            self._watcher.watch(caller, lambda: self._read(caller))

    def _read(self, caller: socket.socket) -> None:
        try:
            data = caller.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._callers[caller] += data
        line, found, _ = self._callers[caller].partition(b"\n")
        if found:
            with suppress(OSError):
                caller.sendall(json.dumps(self._answer(line)).encode() + b"\n")
        if found or not data or len(self._callers[caller]) > _LONGEST:
            del self._callers[caller]
            self._watcher.forget(caller)
            caller.close()

    def _answer(self, line: bytes) -> Answer:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise InputError("a request is a JSON object")
            if not hmac.compare_digest(str(request.get("token", "")).encode(errors="replace"), self._token.encode()):
                raise InputError(f"the token is not that of {self._path.parent}; only its owner may change things")
            return {"ok": True, **self._handle(request)}
        except (ValueError, RecursionError):
            return {"ok": False, "error": "the request is not JSON"}
        except WeftError as error:
            return {"ok": False, "error": str(error)}


def call(folder: Path, request: Request) -> Answer:
    """Ask the `weft serve` of a folder to do something; raises InputError with its own words if it refuses."""
    if folder.exists():
        refuse_foreign(folder)  # a request carries the caller's environment
    try:
        token = (folder / TOKEN).read_text(encoding="ascii").strip()
        asked = json.dumps({**request, "token": token}).encode()
        if len(asked) >= _LONGEST:
            raise InputError(
                f"a request has {_LONGEST >> 20} MiB at most; say it with a shorter command and environment"
            )
        line = ask(folder / SOCKET, asked, _ANSWER_S)
        answer: Answer = json.loads(line)
    except TimeoutError:
        raise InputError(f"{folder}: weft serve does not answer; look at weft queue before you ask again") from None
    except (FileNotFoundError, ConnectionRefusedError):
        raise InputError(f"{folder}: no weft serve runs there; start it with: weft serve --dir {folder}") from None
    except PermissionError:
        raise InputError(f"{folder}: belongs to somebody else; name your own folder with --dir") from None
    except (OSError, ValueError):
        raise InputError(f"{folder}: weft serve ended before it answered; look at weft queue") from None
    if not answer.get("ok"):
        raise InputError(str(answer.get("error", "weft serve gave no reason")))
    return answer


def _make_token(path: Path) -> str:
    """The folder's token: random, readable for its owner alone, made once."""
    with suppress(FileExistsError):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(file, secrets.token_hex(32).encode())
        os.close(file)
    token = path.read_text(encoding="ascii", errors="replace").strip()
    if len(token) < 32 or not token.isalnum():  # killed while it was written, or damaged
        path.unlink()
        return _make_token(path)
    return token
