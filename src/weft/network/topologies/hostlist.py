"""Hostlists: Slurm's shorthand for many names, such as `n[1-4,09-12],login`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from math import prod

from weft.errors import InputError

MAX_HOSTS = 100_000  # Slurm's own limit is lower; more is surely a typing error
_MAX_DIGITS = 18
_ASCII_NUMBER = re.compile(r"[0-9]+\Z")
_TRAILING_NUMBER = re.compile(r"(.*?)([0-9]{1,18})\Z", re.DOTALL)


def expand(text: str) -> list[str]:
    """The names a hostlist stands for, in order. A name may have several brackets; they multiply.

    Zeros in front of a range's first number set the width: `n[08-10]` is n08, n09, n10.
    """
    names: list[str] = []
    for part in _split(text):
        pieces = re.split(r"\[([^\[\]]*)\]", part)
        if "[" in "".join(pieces[::2]) or "]" in "".join(pieces[::2]):
            raise _refused(text, "brackets do not match; write them as in n[1-4,7]")
        choices = [[piece] if i % 2 == 0 else _numbers(piece, text) for i, piece in enumerate(pieces)]
        if len(names) + prod(map(len, choices)) > MAX_HOSTS:
            raise _refused(text, f"it names more than {MAX_HOSTS} hosts; shorten its ranges")
        names.extend("".join(combination) for combination in product(*choices))
    return names


def compress(names: Iterable[str]) -> str:
    """A short hostlist that expands to exactly these names in this order (sort them first for the shortest one).

    Runs of names that differ in their last number only share a bracket.
    """
    parts: list[str] = []
    prefix: str | None = None
    ranges: list[tuple[str, str]] = []  # first and last number as written

    def close() -> None:
        if prefix is None:
            return
        written = [low if low == high else f"{low}-{high}" for low, high in ranges]
        single = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
        parts.append(prefix + written[0] if single else f"{prefix}[{','.join(written)}]")

    for name in names:
        if not name or re.search(r"[\s,\[\]]", name):
            raise InputError(f"host name {name!r}: it must have no blanks, commas or brackets; rename the host")
        match = _TRAILING_NUMBER.match(name)
        if match is None:
            close()
            parts.append(name)
            prefix, ranges = None, []
        elif match[1] != prefix:
            close()
            prefix, ranges = match[1], [(match[2], match[2])]
        elif match[2] == _number(int(ranges[-1][1]) + 1, ranges[-1][0]):
            ranges[-1] = (ranges[-1][0], match[2])
        else:
            ranges.append((match[2], match[2]))
    close()
    return ",".join(parts)


def _split(text: str) -> list[str]:
    """Parts between commas that are outside brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise _refused(text, "brackets do not match; write them as in n[1-4,7]")
        if letter == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    if depth:
        raise _refused(text, "a bracket is not closed; write them as in n[1-4,7]")
    for part in parts:
        if not part or re.search(r"\s", part):
            raise _refused(text, "a name is empty or has blanks; separate names by single commas")
    return parts


def _numbers(ranges: str, text: str) -> list[str]:
    found: list[str] = []
    for item in ranges.split(","):
        low, dash, high = item.partition("-")
        high = high if dash else low
        for number in (low, high):
            if not _ASCII_NUMBER.match(number) or len(number) > _MAX_DIGITS:
                raise _refused(text, f"{item[:40]!r} is no number or range; write them as in n[1-4,7]")
        first, last = int(low), int(high)
        if last < first or high != _number(last, low):
            raise _refused(text, f"the range {item!r} is reversed or padded unevenly; write it as 08-12")
        if len(found) + last - first >= MAX_HOSTS:
            raise _refused(text, f"it names more than {MAX_HOSTS} hosts; shorten its ranges")
        found.extend(_number(value, low) for value in range(first, last + 1))
    return found


def _number(value: int, like: str) -> str:
    """A number with the width of another one's text."""
    return str(value).zfill(len(like))


def _refused(text: str, why: str) -> InputError:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return InputError(f"hostlist {shown!r}: {why}")
