"""Trust: how agents, switches and their server recognise each other by a secret of the run that nobody else knows.

The secret is never sent. Both sides of a line choose a number that nobody has used before, and make a key from the
secret and these two. Every message of every call carries a code that is made with that key from the name and number of
the call, the direction, the place of the message in it, and its text. So nobody who does not know the secret can
invent, change, repeat or reorder a message, whoever answers at the address. Somebody on the path between them can still
read, delay and drop messages.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
import threading
from pathlib import Path

from weft.errors import InputError
from weft_live.server.folders import refuse_foreign

SECRET = "agents.secret"
_CODE = 32  # bytes of a code
_REMEMBERED = 256  # calls of one line that may overtake each other


class ForgedError(Exception):
    """A message that nobody who knows the secret has sent in this place."""


def secret_of(folder: Path) -> str:
    """The secret of a run: made once, readable by its owner alone. It is there as a whole or not at all."""
    if not (folder / SECRET).exists():
        draft = folder / f"{SECRET}.{secrets.token_hex(8)}"
        with open(draft, "x", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as new:
            new.write(secrets.token_hex(16))
        with contextlib.suppress(FileExistsError):
            os.link(draft, folder / SECRET)
        draft.unlink()
    secret = secret_in(folder)
    assert secret is not None
    return secret


def secret_in(folder: Path) -> str | None:
    """The secret that a server has made, or that was copied from there; None if there is none."""
    path = folder / SECRET
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            known, secret = os.fstat(file.fileno()), file.read().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if known.st_uid != os.geteuid():
        raise InputError(f"{path}: belongs to another user, who could give orders; make it your own (chown)")
    if known.st_mode & 0o077:
        raise InputError(f"{path}: other users may read or write it; remove it, restart the server, copy the new one")
    if not secret:
        raise InputError(f"{path} is empty, so anybody could give orders; remove it and start again")
    return secret


def refuse_socket(path: Path) -> None:
    """Raise if a socket, or a folder that it lies in, is another user's, or if others may write there."""
    if not path.parent.exists():
        return  # nobody listens there yet
    refuse_foreign(path.parent, "--server")
    with contextlib.suppress(FileNotFoundError):
        known = path.lstat()
        if known.st_uid != os.geteuid() or known.st_mode & 0o022 or not stat.S_ISSOCK(known.st_mode):
            raise InputError(f"{path}: is no socket that this user alone may use; remove it, and restart the server")


def new_nonce() -> str:
    """A number that nobody has used before."""
    return secrets.token_hex(16)


def key_of(secret: str, caller: str, called: str) -> bytes:
    """The key of a line, from the secret and the numbers that both sides have chosen."""
    return hmac.digest(secret.encode(), f"weft {caller} {called}".encode(), "sha256")


class Seal:
    """The messages of one call, as one side sends and reads them: each has its place."""

    def __init__(self, key: bytes, call: str, *, caller: bool) -> None:
        self._key, self._call = key, call
        self._out, self._in = ("ask", "answer") if caller else ("answer", "ask")
        self._sent = self._read = 0

    def begin(self) -> str:
        """A code for the call itself, which the caller shows."""
        return hmac.digest(self._key, f"call {self._call}".encode(), "sha256").hex()

    def shown(self, code: str) -> bool:
        """Whether a caller has shown it."""
        return hmac.compare_digest(code.encode(), self.begin().encode())

    def close(self, data: bytes) -> bytes:
        """The next message to send."""
        self._sent += 1
        return self._code(self._out, self._sent, data) + data

    def open(self, data: bytes) -> bytes:
        """The next message that was received."""
        self._read += 1
        if not hmac.compare_digest(data[:_CODE], self._code(self._in, self._read, data[_CODE:])):
            raise ForgedError("whoever sent this does not know the secret")
        return data[_CODE:]

    def _code(self, way: str, place: int, data: bytes) -> bytes:
        return hmac.digest(self._key, f"{way} {self._call} {place} ".encode() + data, "sha256")


class Calls:
    """Which calls a server has had, by caller: none counts twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._had: dict[str, tuple[int, set[int]]] = {}  # all up to a number, and some above it

    def fresh(self, caller: str, number: int) -> bool:
        """Whether this one is new; from now on it is not."""
        with self._lock:
            floor, above = self._had.get(caller, (-1, set()))
            if number <= floor or number in above:
                return False
            above.add(number)
            if len(above) > _REMEMBERED:
                floor = sorted(above)[_REMEMBERED // 2]
                above = {known for known in above if known > floor}
            self._had[caller] = (floor, above)
            return True
