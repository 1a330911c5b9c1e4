"""Processes of jobs: found on a host by their environment, and accepted only if their user is the one the server names.

Finding them needs the right to trace them (CAP_SYS_PTRACE for those of other users), and no other right.
"""

from __future__ import annotations

import ctypes
import os
import re

_SYS_PTRACE = 19  # the number of the capability
_MOST = 1 << 22  # bytes of an environment that are read
_libc = ctypes.CDLL(None, use_errno=True)


class Span(ctypes.Structure):
    """Memory, as the kernel is told of it (struct iovec)."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def end_with(parent: int) -> bool:
    """Have the kernel send SIGTERM when the process that started this one ends; False if it has ended already."""
    _libc.prctl(1, 15, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGTERM
    return os.getppid() == parent


def may_trace() -> bool:
    """Whether this process may look into others that are not its children, as an agent must."""
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", "rb") as file:
            return may_trace_others() or file.read().strip() == b"0"
    except FileNotFoundError:
        return True


def may_trace_others() -> bool:
    """Whether it may look into processes of other users: it has CAP_SYS_PTRACE."""
    with open("/proc/self/status", "rb") as file:
        return any(line.startswith(b"CapEff:") and int(line.split()[1], 16) >> _SYS_PTRACE & 1 for line in file)


def belongs(pid: int, uid: int, slurm: str = "") -> bool:
    """Whether a process runs as this user and, where Slurm has put it into a cgroup of its own, in that Slurm job."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            users = next(line for line in file if line.startswith(b"Uid:")).split()[1:3]  # real and effective
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            jobs = set(re.findall(rb"/job_(\d+)(?=/|$)", file.read(), re.MULTILINE))
    except (OSError, StopIteration):
        return False
    return set(map(int, users)) == {uid} and (not slurm or jobs <= {slurm.encode()})


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
                told = dict(pair.partition(b"=")[::2] for pair in _environment(pid).split(b"\0"))
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


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except PermissionError:  # that file is its user's alone; its memory is open to whoever may trace it
        begin, end = map(int, _stat(pid)[47:49])
        data = ctypes.create_string_buffer(min(end - begin, _MOST))
        here, there = Span(ctypes.addressof(data), len(data)), Span(begin, len(data))
        got = _libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        return data.raw[: max(got, 0)]


def _stat(pid: int) -> list[bytes]:
    """Fields of /proc/PID/stat from the third on: proc(5)."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def _settled(pid: int) -> bool:
    """Whether a process has run for a second, and so has entered its namespace and become its command."""
    try:
        ticks = int(_stat(pid)[19])
        with open("/proc/uptime", "rb") as file:
            return float(file.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK") > 1.0
    except (OSError, ValueError, IndexError):
        return True
