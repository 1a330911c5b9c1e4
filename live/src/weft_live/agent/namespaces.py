"""Network namespaces: how to act inside one, and the settings of TCP there.

A namespace that is made here has no name, so that nobody has to remove it: it lives as long as a process holds it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_CLONE_NEWNET = 0x40000000
_SO_NETNS_COOKIE = 71
_NS_GET_NSTYPE = 0xB703
# With these a paced sender sends small bursts, else 64 kB at once. The first is missing before Linux 5.18.
_FINE = {"tcp_tso_rtt_log": "0", "tcp_min_tso_segs": "1"}
_SETTINGS = Path("/proc/sys/net/ipv4")
_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


def new_namespace() -> int:
    """A file that holds a new network namespace."""

    def make() -> int:
        _check(_libc.unshare(_CLONE_NEWNET))
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    return _in_thread(make)


def inside(namespace: int, act: Callable[[], T]) -> T:
    """Call it in that namespace; sockets that it makes stay there."""

    def enter() -> T:
        _check(_libc.setns(namespace, _CLONE_NEWNET))
        return act()

    return _in_thread(enter)


def cookie(namespace: int) -> int:
    """A number that no other namespace has until the machine starts anew, unlike its inode; 0 before Linux 5.14."""

    def ask() -> int:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            try:
                return int(struct.unpack("=Q", any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8))[0])
            except OSError:
                return 0

    return inside(namespace, ask)


def is_namespace(path: str) -> bool:
    """Whether a file is a network namespace."""
    try:
        with open(path, "rb") as file:
            return fcntl.ioctl(file, _NS_GET_NSTYPE) == _CLONE_NEWNET
    except OSError:
        return False


def coarse(folder: Path = _SETTINGS) -> str:
    """What keeps this host from keeping to short slots, in words; "" if nothing does."""
    there = {key: value for key, value in _FINE.items() if (folder / key).exists()}
    wrong = [f"net.ipv4.{key}={value}" for key, value in there.items() if (folder / key).read_text().strip() != value]
    words = "a paced sender sends bursts of 64 kB here, so short slots are not kept; sysctl "
    return words + " ".join(wrong) if wrong else ""


def refine(folder: Path = _SETTINGS) -> None:
    """Set what keeps bursts small in this network namespace, as far as the kernel has it."""
    for key, value in _FINE.items():
        if (folder / key).exists():
            (folder / key).write_text(value)


def _in_thread(act: Callable[[], T]) -> T:
    """A namespace belongs to a thread, so a thread of its own changes into it and ends there."""
    came: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            came.append(act())
        except BaseException as error:  # handed to the caller, whatever it is
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return came[0]


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
