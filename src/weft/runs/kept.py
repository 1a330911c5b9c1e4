"""Runs that are kept: an interrupted `weft compare` or `weft reproduce` goes on from the runs that it had finished.

    with kept(fresh=False, say=print):
        weft.compare("scenario.toml", ["fifo", "srsf"])

A run is identified by its scenario (with the content of every file that the scenario names), its stack, its seed and
the sources of weft and of what it computes with. A policy or cost model that another distribution installs (by an entry
point) adds that distribution's version and sources. A run with any other is not kept, since its sources are not known.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.stack import Stack
from weft.model.policy import Policy
from weft.network.cost import CostModel
from weft.scenario import Scenario
from weft.scenario.costs import cost_class
from weft.workload import zoo

if TYPE_CHECKING:
    from weft.results.store import Store

_FORMAT = 1  # version of the files; those of another one are not found
_PACKAGES = ("numpy", "numba", "llvmlite", "scipy", "polars")


@dataclass(frozen=True)
class Keeping:
    """Where runs are kept, whether those of earlier commands count, and who is told about them."""

    store: Store
    fresh: bool
    say: Callable[[str], None] | None

    def load(self, key: str | None) -> Any:
        """The outcome of an earlier run, or None."""
        return None if self.fresh or key is None else self.store.load(key)


_known_scenarios: dict[int, tuple[Scenario, str]] = {}  # the last one: thousands of runs may share it
_current: ContextVar[Keeping | None] = ContextVar("keeping", default=None)


def current() -> Keeping | None:
    """How runs are kept here; None if they are not."""
    return _current.get()


@contextmanager
def kept(fresh: bool = False, say: Callable[[str], None] | None = None) -> Iterator[None]:
    """Inside, finished runs are kept, and runs that were kept are not done again (unless `fresh`)."""
    from weft.results.store import Store, results_folder, results_limit

    limit = results_limit()
    token = _current.set(Keeping(Store(results_folder(), limit), fresh, say) if limit > 0 else None)
    try:
        yield
    finally:
        _current.reset(token)


def identity(scenario: Scenario, layers: Any, stack: Stack, seed: int, record: bool) -> str | None:
    """The key of a run: the same for runs that must have the same result; None if that is not known.

    `layers` is the dataclass of texts that the stack was made from.
    """
    others = _packages(stack) | {_package(_cost_of(scenario))}
    others -= {"weft"}
    if others and not others <= _suppliers().keys():
        return None
    if id(scenario) not in _known_scenarios:
        _known_scenarios.clear()
        _known_scenarios[id(scenario)] = (scenario, _content(scenario))
    sources = [_sources("weft", ""), *(_sources(name, _suppliers()[name]) for name in sorted(others))]
    parts = {
        "format": _FORMAT, "sources": sources, "scenario": _known_scenarios[id(scenario)][1],
        "layers": asdict(layers), "stack": stack.name, "seed": seed, "record": record,
    }  # fmt: skip
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _content(scenario: Scenario) -> str:
    """A digest of all that a scenario says about a run, except the seed, and of the files that are read for it."""
    said = scenario.model_dump(mode="json", exclude={"compare": True, "run": {"seed"}})
    read = set(_files_named(said, scenario))
    if (cost := _cost_of(scenario)) is not None:
        read |= {str(path.resolve()) for path in cost.files()}
    files = {path: _digest_of(Path(path)) for path in sorted(read)}
    return hashlib.sha256(json.dumps([said, files], sort_keys=True).encode()).hexdigest()


def _cost_of(scenario: Scenario) -> type[CostModel] | None:
    return cost_class(scenario.network.cost, scenario.network.table)


def _package(made: type | None) -> str:
    return "weft" if made is None else made.__module__.partition(".")[0]


def _packages(stack: Stack) -> set[str]:
    """The packages that the policies of a stack come from."""
    found: set[str] = set()
    policies: list[Policy] = [stack.planner, stack.interleave, stack.pace, stack.route]
    while policies:
        policy = policies.pop()
        found.add(_package(type(policy)))
        policies += [part for part in vars(policy).values() if isinstance(part, Policy)]
    return found


@cache
def _suppliers() -> dict[str, str]:
    """Packages that installed distributions supply to weft by entry points, with their versions."""
    return {
        point.module.partition(".")[0]: dist.version
        for dist in distributions()
        for point in dist.entry_points
        if point.group.startswith("weft.")
    }


def _files_named(said: Any, scenario: Scenario, key: str = "") -> Iterator[str]:
    """Every file that a string of the scenario may name, wherever files are looked for. A folder (a trace) stands for
    all of its files."""
    if isinstance(said, dict):
        for name, value in said.items():
            yield from _files_named(name, scenario)
            yield from _files_named(value, scenario, name)
    elif isinstance(said, list):
        for value in said:
            yield from _files_named(value, scenario, key)
    elif isinstance(said, str) and said:
        for folder in {"", str(scenario.folder), os.environ.get("WEFT_TRACES", "")}:
            for name in {said, zoo.without(said)}:
                yield from (str(file.resolve()) for file in _files_at(Path(folder) / name, key == "trace"))


def _files_at(path: Path, or_folder: bool) -> list[Path]:
    try:
        if path.is_file():
            return [path]
        return [file for file in path.rglob("*") if file.is_file()] if or_folder and path.is_dir() else []
    except (OSError, ValueError):  # no name of a file
        return []


def _digest_of(path: Path) -> str:
    status = path.stat()
    return _digest(path, status.st_mtime_ns, status.st_size)


@cache
def _digest(path: Path, _mtime_ns: int, _size: int) -> str:
    """The digest of a file's content, computed again only when the file has been written."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _sources(package: str, release: str) -> str:
    """What computes a result: a package's own files, its version, and the versions of what it is built on."""
    root = Path(import_module(package).__path__[0]).resolve()
    digest = hashlib.sha256(f"{sys.version} {platform.machine()} {release}".encode())
    for other in _PACKAGES:
        digest.update(f"{other} {version(other)}".encode())
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(root)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
