"""Processes as /proc shows them: which descends from which, and when each began. The runner uses this without weft."""

from __future__ import annotations

import contextlib
import os
import signal


def be_subreaper() -> None:
    """Become the parent of whatever the job's processes leave behind, also of those with a session of their own."""
    import ctypes  # here, since whoever only relays needs none

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def processes() -> dict[int, tuple[int, str]]:
    """Parent and state of every process."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                found[int(name)] = (int(fields[1]), fields[0].decode())
    return found


def children(pid: int) -> list[int]:
    """Processes whose parent it is, those that have ended too."""
    return [child for child, (parent, _) in processes().items() if parent == pid]


def family(pid: int) -> list[int]:
    """All that descends from a process and has not ended."""
    known = processes()
    below: dict[int, list[int]] = {}
    for child, (parent, _) in known.items():
        below.setdefault(parent, []).append(child)
    found, rest = [], [pid]
    while rest:
        rest += (more := below.get(rest.pop(), []))
        found += [child for child in more if known[child][1] not in "ZX"]
    return found


def kill(pid: int) -> None:
    """SIGKILL, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def started_at(pid: int) -> int:
    """When a process started, in clock ticks since boot; with its number that tells it from any other. 0: gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


def boot_id() -> str:
    """Tells one boot of this machine from another."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
