"""weft: schedules distributed deep-learning jobs on GPU clusters whose network is the bottleneck.

    import weft
    run = weft.simulate("scenario.toml", stack="srsf")
    both = weft.compare("scenario.toml", stacks=["fifo", "srsf"], seeds=5)

Names are looked up on first use, so that importing weft costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.api import Comparison, Sweep, compare, replay, simulate, sweep
    from weft.cross import Cross, cross
    from weft.errors import WeftError
    from weft.results.run import RunResult
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
    "Cross": "weft.cross",
    "RunResult": "weft.results.run",
    "Scenario": "weft.scenario",
    "WeftError": "weft.errors",
    "compare": "weft.api",
    "sweep": "weft.api",
    "Sweep": "weft.api",
    "cross": "weft.cross",
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
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)


def _profile() -> Any:
    """What measures models, from the package weft-live."""
    from importlib.metadata import entry_points

    for point in entry_points(group="weft.functions", name="profile"):
        return point.load()
    raise ImportError("weft.profile comes with the package weft-live; in a checkout of weft: pip install ./live")


def __dir__() -> list[str]:
    return sorted(__all__)
