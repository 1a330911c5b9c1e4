"""Changes to a scenario from the command line: `cluster.oversubscription=1,2,4`.

A key is written with its section (`cluster.racks`, `workload.load`), or alone where only one section has it. A value is
written as in the file; a text needs no quotes. A number with a sign or a percent sign changes the scenario's own:
`racks=+1`, `oversubscription=-25%`, `load=110%`. Commas outside brackets and quotes divide values to be tried in turn.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from weft.errors import InputError
from weft.scenario.problems import model_in, near
from weft.scenario.scenario import Scenario

Setting = Mapping[str, Any]  # dotted key: value
_CHANGE = re.compile(r"([+-]?)(\d[\d_]*(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)(%?)", re.IGNORECASE)


@dataclass(frozen=True)
class Change:
    """A number that is said as a change of another: `+1`, `-25%`, or `110%` of it."""

    text: str
    sign: int  # 0: a part of the other number
    amount: float
    percent: bool

    @classmethod
    def of(cls, text: str) -> Change | None:
        """The change that a text says; None if it says a value."""
        found = _CHANGE.fullmatch(text.strip())
        if found is None or not (found[1] or found[3]):
            return None
        return cls(text.strip(), {"+": 1, "-": -1, "": 0}[found[1]], float(found[2].replace("_", "")), bool(found[3]))

    def from_(self, number: float) -> float:
        """The number that it makes of another."""
        by = number * self.amount / 100 if self.percent else self.amount
        return number + self.sign * by if self.sign else by

    def __str__(self) -> str:
        return self.text


def settings(texts: Sequence[str], option: str = "--set") -> list[Setting]:
    """Every combination of the values in texts like `cluster.racks=2,4`; one empty setting if there are none."""
    keys, values = [], []
    for text in texts:
        key, equals, said = text.partition("=")
        if not equals or not said.strip():
            several = ", or KEY=VALUE,VALUE to try several" * (option == "--set")
            raise InputError(f"{option} {text}: write KEY=VALUE{several}")
        keys.append(_full_key(key.strip(), option))
        values.append([_value(part) for part in _divided(said)])
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(f"{option} names {key} twice; give all its values at once: {key}=A,B")
    return [dict(zip(keys, chosen, strict=True)) for chosen in product(*values)]


def changed(scenario: Scenario, setting: Setting, option: str = "--set") -> Scenario:
    """The scenario with other values, checked like a file."""
    if not setting:
        return scenario
    setting = _resolved(scenario, setting, option)
    data = scenario.model_dump(mode="json", exclude_unset=True)
    for key, value in setting.items():
        *above, last = key.split(".")
        table = data
        for name in above:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise InputError(f"{option} {key}: {name} is not a table; see docs/scenario.md")
        table[last] = value
    return scenario.again(data, f"{option} {named(setting)}")


def sweep(scenario: Scenario, texts: Sequence[str] | Mapping[str, Sequence[Any]]) -> list[tuple[Setting, Scenario]]:
    """The scenario at every combination of values."""
    if isinstance(texts, Mapping):
        keys = [_full_key(key, "sweep") for key in texts]
        asked: list[Setting] = [dict(zip(keys, values, strict=True)) for values in product(*texts.values())]
    else:
        asked = settings(texts)
    points = [_resolved(scenario, setting, "--set") for setting in asked]
    return [(point, changed(scenario, point)) for point in points]


def _resolved(scenario: Scenario, setting: Setting, option: str) -> Setting:
    """The setting with a number in place of each change of one."""
    return {k: _changed(scenario, k, v, option) if isinstance(v, Change) else v for k, v in setting.items()}


def _changed(scenario: Scenario, key: str, change: Change, option: str) -> float | int:
    now: Any = scenario
    for name in key.split("."):
        now = now.get(name) if isinstance(now, Mapping) else getattr(now, name, None)
    if isinstance(now, bool) or not isinstance(now, int | float):
        raise InputError(f"{option} {key}={change}: the scenario gives no number that could be changed; write a value")
    new = change.from_(now)
    if isinstance(now, int):
        if change.percent:
            return round(new)
        return int(new) if new == int(new) else new  # half a server is refused with the words for its section
    return new


def named(setting: Setting) -> str:
    """What results call a setting: cluster.racks=4."""
    return " ".join(f"{key}={_written(value)}" for key, value in setting.items())


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _full_key(key: str, option: str) -> str:
    """The key with its section."""
    sections = {name: field for name, field in Scenario.model_fields.items() if name != "compare"}
    if "." in key and key.partition(".")[0] in sections:
        return key
    name = key.rpartition(".")[2]
    having = [section for section, field in sections.items() if name in _keys(field.annotation)]
    if len(having) == 1:
        return f"{having[0]}.{name}"
    if having:
        raise InputError(f"{option} {key}: {' and '.join(having)} both have it; write {having[0]}.{name}")
    known = sorted({k for field in sections.values() for k in _keys(field.annotation)})
    guess = near(name, known)
    hint = f"did you mean {guess}?" if guess else "docs/scenario.md lists them"
    raise InputError(f"{option} {key} is not a known key; {hint}")


def _keys(annotation: Any) -> list[str]:
    model = model_in(annotation)
    return [] if model is None else list(model.model_fields)


def _divided(text: str) -> list[str]:
    """A text split at the commas that are outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _value(text: str) -> Any:
    if change := Change.of(text):
        return change
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
