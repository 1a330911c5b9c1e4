"""Trace files as text: lines, and elements of JSON lists, each with its line number, in bounded memory."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from weft.errors import TraceError

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


def read_chunk(file: IO[bytes], path: Path, line: int, size: int | None = None) -> bytes:
    """The next bytes of a file; damaged gzip data is fatal, because how many rows are lost cannot be known."""
    try:
        return file.read(size or CHUNK)
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


MAX_ELEMENT = 1 << 24  # characters; a job of the largest known log has under 1 MB
SPACE = re.compile(r"[ \t\r\n]*")
DECODER = json.JSONDecoder()


def elements(path: Path) -> Iterator[tuple[int, object]]:
    """Each element of the list in a file with the line it begins on; for one that is not JSON, a string that says why.

    After a broken element reading goes on at the next line that begins as the first element did (published logs are
    indented alike throughout); in a file without such lines a broken element is fatal, because nobody could say how
    many rows it swallowed. Elements that are themselves strings count as broken: no trace has them.
    """
    cursor = _Cursor(path)
    with cursor.file:
        if cursor.skip_space() != "[":
            raise TraceError(f"{path}:{cursor.line}: not a JSON list; a list of jobs in square brackets was expected")
        cursor.to(cursor.at + 1)
        mark = ""
        while (char := cursor.skip_space()) != "]":
            if not char:
                yield cursor.line, "the file breaks off inside the list"
                return
            mark = mark or cursor.mark()
            line = cursor.line
            element, sound = _element(cursor)
            if not sound and not mark:
                raise TraceError(f"{path}:{line}: {element}; jobs after it cannot be told apart: mend the file")
            yield line, element
            if sound:
                if cursor.skip_space() == ",":
                    cursor.to(cursor.at + 1)
            elif not cursor.seek(mark):
                return


class _Cursor:
    """A place in a text file, with the text around it, which slides forward and grows on demand."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, open_bytes(path)
        self.decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
        self.text, self.at, self.line, self.ended = "", 0, 1, False

    def more(self) -> None:
        """Drop what lies behind, and double what lies ahead."""
        data = read_chunk(self.file, self.path, self.line, max(CHUNK, len(self.text) - self.at))
        self.ended = not data
        behind = max(0, self.at - 200)  # enough for `mark`
        self.text = self.text[behind:] + self.decode(data, final=self.ended)
        self.at -= behind

    def to(self, position: int) -> None:
        """Move forward."""
        self.line += self.text.count("\n", self.at, position)
        self.at = position

    def skip_space(self) -> str:
        """Move to the next character that is not space; it, or "" at the end of the file."""
        while True:
            match = SPACE.match(self.text, self.at)
            self.to(match.end() if match else self.at)
            if self.at < len(self.text):
                return self.text[self.at]
            if self.ended:
                return ""
            self.more()

    def mark(self) -> str:
        """How this line begins, up to and with the current character; "" if it is not the first in its line."""
        begin = self.text.rfind("\n", 0, self.at)
        margin = self.text[begin + 1 : self.at]
        return "" if begin < 0 or margin.strip() else self.text[begin : self.at + 1]

    def seek(self, mark: str) -> bool:
        """Move to the next line that begins with this mark, onto its last character; False if there is none."""
        while True:
            found = self.text.find(mark, self.at)
            if found >= 0:
                self.to(found + len(mark) - 1)
                return True
            self.to(max(self.at, len(self.text) - len(mark)))
            if self.ended:
                return False
            self.more()


def _element(cursor: _Cursor) -> tuple[object, bool]:
    """The element at the cursor and True, with the cursor behind it; or a complaint and False, and no move."""
    while True:
        whole = cursor.ended or len(cursor.text) - cursor.at >= MAX_ELEMENT
        try:
            value, end = DECODER.raw_decode(cursor.text, cursor.at)
        except json.JSONDecodeError as error:
            if whole:
                line = cursor.line + cursor.text.count("\n", cursor.at, error.pos)
                return f"is not JSON ({error.msg} in line {line})", False
        except (ValueError, RecursionError) as error:  # a number of thousands of digits; brackets thousands deep
            if whole:
                return f"is not JSON that can be read ({str(error)[:60]})", False
        else:
            if end < len(cursor.text) or whole:
                cursor.to(end)
                return (value, True) if not isinstance(value, str) else (f"is the text {value[:40]!r}, no object", True)
        cursor.more()
