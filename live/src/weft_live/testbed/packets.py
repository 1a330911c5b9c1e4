"""Packets that are lost or marked: a few instructions that the kernel runs for every packet that enters a link's queue.

They are written as the kernel reads them (eBPF), since a compiler for them would be a dependency. Loss draws a random
number. A mark (CE) is set when the queue of an ideal link of the same rate would hold more than a threshold; what is
in that queue is kept in a map of one entry: the bytes, and when they were counted.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from dataclasses import dataclass
from typing import Any

from weft.errors import InputError

_BPF = {"x86_64": 321, "aarch64": 280}  # the number of the system call
_MAP_CREATE, _PROG_LOAD = 0, 5
_ARRAY, _SCHED_CLS = 2, 3
_LOOKUP, _KTIME, _RANDOM, _SET_CE = 1, 5, 7, 97  # helpers
_OK, _SHOT = 0, 2
_CLSACT, _EGRESS = "clsact", 0xFFFFFFF3
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Marks:
    """Packets that find more than this many bytes waiting are marked."""

    threshold_bytes: int = 65_000


def attach(ip: Any, index: int, rate: float, loss: float, marks: Marks | None) -> None:
    """Run the program for every packet that leaves by this interface."""
    program = _load(_program(rate, loss, marks))
    try:
        ip.tc("add", _CLSACT, index)
        ip.tc("add-filter", "bpf", index, ":1", fd=program, name="weft", parent=_EGRESS, classid=1, direct_action=True)
    finally:
        os.close(program)  # the filter holds it


def _instruction(code: int, dst: int = 0, src: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, dst | src << 4, offset, value)


def _program(rate: float, loss: float, marks: Marks | None) -> bytes:
    """Drop a share `loss` of packets; mark the others if the modelled queue is long."""
    put, do, code = bytearray(), _instruction, struct.pack
    put += do(0xBF, 6, 1)  # r6 = the packet
    if loss:
        put += do(0x85, value=_RANDOM)
        put += do(0xB4, 1, value=ctypes.c_int32(min(int(loss * 2**32), 2**32 - 1)).value)  # w1 = share
        put += do(0x3E, 0, 1, 2)  # if w0 >= w1 skip two
        put += do(0xB7, 0, value=_SHOT) + do(0x95)
    if marks is not None:
        table = _map()
        nanoseconds = max(int(1e9 * 65536 / rate), 1)  # that 65,536 bytes take
        put += do(0x62, 10, offset=-4)  # key 0
        put += do(0x18, 1, 1, value=table) + code("<q", 0)  # r1 = the map
        put += do(0xBF, 2, 10) + do(0x07, 2, value=-4)  # r2 = the key
        put += do(0x85, value=_LOOKUP)
        put += do(0x15, 0, offset=19)  # no entry: out
        put += do(0xBF, 7, 0)  # r7 = the entry: bytes x ns, time
        put += do(0x85, value=_KTIME)
        put += do(0x79, 8, 7, 0) + do(0x79, 1, 7, 8)  # r8 = work in the queue in ns, r1 = when
        put += do(0x7B, 7, 0, 8)  # time = now
        put += do(0x1F, 0, 1)  # r0 = passed
        put += do(0x3D, 8, 0, 1) + do(0xBF, 8, 0)  # if r8 < passed: r8 = passed
        put += do(0x1F, 8, 0)  # r8 -= passed
        put += do(0x61, 1, 6, 0)  # r1 = length of the packet
        put += do(0x27, 1, value=nanoseconds) + do(0x77, 1, value=16)  # its time on the link
        put += do(0x0F, 8, 1)
        put += do(0x7B, 7, 8, 0)
        put += do(0xB7, 1, value=int(marks.threshold_bytes / rate * 1e9))
        put += do(0x3D, 1, 8, 2)  # if threshold >= r8: no mark
        put += do(0xBF, 1, 6) + do(0x85, value=_SET_CE)
    put += do(0xB7, 0, value=_OK) + do(0x95)
    return bytes(put)


def _map() -> int:
    """Room for one entry of 16 bytes."""
    return bpf(_MAP_CREATE, struct.pack("<IIII", _ARRAY, 4, 16, 1))


def _load(program: bytes) -> int:
    """The program in the kernel, as a file."""
    text, licence = ctypes.create_string_buffer(program), ctypes.create_string_buffer(b"Dual MIT/GPL")
    log = ctypes.create_string_buffer(65536)
    attributes = struct.pack(
        "<IIQQIIQ", _SCHED_CLS, len(program) // 8, ctypes.addressof(text), ctypes.addressof(licence), 1, len(log),
        ctypes.addressof(log),
    )  # fmt: skip
    try:
        return bpf(_PROG_LOAD, attributes)
    except OSError as error:
        last = log.value.decode(errors="replace").strip().splitlines()[-1:] or [""]
        raise InputError(f"testbed: this kernel loads no program for packets ({error.strerror}; {last[0]})") from None


def bpf(command: int, attributes: bytes) -> int:
    number = _BPF.get(platform.machine())
    if number is None:
        raise InputError(f"testbed: packets can be lost or marked on x86_64 and aarch64, not on {platform.machine()}")
    given = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    file = int(_libc.syscall(number, command, given, 128))
    if file < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return file
