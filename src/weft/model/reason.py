"""Reason: why something was decided or happened, as a code with its fields; it becomes words where a user reads it.

Codes are open and have a namespace (`slurm.limit`, `mypolicy.too-hot`). A package that has codes of its own says in
words what they mean (`teach`); a code that nobody has taught is shown with its fields. A policy may as well return a
plain string: it is kept as text, and has the code `text`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

TEXT = "text"
Field: TypeAlias = "int | float | str | bool | tuple[str, ...] | Reason"


@dataclass(frozen=True, slots=True)
class Reason:
    """A code and its fields, by name. A field may be a reason: what lies behind this one."""

    code: str
    fields: tuple[tuple[str, Field], ...] = ()

    def __getitem__(self, name: str) -> Any:
        return dict(self.fields)[name]

    def __str__(self) -> str:
        return speak(self)


Why = Reason | str
_BEGIN = '{"code":'
_WORDS: dict[str, str | Callable[[Mapping[str, Any]], str]] = {
    "weft.both": "{first}{between}{second}",
    "weft.gives-way": "gives way to {to}",
    "weft.lease-over": lambda of: f"lease over: gives way to {', '.join(of['to'])}",
    "weft.being-freed": "its GPUs are being freed",
    "weft.no-room": "wants {gpus} GPUs; fewer {there}",
    "weft.dear": "jobs of its user have taken as much from running jobs as one user may for now",
    "weft.memory": "needs {gb:.1f} GB on each GPU, more than a GPU has",
    "weft.gate-over": "no longer shifted",
    "weft.least-loaded": "paths with the fewest {by} on them",
    "weft.less-loaded": "flows move to paths that carry less",
    "weft.no-way": "stays: no way was found to have {limit} rings or fewer across each ToR",
    "weft.lost-server": "server {server} was lost",
    "weft.failed-start": "the start failed (failure_rate)",
}


def because(code: str, **fields: Field) -> Reason:
    """A reason with these fields."""
    return Reason(code, tuple(fields.items()))


def both(first: Why, second: Why, between: str = "; ") -> Why:
    """One after the other; either may say nothing."""
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{between}{second}"
    return because("weft.both", first=first, second=second, between=between)


def code_of(why: Why) -> str:
    """Its code: "" if nothing was said."""
    return why.code if isinstance(why, Reason) else TEXT if why else ""


def written(why: Why) -> str:
    """As journals and ledgers keep it; `read_why` reads it again."""
    if isinstance(why, str):
        return why if not why.startswith(_BEGIN) else written(because(TEXT, text=why))
    return json.dumps(_plain(why), separators=(",", ":"))


def read_why(text: str) -> Why:
    """What `written` wrote."""
    if not text.startswith(_BEGIN):
        return text
    try:
        return _read(json.loads(text))
    except (ValueError, KeyError, TypeError):
        return text


def speak(why: Why) -> str:
    """In words."""
    if isinstance(why, str):
        return why
    fields = {name: speak(value) if isinstance(value, Reason) else value for name, value in why.fields}
    words = _WORDS.get(why.code)
    try:
        if words is not None:
            return words.format(**fields) if isinstance(words, str) else words(fields)
    except (KeyError, ValueError, TypeError, AttributeError):
        pass  # written by another version, which had other fields
    return why.code + "".join(f" {name}={value}" for name, value in fields.items())


def teach(words: Mapping[str, str | Callable[[Mapping[str, Any]], str]]) -> None:
    """What codes mean, each as a format of its fields or a function of them."""
    _WORDS.update(words)


def _plain(why: Reason) -> dict[str, Any]:
    return {"code": why.code} | {k: _plain(v) if isinstance(v, Reason) else v for k, v in why.fields}


def _read(said: dict[str, Any]) -> Why:
    code = said.pop("code")
    if code == TEXT:
        return str(said["text"])
    return Reason(str(code), tuple((name, _field(value)) for name, value in said.items()))


def _field(value: Any) -> Any:
    if isinstance(value, dict):
        return _read(value)
    return tuple(map(str, value)) if isinstance(value, list) else value
