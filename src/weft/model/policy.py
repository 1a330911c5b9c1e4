"""Policy: what all layers have in common: a name, what they must know about jobs, and how settings are written.

What may be set is declared as fields (`setting`), in a dataclass or in one that it holds. Text is read into them and
the name is written from them: after a colon, what differs from the default, divided by commas. A setting is a word
(`plus`), a number (`0.1`), several numbers (`20/40`), or has a key (`slot=30ms`). Where 0.1 divided settings by `/` or
`@`, names still do (`divider`), because results are found by them; commas are read as well.
"""

from __future__ import annotations

import math
import re
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from inspect import Parameter, signature
from typing import Any, ClassVar, Self
from warnings import warn

from weft.errors import StackError
from weft.model.plan import State
from weft.model.view import Fact

UNITS = {"": 1.0, "ms": 1e3, "%": 100.0, "kB": 1e-3}  # how many of them are one of our own
_NONE: Any = object()  # the text means something else


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How a field is written.

    `words` stand for values; with a key, and if no numbers are taken, they are written behind it. `within` is the
    interval of the numbers that are taken, as they are written: `[0, 100)`. A number without a unit may be written as
    percent. `shown`: the name says it even at its default. `usual` is what the key alone means. `mark` stands between a
    key and its value.
    """

    default: Any
    key: str = ""
    words: Mapping[str, Any]
    within: str = ""
    unit: str = ""
    whole: bool = False
    several: bool = False
    shown: bool = False
    usual: Any = None
    mark: str = "="

    @property
    def alone(self) -> bool:
        """Whether it is a number that only its place tells from others."""
        return bool(self.within) and not self.key

    def read(self, part: str) -> Any:
        """The value that is meant, or _NONE; StackError if it is meant and takes no such value."""
        key, mark, text = part.partition(self.mark) if self.key else ("", "", part)
        if part in self.words and (self.within or not self.key):
            return self.words[part]
        if key != self.key or not (self.within or self.key):
            return _NONE
        if self.key and not mark:
            return _NONE if self.usual is None else self.usual
        pieces = text.split("/") if self.several else [text]
        if not self.key and math.isnan(number(pieces[0].removesuffix("%"))):
            return _NONE
        values = [self._number(piece) if self.within else self.words.get(piece) for piece in pieces]
        if None in values:
            raise StackError(f"{self.key or 'it'} takes {self._takes()}")
        return tuple(values) if self.several else values[0]

    def _number(self, text: str) -> float | int | None:
        if self.unit and not text.endswith(self.unit):
            return None
        share = not self.unit and text.endswith("%")
        digits = text.removesuffix(self.unit or "%")
        value, (least, most) = number(digits) / (100.0 if share else 1.0), map(float, self.within[1:-1].split(","))
        over = least < value or (value == least and self.within[0] == "[")
        if not (over and (value < most or (value == most and self.within[-1] == "]"))):
            return None
        if self.whole and (share or not (digits.isascii() and digits.isdecimal())):
            return None
        return int(value) if self.whole and not self.unit else value / UNITS[self.unit]

    def write(self, value: Any) -> str:
        """As it is read."""
        word = next((word for word, meant in self.words.items() if meant == value), None)
        if word is not None and (self.within or not self.key):
            return word
        if self.usual is not None and value == self.usual:
            return self.key
        text = word or "/".join(self._digits(each) for each in (value if self.several else (value,)))
        return f"{self.key}{self.mark}{text}" if self.key else text

    def _digits(self, value: float) -> str:
        return str(value) if self.whole and not self.unit else f"{UNITS[self.unit] * value:g}{self.unit}"

    def _takes(self) -> str:
        if not self.within:
            return "one of " + ", ".join(self.words)
        least, most = (f"{end.strip()}{self.unit}" for end in self.within[1:-1].split(","))
        low = f"a {'whole ' * self.whole}number {'more than' if self.within[0] == '(' else 'from'} {least}"
        high = "" if most.startswith("inf") else f" {'to' if self.within[-1] == ']' else 'and less than'} {most}"
        return low + high + (f", written in {self.unit}" if self.unit else "")

    def __str__(self) -> str:
        """What may be written, in a message."""
        key = f"{self.key}{self.mark}" if self.key else ""
        found = [word if self.within else f"{key}{word}" for word in self.words] + [self.key] * (self.usual is not None)
        number = f"{'N' if self.whole else 'X'}{self.unit}"
        return "|".join(found + [key + number + f"/{number}" * self.several] * bool(self.within))


def setting(default: Any, key: str = "", *, words: Sequence[str] | Mapping[str, Any] = (), **how: Any) -> Any:
    """A field that text may set, as `Setting` says; words without a value stand for themselves."""
    meant = words if isinstance(words, Mapping) else {word: word for word in words}
    return field(default=default, metadata={"setting": Setting(default=default, key=key, words=meant, **how)})


def _settings(of: Any) -> dict[str, Setting]:
    """Those that are declared in a dataclass, by field."""
    there = fields(of) if is_dataclass(of) else ()
    return {each.name: each.metadata["setting"] for each in there if "setting" in each.metadata}


def _held(of: Any) -> dict[str, Any]:
    """Fields that hold settings of their own, as they are by default."""
    return {each.name: each.default for each in (fields(of) if is_dataclass(of) else ()) if _settings(each.default)}


def written(of: Any) -> list[str]:
    """What of some settings is not at its default. Numbers that only their place tells apart are written together."""
    known = [(how, getattr(of, name)) for name, how in _settings(of).items()]
    alone = any(how.alone and value != how.default for how, value in known)
    parts = [how.write(value) for how, value in known if value != how.default or how.shown or (how.alone and alone)]
    return parts + [part for name in _held(of) for part in written(getattr(of, name))]


class Policy(ABC):  # noqa: B024 - each layer has its own question
    """One answer to one layer's question. Stateless itself: its memory is the `state` it is given and returns."""

    name: str = ""  # of the class: without its settings; of an object: with them
    needs: frozenset[Fact] = frozenset()
    divider: ClassVar[str] = ","  # of settings in its name
    hint: ClassVar[str] = ""  # where else settings are that it does not know

    def __post_init__(self) -> None:
        """Name a policy that is a dataclass by its settings."""
        self.name = ":".join(filter(None, (type(self).name, self.divider.join(written(self)))))

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """The policy from what follows the colon of its name (`lwf:1`)."""
        known, held = _settings(cls), _held(cls)
        for inner in held.values():
            known |= _settings(inner)
        if arg is not None and not known:
            raise StackError(f"{cls.name}:{arg}: {cls.name} takes no parameter; write {cls.name}")
        found: dict[str, Any] = {}
        for part in re.split(f"[,{cls.divider}]", arg) if arg is not None else ():
            try:
                name, value = _read(part.strip(), known, found)
            except StackError as error:
                raise StackError(f"{cls.name}:{arg}: {error}{cls.hint}") from None
            found[name] = value
        for at, inner in held.items():
            found[at] = replace(inner, **{name: found.pop(name) for name in _settings(inner) if name in found})
        return cls(**found)

    def initial_state(self) -> State:
        """Memory before the first cycle."""
        return {}


def _read(part: str, known: Mapping[str, Setting], found: Mapping[str, Any]) -> tuple[str, Any]:
    """Which setting a part of a text is, and its value."""
    for name, how in known.items():
        if how.alone and name in found:
            continue
        try:
            value = how.read(part)
        except StackError as error:
            raise StackError(f"{part}: {error}") from None
        if value is not _NONE:
            if name in found:
                raise StackError(f"{how.key or part} is there twice; leave one out")
            return name, value
    raise StackError(
        f"{part or 'an empty setting'!r} is not known; behind the colon write {', '.join(map(str, known.values()))}"
    )


def number(text: str) -> float:
    """A parameter as a number, or NaN if it is none: no bound lets NaN through."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def turn_of_0_1(cls: type) -> None:
    """Let a class whose `turn` knows the job alone be asked with the view as well. Version 0.3 forgets it."""
    own: Any = vars(cls).get("turn")
    asked = list(signature(own).parameters.values()) if callable(own) else []
    if [each.kind for each in asked] != [Parameter.POSITIONAL_OR_KEYWORD] * 2:
        return
    now = f"{cls.__name__}.turn(self, job) is now turn(self, view, job)"
    warn(f"{now}; the old name will go with weft 0.3", DeprecationWarning, stacklevel=3)
    cls.turn = lambda self, view, job: own(self, job)  # type: ignore[attr-defined]
