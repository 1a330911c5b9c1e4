"""Sockets of other processes: found, read and paced from outside, without a change to who owns them.

A socket is duplicated for the instant of a call only (pidfd_getfd), so that a job which closes one closes it for good.
Needs the right to trace the process, and nothing but the standard library: the guardian runs this too.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct

UNLIMITED = 2**64 - 1
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438
_SO_MAX_PACING_RATE, _TCP_INFO = 47, 11
_ESTABLISHED = 1
_libc = ctypes.CDLL(None, use_errno=True)
_info, _length, _rate = ctypes.create_string_buffer(240), ctypes.c_uint32(0), ctypes.c_uint64(0)
_fields = struct.Struct("=Q16xI")  # bytes_acked at 120, then notsent_bytes at 144


class Reading:
    """What a socket has sent that arrived, and what waits in it."""

    __slots__ = ("acked", "waiting")

    def __init__(self, acked: int, waiting: int) -> None:
        self.acked, self.waiting = acked, waiting


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
        try:
            numbers = os.listdir(f"/proc/{self.pid}/fd")
        except OSError:
            return found
        for number in numbers:
            try:
                link = os.readlink(f"/proc/{self.pid}/fd/{number}")
            except OSError:
                continue
            self.rdma = self.rdma or link.startswith("/dev/infiniband/")
            if not link.startswith("socket:["):
                continue
            inode = int(link[8:-1])
            if inode in known:
                found[inode] = known[inode]
                continue
            made = self._connection(int(number), inode)
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
                near = there.getpeername()[0] == there.getsockname()[0]
            except OSError:
                return None
        return Remote(self, number, inode, near)


class Remote:
    """A connection of another process, and the rate that it had before anybody paced it.

    `near`: it does not leave its host.
    """

    __slots__ = ("inode", "near", "number", "original", "process", "rate")

    def __init__(self, process: Process, number: int, inode: int, near: bool = False) -> None:
        self.process, self.number, self.inode, self.near = process, number, inode, near
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
            return Reading(*_fields.unpack_from(_info, 120))
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


def _paced(file: int) -> int:
    _length.value = 8
    if _libc.getsockopt(file, socket.SOL_SOCKET, _SO_MAX_PACING_RATE, ctypes.byref(_rate), ctypes.byref(_length)):
        return UNLIMITED
    return int(_rate.value)


def _set(file: int, bytes_per_s: int) -> bool:
    _rate.value = bytes_per_s
    return int(_libc.setsockopt(file, socket.SOL_SOCKET, _SO_MAX_PACING_RATE, ctypes.byref(_rate), 8)) == 0


def end_with(parent: int) -> bool:
    """Have the kernel send SIGTERM when the process that started this one ends; False if it has ended already."""
    _libc.prctl(1, 15, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGTERM
    return os.getppid() == parent


def may_trace() -> bool:
    """Whether this user may look into processes that are not its children, as an agent must."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as file:
            return os.geteuid() == 0 or file.read().strip() == b"0"
    except FileNotFoundError:
        return True


def namespace_of(pid: int | str) -> int:
    """The network namespace of a process, by its inode; 0 if the process is gone."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0


def jobs_here(namespace: int, seen: dict[int, str | None], node: str = "", folder: str = "") -> dict[int, str]:
    """Processes of jobs (WEFT_JOB in their environment) in a network namespace, by number; those that Slurm has started
    on another node than `node` are left to the agent there, and those of a server with another folder to its agents.

    `seen` remembers processes that were looked at: a process keeps the environment that it was started with.
    """
    numbers = {int(name) for name in os.listdir("/proc") if name.isdecimal()}
    for pid in [pid for pid in seen if pid not in numbers]:
        del seen[pid]
    for pid in numbers - seen.keys():
        name = None
        if namespace_of(pid) == namespace:
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    told = dict(pair.partition(b"=")[::2] for pair in file.read().split(b"\0"))
                here = told.get(b"SLURMD_NODENAME", node.encode()) == node.encode()
                if here and told.get(b"WEFT_SERVER_DIR", folder.encode()) == folder.encode():
                    name = told.get(b"WEFT_JOB", b"").decode(errors="replace") or None
            except OSError:
                pass  # gone, or not ours to read
            if name is None and not _settled(pid):
                continue  # it may be about to become the job's command
        elif not _settled(pid):
            continue
        seen[pid] = name
    return {pid: name for pid, name in seen.items() if name}


def _settled(pid: int) -> bool:
    """Whether a process has run for a second, and so has entered its namespace and become its command."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        with open("/proc/uptime", "rb") as file:
            return float(file.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK") > 1.0
    except (OSError, ValueError, IndexError):
        return True
