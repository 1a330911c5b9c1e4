"""The public names, for docs/api.md: what each takes, and what it is."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib import import_module
from types import ModuleType
from typing import Any

import weft

HEAD = """\
# Public names

Generated from the code (`make docs`). What stands here keeps its name and its meaning within a version; everything else
may move. A name that is written `weft.a.b.Name` is imported from `weft.a.b`.
"""
# By the entry point that finds what another package brings.
BASES = {
    "weft.order": "weft.policies.order.base",
    "weft.place": "weft.policies.place.base",
    "weft.planners": "weft.policies.planners.base",
    "weft.interleave": "weft.policies.interleave.base",
    "weft.pace": "weft.policies.pace.base",
    "weft.route": "weft.policies.route.base",
}
OTHERS = """\
Other entry points: `weft.costs`, a `weft.network.cost.CostModel`; `weft.worlds`, a real cluster for `weft serve`
(package weft-live); `weft.papers`, a paper with its claims (package weft-evidence,
[adding-a-paper.md](adding-a-paper.md)); `weft.commands`, a command of `weft`.
"""


def page() -> str:
    """docs/api.md."""
    parts = [HEAD, "## weft\n", *_entries("weft", weft.__all__)]
    parts += ["", "## Bases of policies\n", "What each method must keep to is said where it is defined.", ""]
    parts += _entries("weft.model.policy", ["Policy", "setting"], methods=True)
    for group, name in BASES.items():
        parts += ["", f"### {name}\n", f"Found by the entry point `{group}`.", ""]
        parts += _entries(name, _own_classes(import_module(name)), methods=True)
    parts += ["", OTHERS, "## weft.stacks\n", *_entries("weft.stacks", import_module("weft.stacks").__all__)]
    parts += _entries("weft.stacks.registry", ["register"])
    parts += ["", "## weft.testing\n", *_entries("weft.testing", import_module("weft.testing").__all__)]
    parts += ["", "## weft.learning\n", *_entries("weft.learning", ["Chooser", "Seen"])]
    parts += ["", "## weft.model\n", *_entries("weft.model", import_module("weft.model").__all__)]
    return "\n".join(parts).rstrip() + "\n"


def _own_classes(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]


def _entries(module: str, names: Iterable[str], methods: bool = False) -> list[str]:
    """A line for each name; below a class, if asked for, its own methods."""
    lines = []
    for name in names:
        value = _value(module, name)
        lines.append(f"- `{module}.{name}{_parameters(value)}`{_says(value)}")
        if methods:
            for method, function in vars(value).items():
                if inspect.isfunction(function) and not method.startswith("_"):
                    lines.append(f"  - `{method}{_parameters(function)}`{_says(function)}")
    return lines


def _value(module: str, name: str) -> Any:
    if (module, name) == ("weft", "profile"):
        return _supplied_by_live
    return getattr(import_module(module), name)


def _supplied_by_live() -> None:
    """Measures a PyTorch model, where the package weft-live is installed."""


def _parameters(value: Any) -> str:
    """The names of what a function takes; of a class or a value nothing."""
    if value is _supplied_by_live or not inspect.isfunction(value):
        return ""
    found = inspect.signature(value).parameters.values()
    words = [f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name for p in found if p.name != "self"]
    return f"({', '.join(words)})"


def _says(value: Any) -> str:
    """The first sentence or line of its docstring."""
    text = value.__doc__ if inspect.isclass(value) or inspect.isfunction(value) else None
    paragraph = " ".join((text or "").strip().partition("\n\n")[0].split())
    return f": {paragraph}" if paragraph else ""
