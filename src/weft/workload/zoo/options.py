"""Options of a model, written behind its name: `vgg16[batch=64]`, `gpt3[parallel=hybrid:2x2x2,micro_batches=8]`.

So a scenario, a listed job or a command can say how each model is trained wherever it names one, and jobs of one
model that are trained in two ways have two names. The same notation replaces the layers of a stack.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from weft.errors import InputError

__all__ = ["OPTIONS", "split", "without"]

_COUNTS = ("batch", "micro_batches", "servers")
_WORDS = ("parallel", "dtype", "schedule")
OPTIONS = (*_COUNTS, *_WORDS, "overlap")


def without(name: str) -> str:
    """A model's name without its options."""
    base, bracket, rest = name.rpartition("[")
    return base.rstrip() if bracket and rest.rstrip().endswith("]") else name


def split(name: str) -> tuple[str, dict[str, Any]]:
    """A model's name without its options, and the options as `zoo.profile` takes them."""
    base = without(name)
    if base == name:
        if "[" in name and not _is_file(name):
            raise InputError(f"model {name!r}: a bracket is open; write options as {name.partition('[')[0]}[batch=64]")
        return name, {}
    text = name.rstrip()[:-1].rpartition("[")[2]
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key in found:
            raise InputError(f"model {name!r}: {key} is there twice; remove one")
        found[key] = _value(name, key, value)
    return base, found


def _is_file(name: str) -> bool:
    """Whether a bracket can be part of a file's name: the path does not end with options."""
    return "/" in name or "\\" in name or "." in name


def _value(name: str, key: str, value: str) -> Any:
    if key not in OPTIONS:
        near = difflib.get_close_matches(key, OPTIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"use {', '.join(OPTIONS)}"
        raise InputError(f"model {name!r}: {key!r} is no option of a model; {hint}")
    if key in _COUNTS:
        if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) < 1:
            raise InputError(f"model {name!r}: {key} is {value!r}; it must be a whole number of at least 1")
        return int(value)
    if key == "overlap":
        if value not in ("true", "false"):
            raise InputError(f"model {name!r}: overlap is {value!r}; it must be true or false")
        return value == "true"
    if not value:
        raise InputError(f"model {name!r}: {key} has no value; write {key}=... or leave it out")
    return value
