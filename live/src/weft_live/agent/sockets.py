"""Sockets of other processes: found, read and paced from outside, without a change to the processes that own them.

A socket is duplicated for the instant of a call only (pidfd_getfd), so that a job which closes one closes it for good.
This needs the right to trace the process, and only the standard library, because the guardian runs it too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Callable, Iterator
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

UNLIMITED = 2**64 - 1
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_SO_MAX_PACING_RATE, _TCP_INFO = 47, 11
_SO_COOKIE, _SO_BINDTOIFINDEX = 57, 62
_ESTABLISHED = 1
_RDMA = "/dev/infiniband/"
_libc = ctypes.CDLL(None, use_errno=True)
_info, _length, _rate = ctypes.create_string_buffer(240), ctypes.c_uint32(0), ctypes.c_uint64(0)
Reading = tuple[int, int]  # bytes of a socket that have arrived, and bytes that wait in it
READING, READING_AT = struct.Struct("=Q16xI"), 120  # in TCP_INFO: bytes_acked, then notsent_bytes at 144


class Process:
    """A process, held by a file descriptor, so that no later process with the same number is taken for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.file = int(_libc.syscall(_PIDFD_OPEN, pid, 0))
        if self.file < 0:
            raise ProcessLookupError(pid)
        os.set_inheritable(self.file, False)
        self.rdma = False  # it has such a device open

    def close(self) -> None:
        """Let go of it."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def borrow(self, number: int, inode: int) -> int:
        """A duplicate of its socket, for the caller to close; -1 if it is not there any more."""
        file = int(_libc.syscall(_PIDFD_GETFD, self.file, number, 0))
        if file >= 0 and os.fstat(file).st_ino != inode:
            os.close(file)
            return -1
        return file

    def sockets(self, known: dict[int, Remote]) -> dict[int, Remote]:
        """Its established TCP connections by inode; those that are known are not looked at again."""
        found: dict[int, Remote] = {}
        for number, link in _files(self.pid):
            self.rdma = self.rdma or link.startswith(_RDMA)
            if not link.startswith("socket:["):
                continue
            inode = int(link[8:-1])
            if inode in known:
                found[inode] = known[inode]
                continue
            made = self._connection(number, inode)
            if made is not None:
                found[inode] = made
        return found

    def _connection(self, number: int, inode: int) -> Remote | None:
        file = self.borrow(number, inode)
        if file < 0:
            return None
        with socket.socket(fileno=file) as there:
            if there.family not in (socket.AF_INET, socket.AF_INET6) or there.type != socket.SOCK_STREAM:
                return None
            try:
                if there.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0] != _ESTABLISHED:
                    return None
                mine, peer = there.getsockname(), there.getpeername()
                question = _question(there, mine, peer)
            except OSError:
                return None
        return Remote(self, number, inode, mine[0] == peer[0], question)


class Remote:
    """A connection of another process, and the rate that it had before anybody paced it.

    `near`: it does not leave its host. `question` is how the kernel is asked about it (sock_diag).
    """

    __slots__ = ("inode", "near", "number", "original", "process", "question", "rate")

    def __init__(
        self, process: Process, number: int, inode: int, near: bool = False, question: bytes = b""
    ) -> None:  # fmt: skip
        self.process, self.number, self.inode, self.near, self.question = process, number, inode, near, question
        self.original: int | None = None
        self.rate: int | None = None  # as we set it last; None: untouched

    def read(self) -> Reading | None:
        """How far it is; None if it is gone."""
        file = self.process.borrow(self.number, self.inode)
        if file < 0:
            return None
        try:
            _length.value = 240
            if _libc.getsockopt(file, socket.IPPROTO_TCP, _TCP_INFO, _info, ctypes.byref(_length)):
                return None
            acked, waiting = READING.unpack_from(_info, READING_AT)
            return acked, waiting
        finally:
            os.close(file)

    def pace(self, bytes_per_s: int) -> bool:
        """Set the most that it sends; False if it is gone."""
        if bytes_per_s == self.rate:
            return True
        file = self.process.borrow(self.number, self.inode)
        if file < 0:
            return False
        try:
            if self.original is None:
                self.original = _paced(file)
            self.rate = bytes_per_s
            return _set(file, bytes_per_s)
        finally:
            os.close(file)

    def paced(self) -> int:
        """The most that it sends, as the kernel has it; unlimited if it is gone."""
        file = self.process.borrow(self.number, self.inode)
        if file < 0:
            return UNLIMITED
        try:
            return _paced(file)
        finally:
            os.close(file)


def _question(there: socket.socket, mine: tuple[Any, ...], peer: tuple[Any, ...]) -> bytes:
    """inet_diag_req_v2 for this very socket: who it is, with its cookie, and that TCP_INFO is wanted."""
    ends = [socket.inet_pton(there.family, address[0].partition("%")[0]).ljust(16, b"\0") for address in (mine, peer)]
    device = struct.unpack("=I", there.getsockopt(socket.SOL_SOCKET, _SO_BINDTOIFINDEX, 4))[0]
    cookie = there.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8)
    head = struct.pack("=BBBBI", there.family, socket.IPPROTO_TCP, 1 << 1, 0, 1 << _ESTABLISHED)
    return head + struct.pack("!HH", mine[1], peer[1]) + b"".join(ends) + struct.pack("=I", device) + cookie


def _files(pid: int) -> Iterator[tuple[int, str]]:
    """Open files of a process: numbers, and what they are."""
    folder = f"/proc/{pid}/fd"
    look: Callable[[str], str] = os.readlink
    numbers = _listed(folder)
    if not numbers:  # that folder is its user's alone; fdinfo is open to whoever may trace it, from Linux 5.14 on
        folder, look = f"/proc/{pid}/fdinfo", _told
        numbers = _listed(folder)
    for number in numbers:
        with contextlib.suppress(OSError, KeyError):
            yield int(number), look(f"{folder}/{number}")


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _told(path: str) -> str:
    """What a link in /proc/PID/fd would say, from fdinfo."""
    told = _fields_of(path)
    if told["mnt_id:"] == _socket_mount():
        return f"socket:[{told['ino:']}]"
    devices = os.scandir(_RDMA) if os.path.isdir(_RDMA) else ()
    return _RDMA if int(told["ino:"]) in {device.inode() for device in devices} else ""


def _fields_of(path: str) -> dict[str, str]:
    with open(path, encoding="ascii") as file:
        return {words[0]: words[1] for words in map(str.split, file) if len(words) > 1}


@cache
def _socket_mount() -> str:
    """The mount on which all sockets lie."""
    with socket.socket() as mine:
        return _fields_of(f"/proc/self/fdinfo/{mine.fileno()}")["mnt_id:"]


def _paced(file: int) -> int:
    _length.value = 8
    if _libc.getsockopt(file, socket.SOL_SOCKET, _SO_MAX_PACING_RATE, ctypes.byref(_rate), ctypes.byref(_length)):
        return UNLIMITED
    return int(_rate.value)


def _set(file: int, bytes_per_s: int) -> bool:
    _rate.value = bytes_per_s
    return int(_libc.setsockopt(file, socket.SOL_SOCKET, _SO_MAX_PACING_RATE, ctypes.byref(_rate), 8)) == 0
