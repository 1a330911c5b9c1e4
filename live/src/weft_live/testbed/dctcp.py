"""Congestion controls of our own, compiled on first use and loaded by libbpf: DCTCP where the kernel has none
(dctcp.bpf.c), and a sender that keeps its rate whatever is lost (fixed.bpf.c).

A registration holds for the whole machine, as long as some process has the file of its link open: the kernel removes it
when the last such process ends, in whatever way. Every testbed registers a name of its own, so that none depends on
another.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.kernels import cache_root
from weft_live.testbed.packets import bpf

OWN = ("dctcp", "fixed")
MARK_BYTES = 110_000  # unless told: 64 kB pass a link without waiting, and 45 kB wait
PREFIX = "weft_dctcp_"
PREFIXES = (PREFIX, "weft_fixed_")
_BTF = Path("/sys/kernel/btf/vmlinux")
_LINK_CREATE, _STRUCT_OPS, _F_LINK = 28, 44, 1 << 13
_TRIES = 8


def lacking(control: str = "dctcp") -> str | None:
    """What is missing here for a congestion control of our own, and how to get it."""
    if _version() < (6, 4):  # older ones do not take it away with the process
        return "it needs Linux 6.4 or newer"
    if not _BTF.exists():
        return "the kernel does not describe itself (CONFIG_DEBUG_INFO_BTF)"
    try:
        ctypes.CDLL("libbpf.so.1")
    except OSError:
        return "libbpf is missing (Debian, Ubuntu: apt-get install libbpf1)"
    if not _object(control).exists() and shutil.which("clang") is None:
        return "clang is missing (Debian, Ubuntu: apt-get install --no-install-recommends clang)"
    return None


def register(control: str = "dctcp") -> tuple[str, int]:
    """The name of a new congestion control of this kind, and the file that it lives by."""
    if missing := lacking(control):
        raise InputError(f"testbed: this kernel has no {control}, and ours cannot be had: {missing}")
    program, usual = _compiled(control), f"weft_{control}_NAME".encode()  # in the source
    for _ in range(_TRIES):
        name = usual.replace(b"NAME", secrets.token_hex(2).encode())
        try:
            return name.decode(), _load(program.replace(usual, name), f"weft_{control}")
        except OSError as error:
            if error.errno != errno.EEXIST:  # another testbed has that name
                raise InputError(
                    f"testbed: this kernel has no {control}, and does not take ours ({error.strerror})"
                ) from None
    raise InputError(f"testbed: all of {_TRIES} names for {control} were taken")


def _version() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])


def _source(control: str) -> Path:
    return Path(__file__).with_name(f"{control}.bpf.c")


def _object(control: str) -> Path:
    """Where the compiled program is kept; it suits every kernel."""
    return cache_root() / f"{control}-{hashlib.sha256(_source(control).read_bytes()).hexdigest()[:16]}.o"


def _compiled(control: str) -> bytes:
    """The program, from the cache if it is there."""
    kept, source = _object(control), _source(control)
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            new = Path(folder, kept.name)
            command = ["clang", "-O2", "-g", "-target", "bpf", "-c", str(source), "-o", str(new)]
            ran = subprocess.run(command, capture_output=True, text=True)
            if ran.returncode != 0:
                said = ran.stderr.strip().splitlines()[:1] or [f"code {ran.returncode}"]
                raise InputError(f"testbed: clang cannot compile {source.name}: {said[0]}")
            new.replace(kept)
    return kept.read_bytes()


def _load(program: bytes, table_name: str) -> int:
    """Register what the program has in this table; returns the file of the link."""
    lib = ctypes.CDLL("libbpf.so.1", use_errno=True)

    def call(name: str, kind: Any, *arguments: Any) -> Any:
        function: Callable[..., Any] = getattr(lib, name)
        function.restype = kind  # type: ignore[attr-defined]
        ctypes.set_errno(0)
        result = function(*arguments)
        if result is None or (kind is ctypes.c_int and result < 0):
            number = ctypes.get_errno() or errno.EINVAL
            raise OSError(number, os.strerror(number))
        return result

    lib.libbpf_set_print(None)  # it would tell the standard error
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    loaded = pointer(call("bpf_object__open_mem", pointer, program, ctypes.c_size_t(len(program)), None))
    try:
        table = pointer(call("bpf_object__find_map_by_name", pointer, loaded, table_name.encode()))
        call("bpf_map__set_map_flags", integer, table, ctypes.c_uint32(_F_LINK))
        call("bpf_object__load", integer, loaded)
        link = pointer(call("bpf_map__attach_struct_ops", pointer, table))
        file, own = int(call("bpf_link__fd", integer, link)), int(call("bpf_map__fd", integer, table))
        if file != own:  # libbpf 1.2 and newer make the link themselves
            return file
        return bpf(_LINK_CREATE, own.to_bytes(4, "little") + bytes(4) + _STRUCT_OPS.to_bytes(4, "little"))
    finally:
        lib.bpf_object__close(loaded)
