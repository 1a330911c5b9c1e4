"""Where policies are found by name: built in, registered by hand, or installed by another package.

A policy is written `name` or `name:parameter`; its class turns the parameter into an object (`from_text`). Another
package adds one by an entry point in the group of its layer:

    [project.entry-points."weft.place"]
    mine = "my_package.my_place:MyPlace"
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from weft.errors import StackError

__all__ = ["LAYERS", "make", "names", "register"]

LAYERS = ("order", "place", "planners", "interleave", "pace")  # each is a folder, and "weft.<layer>" its entry points

# The policies that come with weft: one line each, imported when asked for.
BUILT_IN: dict[str, dict[str, str]] = {
    "order": {
        "defrag": "weft.order.defrag:Defragment",
        "fifo": "weft.order.fifo:Fifo",
        "gittins": "weft.order.gittins:Gittins",
        "las": "weft.order.las:LeastAttainedService",
        "las-queues": "weft.order.las:QueuedLeastAttainedService",
        "nw-sens": "weft.order.nw_sens:NetworkSensitive",
        "sjf": "weft.order.sjf:ShortestJobFirst",
        "srsf": "weft.order.srsf:ShortestRemainingServiceFirst",
        "time-slice": "weft.order.time_slice:TimeSlice",
    },
    "place": {
        "affinity": "weft.place.affinity:Affinity",
        "best-fit": "weft.place.best_fit:BestFit",
        "delay": "weft.place.delay:DelayScheduling",
        "elasticflow": "weft.place.elasticflow:ElasticFlow",
        "ff": "weft.place.first_fit:FF",
        "first-fit": "weft.place.first_fit:FirstFit",
        "hived": "weft.place.hived:HiveD",
        "ls": "weft.place.list_scheduling:ListScheduling",
        "lwf": "weft.place.lwf:LeastWorkloadFirst",
        "packing": "weft.place.packing:Packing",
        "rand": "weft.place.random:Rand",
        "random": "weft.place.random:RandomPlace",
        "skew": "weft.place.skew:Skew",
        "tight": "weft.place.tight:Tight",
        "titan": "weft.place.titan:Titan",
    },
    "planners": {
        "ideal": "weft.planners.baselines:Ideal",
        "pollux": "weft.planners.pollux:Pollux",
        "random": "weft.planners.baselines:RandomPlanner",
        "themis": "weft.planners.themis:Themis",
    },
    "interleave": {
        "cassini": "weft.interleave.cassini:Cassini",
        "none": "weft.interleave.base:NoInterleave",
    },
    "pace": {
        "adadual": "weft.pace.admission:AdaDual",
        "at-most": "weft.pace.admission:AtMost",
        "ccml": "weft.pace.senders:Ccml",
        "equal": "weft.pace.senders:Equal",
        "fair": "weft.pace.admission:Fair",
        "flow": "weft.pace.flow:Flow",
        "mcs": "weft.pace.mcs:Mcs",
        "pcc": "weft.pace.senders:Pcc",
        "tcp": "weft.pace.senders:Tcp",
    },
}

_BY_HAND: dict[str, dict[str, type]] = {layer: {} for layer in LAYERS}


def register(layer: str, name: str, policy: type) -> None:
    """Make a policy class known under a name for the rest of this process; an earlier one of that name is replaced."""
    if layer not in LAYERS:
        raise StackError(f"there is no layer {layer}; layers are {', '.join(LAYERS)}")
    if ":" in name or "+" in name or not name:
        raise StackError(f"{name!r} cannot name a policy; ':' and '+' have a meaning in stack names")
    if not callable(getattr(policy, "from_text", None)):
        raise StackError(f"{name}: {policy!r} is no policy class; derive it from the base class in weft.{layer}.base")
    _BY_HAND[layer][name] = policy


def names(layer: str) -> list[str]:
    """Every name known in a layer."""
    return sorted({*BUILT_IN[layer], *_BY_HAND[layer], *_installed(layer)})


def make(layer: str, text: str) -> Any:
    """The policy that `name` or `name:parameter` means in a layer."""
    name, colon, arg = text.partition(":")
    policy = _find(layer, name)
    return policy.from_text(arg if colon else None)


def _find(layer: str, name: str) -> Any:
    if name in _BY_HAND[layer]:
        return _BY_HAND[layer][name]
    if name in BUILT_IN[layer]:
        module, _, attribute = BUILT_IN[layer][name].partition(":")
        return getattr(import_module(module), attribute)
    if name in _installed(layer):
        return _load(layer, _installed(layer)[name])
    raise StackError(f"there is no {layer.removesuffix('s')} {name}{near(name, names(layer))}")


def near(name: str, known: list[str]) -> str:
    """The end of an error message: names much like this one, or all there are."""
    matches = get_close_matches(name, known, n=3)
    if matches:
        return f"; did you mean {' or '.join(matches)}?"
    return f"; known are {', '.join(known)}" if known else ""


def _load(layer: str, point: EntryPoint) -> Any:
    """The class that another package installed; where it cannot be loaded, the message names that package."""
    where = f"{layer.removesuffix('s')} {point.name}: its package names {point.value}, which"
    try:
        policy = point.load()
    except Exception as error:  # importing somebody else's module may fail in any way
        raise StackError(f"{where} cannot be loaded ({type(error).__name__}: {error}); mend or remove it") from error
    if not callable(getattr(policy, "from_text", None)):
        raise StackError(f"{where} is no policy class; derive it from the base class in weft.{layer}.base")
    return policy


@cache
def _installed(layer: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"weft.{layer}")}
