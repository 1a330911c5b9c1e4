"""Benchmarks that anyone can run with `python -m benchmarks`: each module here is one.

A benchmark module has a docstring whose first line says what it measures, and a function
`run(quick: bool, say: Callable[[str], None]) -> dict[str, float | None]`: figures by name, undefined ones None. It may
have a function `large` of the same kind, for a size that takes a quarter of an hour.
"""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from weft.errors import InputError

Benchmark = Callable[[bool, Callable[[str], None]], dict[str, Any]]


def available() -> dict[str, str]:
    """Benchmarks by name, with what they measure; nothing is imported for it."""
    found = {}
    for folder in __path__:
        for module in pkgutil.iter_modules([folder]):
            if not module.name.startswith("_"):
                text = ast.get_docstring(ast.parse((Path(folder) / f"{module.name}.py").read_text(encoding="utf-8")))
                found[module.name.replace("_", "-")] = (text or "").split("\n", 1)[0]
    return found


def load(name: str, large: bool = False) -> Benchmark:
    """The function that runs a benchmark, or its large size."""
    if name not in available():
        raise InputError(f"bench: there is no benchmark {name}; choose one of {', '.join(available()) or '(none)'}")
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    run: Benchmark | None = getattr(module, "large" if large else "run", None)
    if run is None:
        raise InputError(f"bench: {name} has no large size; leave --large out")
    return run
