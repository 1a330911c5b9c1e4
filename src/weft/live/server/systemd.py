"""Telling systemd that the server is ready and alive (sd_notify): a datagram to the socket that it names."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

__all__ = ["notify"]


def notify(words: str) -> None:
    """`READY=1`, `WATCHDOG=1`, ...; nothing where systemd did not start this process."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    address = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
        out.sendto(words.encode(), address)
