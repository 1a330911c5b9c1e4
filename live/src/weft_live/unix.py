"""Unix sockets whose path may be longer than an address can be: they are reached through their open folder."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """A name for the socket that is short enough, as long as the block lasts."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def bound(path: Path, kind: socket.SocketKind, callers: int = 0) -> socket.socket:
    """A non-blocking socket bound there for its owner alone; what an earlier process left in the place is removed. With
    `callers` the socket listens before its path appears, so that every caller is heard."""
    new = path.with_name(f"{path.name}.new")
    for left in (path, new):
        with suppress(FileNotFoundError):
            left.unlink()
    made = socket.socket(socket.AF_UNIX, kind)
    before = os.umask(0o177)
    try:
        with _address(new) as address:
            made.bind(address)
        if callers:
            made.listen(callers)
        new.rename(path)
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(before)
    made.setblocking(False)
    return made


def ask(path: Path, line: bytes, timeout_s: float) -> bytes:
    """Send a line to whoever listens there and return the line that comes back; raises OSError if nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, _address(path) as address:
        connection.settimeout(timeout_s)
        connection.connect(address)
        connection.sendall(line + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            part = connection.recv(65536)
            if not part:
                raise ConnectionError(f"{path}: the other side hung up")
            answer += part
        return answer
