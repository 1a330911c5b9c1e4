"""Trace files as lines of text: gzip is unpacked, every line keeps its number, memory stays bounded."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from weft.errors import TraceError

__all__ = ["MAX_LINE", "Line", "head_bytes", "line_batches", "open_bytes", "read_chunk"]

CHUNK = 1 << 22
MAX_LINE = 1 << 20  # longest line of any known trace is 3 kB; a binary file may have none for gigabytes
GZIP_MAGIC = b"\x1f\x8b"

Line = str | None  # None: the bytes of this line are not UTF-8


def open_bytes(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked if it is gzip (by content, not by name)."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
        return cast("IO[bytes]", gzip.open(path, "rb")) if packed else path.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise TraceError(f"{path}: {getattr(error, 'strerror', None) or error}; give a trace file's path") from error


def read_chunk(file: IO[bytes], path: Path, line: int, size: int = CHUNK) -> bytes:
    """The next bytes of a file; damaged gzip data is fatal, because how many rows are lost cannot be known."""
    try:
        return file.read(size)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: cannot be read beyond line {line} ({error}); fetch the file again") from error


def head_bytes(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes of a file, from which its format is recognised."""
    with open_bytes(path) as file:
        return read_chunk(file, path, 1, size)


def line_batches(path: Path) -> Iterator[tuple[int, list[Line]]]:
    """Lines in batches, each with the number of its first line; line ends and a byte-order mark are taken off."""
    number, rest = 1, b""
    with open_bytes(path) as file:
        first = True
        while chunk := read_chunk(file, path, number):
            if first:
                chunk, first = chunk.removeprefix(b"\xef\xbb\xbf"), False
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            if len(rest) > MAX_LINE:
                raise TraceError(f"{path}: line {number + len(lines)} is over {MAX_LINE} bytes long; not a trace file")
            if lines:
                yield number, _decode(lines)
                number += len(lines)
    if rest:
        yield number, _decode([rest])


def _decode(lines: list[bytes]) -> list[Line]:
    try:  # one call for the whole batch: decoding line by line would take as long as all the rest
        return [line.removesuffix("\r") for line in b"\n".join(lines).decode().split("\n")]
    except UnicodeDecodeError:
        return [_decode_one(line) for line in lines]


def _decode_one(line: bytes) -> Line:
    try:
        return line.decode().removesuffix("\r")
    except UnicodeDecodeError:
        return None
