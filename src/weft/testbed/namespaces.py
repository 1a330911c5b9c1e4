"""Network namespaces that nobody has to remove: they live as long as a process holds them, and no longer.

A namespace here has no name. It is held by a file of the process that made it, by its warden and by the processes that
run in it, and the warden ends those when their maker has ended. So `kill -9` leaves nothing behind.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
from collections.abc import Callable
from typing import TypeVar

from weft.errors import InputError

_CLONE_NEWNET = 0x40000000
_SO_NETNS_COOKIE = 71
_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


def refuse() -> None:
    """Raise, in one line, if this process cannot make a testbed here."""
    try:
        import pyroute2  # noqa: F401 - only whether it is there
    except ImportError:
        raise InputError("testbed: pyroute2 is missing; pip install 'weft[testbed]' brings it") from None
    if os.geteuid() != 0:
        raise InputError("testbed: network namespaces need root; run it with sudo")
    try:
        os.close(new_namespace())
    except OSError as error:
        raise InputError(f"testbed: this machine makes no network namespaces ({error.strerror})") from None


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
