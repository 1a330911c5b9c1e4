"""Diag: reads the progress of many sockets by one message to the kernel, with a question about each (sock_diag(7)).

Borrowing a socket costs four calls at every look. So sockets are read in this way where the kernel can answer, and are
borrowed only to set their rates.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Sequence

from weft_live.agent.namespaces import inside
from weft_live.agent.processes import Span
from weft_live.agent.sockets import READING, READING_AT, Reading, Remote

_SOCK_DIAG, _BY_FAMILY, _INFO = 4, 20, 2  # the protocol of netlink, the message, and the attribute that is TCP_INFO
_HEAD = struct.Struct("=IHHII")  # length, type, flags, number, port of a message
_ATTRIBUTE = struct.Struct("=HH")  # length and type
_ANSWER = 72  # bytes of inet_diag_msg
_ROOM, _AT_ONCE = 1024, 64  # bytes of an answer, and questions in one message
_libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p), ("name_length", ctypes.c_uint32), ("vectors", ctypes.POINTER(Span)),
        ("n_vectors", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )  # fmt: skip


class _Received(ctypes.Structure):
    _fields_ = (("header", _Header), ("length", ctypes.c_uint32))


class Diag:
    """Asks in one network namespace; raises OSError where that cannot be done."""

    def __init__(self, netns: str = "") -> None:
        self._socket = _ask_in(netns) if netns else _ask_here()
        self._buffer = ctypes.create_string_buffer(_ROOM * _AT_ONCE)
        self._view, start = memoryview(self._buffer), ctypes.addressof(self._buffer)
        self._vectors = (Span * _AT_ONCE)(*(Span(start + _ROOM * i, _ROOM) for i in range(_AT_ONCE)))
        self._headers = (_Received * _AT_ONCE)()
        for i in range(_AT_ONCE):
            self._headers[i].header.vectors = ctypes.pointer(self._vectors[i])
            self._headers[i].header.n_vectors = 1
        self._asked: tuple[Sequence[Remote], bytes] = ((), b"")
        self._answer = _layout(_HEAD.size + _ANSWER)  # as in the last answer: attributes have the same order in most

    def read(self, remotes: Sequence[Remote]) -> Sequence[Reading | None]:
        """How far each is; None for those of which the kernel says nothing."""
        if len(remotes) > _AT_ONCE:
            return [*self.read(remotes[:_AT_ONCE]), *self.read(remotes[_AT_ONCE:])]
        if self._asked[0] is not remotes:
            size = _HEAD.size + (len(remotes[0].question) if remotes else 0)
            asked = (_HEAD.pack(size, _BY_FAMILY, 1, i, 0) + remote.question for i, remote in enumerate(remotes))
            self._asked = (remotes, b"".join(asked))
        try:
            self._socket.send(self._asked[1])  # it returns when all answers are there
        except OSError:
            return [None] * len(remotes)
        got = _libc.recvmmsg(self._socket.fileno(), self._headers, len(remotes), socket.MSG_DONTWAIT, None)
        found: list[Reading | None] = [None] * len(remotes)
        for i, row in enumerate(self._answer.iter_unpack(self._view[: max(got, 0) * _ROOM])):
            length, kind, number, attribute, acked, waiting = row
            if kind != _BY_FAMILY or number >= len(remotes):
                continue
            if attribute != _INFO:
                self._learn(_ROOM * i, length)
                attribute, acked, waiting = self._answer.unpack_from(self._buffer, _ROOM * i)[3:]
            if attribute == _INFO:
                found[number] = (acked, waiting)
        return found

    def _learn(self, start: int, length: int) -> None:
        """Find out where TCP_INFO is in an answer; the next ones are read so."""
        at = _HEAD.size + _ANSWER
        while at + _ATTRIBUTE.size <= length:
            size, kind = _ATTRIBUTE.unpack_from(self._buffer, start + at)
            if kind == _INFO:
                self._answer = _layout(at)
                return
            at += max(size + 3 & ~3, _ATTRIBUTE.size)

    def close(self) -> None:
        """Ask no more."""
        self._socket.close()


def _layout(at: int) -> struct.Struct:
    """Length, type and number of an answer with its first attribute at `at`, the attribute's type, and a reading."""
    before, upto = at + 2 - 12, READING_AT + READING.size
    return struct.Struct(f"=IH2xI{before}xH{READING_AT}x{READING.format[1:]}{_ROOM - at - _ATTRIBUTE.size - upto}x")


def _ask_here() -> socket.socket:
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    return made


def _ask_in(netns: str) -> socket.socket:
    file = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return inside(file, _ask_here)
    finally:
        os.close(file)
