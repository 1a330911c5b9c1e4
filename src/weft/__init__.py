"""weft: schedules distributed deep-learning jobs on GPU clusters whose network is the bottleneck.

    import weft
    run = weft.simulate("scenario.toml", stack="srsf")
    both = weft.compare("scenario.toml", stacks=["fifo", "srsf"], seeds=5)

Names are looked up on first use, so that importing weft costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any
from warnings import warn

if TYPE_CHECKING:
    from weft.api import Comparison, Sweep, compare, replay, simulate, sweep
    from weft.errors import WeftError
    from weft.results.run import RunResult
    from weft.runs.cross import Cross, cross
    from weft.scenario import Scenario
    from weft.training import progress, resume_step

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "Cross",
    "RunResult",
    "Scenario",
    "Sweep",
    "WeftError",
    "__version__",
    "compare",
    "cross",
    "profile",
    "progress",
    "replay",
    "resume_step",
    "simulate",
    "sweep",
]

_HOME = {
    "Comparison": "weft.api",
    "Cross": "weft.runs.cross",
    "RunResult": "weft.results.run",
    "Scenario": "weft.scenario",
    "WeftError": "weft.errors",
    "compare": "weft.api",
    "sweep": "weft.api",
    "Sweep": "weft.api",
    "cross": "weft.runs.cross",
    "progress": "weft.training",
    "replay": "weft.api",
    "resume_step": "weft.training",
    "simulate": "weft.api",
}


def __getattr__(name: str) -> Any:
    if name == "profile":
        return _profile()
    if name not in _HOME:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


# Where modules of 0.1 are now that guides told people to import. Version 0.3 forgets them.
_MOVED = {
    **{f"weft.{layer}": f"weft.policies.{layer}" for layer in ("order", "place", "planners", "interleave", "pace")},
    "weft.collectives": "weft.network.collectives",
    "weft.physics": "weft.network",
    "weft.model.topologies": "weft.network.topologies",
    "weft.registry": "weft.stacks.registry",
    "weft.executors": "weft.runs.executors",
}


class _Moved(MetaPathFinder):
    """Finds a module under the name that it had in 0.1, and says what it is called now."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of today, for a name of then."""
        if not name.startswith("weft."):
            return None
        old = next((old for old in _MOVED if name == old or name.startswith(f"{old}.")), None)
        if old is None:
            return None
        now = _MOVED[old] + name[len(old) :]
        warn(f"{name} is now {now}; the old name will go with weft 0.3", DeprecationWarning, stacklevel=2)
        return ModuleSpec(name, _Alias(now))


class _Alias(Loader):
    """Loads a module that is known by another name too."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself, not a second one."""
        module = import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has been executed; it keeps its own name."""
        module.__spec__ = self.spec


sys.meta_path.insert(0, _Moved())  # before what would load a module of that file again


def _profile() -> Any:
    """What measures models, from the package weft-live."""
    from importlib.metadata import entry_points

    for point in entry_points(group="weft.functions", name="profile"):
        return point.load()
    raise ImportError("weft.profile comes with the package weft-live; in a checkout of weft: pip install ./live")


def __dir__() -> list[str]:
    return sorted(__all__)
