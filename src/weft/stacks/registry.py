"""Where policies are found by name: built in, registered by hand, installed by another package, or in a file.

A policy is written `name` or `name:parameter`; its class turns the parameter into an object (`from_text`). A class in a
Python file is written `my_policy.py:MyPlace` or `my_policy.py:MyPlace:parameter`. Another package adds a policy by an
entry point in the group of its layer:

    [project.entry-points."weft.place"]
    mine = "my_package.my_place:MyPlace"

Cost models, which stand in for links, are found in the same way (`weft.costs`).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from warnings import warn

from weft.errors import StackError, WeftError, near, quoted

WRAPS = ("dealt", "even")  # what stands before the name of a place and changes its answers: stacks.py makes these
LAYERS = (
    "order",
    "place",
    "planners",
    "interleave",
    "pace",
    "route",
)  # each is a folder, and "weft.<layer>" its entry points
GROUPS = (*LAYERS, "costs")

# The policies that come with weft: one line each, imported when asked for.
BUILT_IN: dict[str, dict[str, str]] = {
    "order": {
        "defrag": "weft.policies.order.defrag:Defragment",
        "fifo": "weft.policies.order.fifo:Fifo",
        "gittins": "weft.policies.order.gittins:Gittins",
        "las": "weft.policies.order.las:LeastAttainedService",
        "las-queues": "weft.policies.order.las:QueuedLeastAttainedService",
        "nw-sens": "weft.policies.order.nw_sens:NetworkSensitive",
        "sjf": "weft.policies.order.sjf:ShortestJobFirst",
        "srsf": "weft.policies.order.srsf:ShortestRemainingServiceFirst",
        "time-slice": "weft.policies.order.time_slice:TimeSlice",
        "weft": "weft.policies.order.weft:Weft",
    },
    "place": {
        "affinity": "weft.policies.place.affinity:Affinity",
        "arnold": "weft.policies.place.arnold:Arnold",
        "best-fit": "weft.policies.place.best_fit:BestFit",
        "delay": "weft.policies.place.delay:DelayScheduling",
        "elasticflow": "weft.policies.place.elasticflow:ElasticFlow",
        "first-fit": "weft.policies.place.fitting:FirstFit",
        "hived": "weft.policies.place.hived:HiveD",
        "ls": "weft.policies.place.lwf:ListScheduling",
        "lwf": "weft.policies.place.lwf:LeastWorkloadFirst",
        "packing": "weft.policies.place.packing:Packing",
        "random": "weft.policies.place.fitting:RandomPlace",
        "skew": "weft.policies.place.skew:Skew",
        "tight": "weft.policies.place.tight:Tight",
        "titan": "weft.policies.place.titan:Titan",
    },
    "planners": {
        "ideal": "weft.policies.planners.baselines:Ideal",
        "monkeytree": "weft.policies.planners.monkeytree:MonkeyTree",
        "pollux": "weft.policies.planners.pollux:Pollux",
        "random": "weft.policies.planners.baselines:RandomPlanner",
        "themis": "weft.policies.planners.themis:Themis",
    },
    "interleave": {
        "cassini": "weft.policies.interleave.cassini:Cassini",
        "foresight": "weft.policies.interleave.foresight:Foresight",
        "none": "weft.policies.interleave.base:NoInterleave",
    },
    "pace": {
        "adadual": "weft.policies.pace.admission:AdaDual",
        "at-most": "weft.policies.pace.admission:AtMost",
        "ccml": "weft.policies.pace.ccml:Ccml",
        "crux": "weft.policies.pace.crux:Crux",
        "fair": "weft.policies.pace.admission:Fair",
        "fair-flows": "weft.policies.pace.tcp:Equal",
        "flow": "weft.policies.pace.flow:Flow",
        "mcs": "weft.policies.pace.mcs:Mcs",
        "pcc": "weft.policies.pace.pcc:Pcc",
        "mltcp": "weft.policies.pace.mltcp:Mltcp",
        "priority": "weft.policies.pace.priority:Priority",
        "shortest": "weft.policies.pace.shortest:Shortest",
        "tcp": "weft.policies.pace.tcp:Tcp",
        "weft": "weft.policies.pace.weft:Weft",
    },
    "route": {
        "adaptive": "weft.policies.route.adaptive:Adaptive",
        "crux": "weft.policies.route.crux:Crux",
        "ecmp": "weft.policies.route.base:Ecmp",
        "edge-colouring": "weft.policies.route.edge_colouring:EdgeColouring",
        "least-loaded": "weft.policies.route.least_loaded:LeastLoaded",
        "sglb": "weft.policies.route.sglb:Sglb",
        "spray": "weft.policies.route.spray:Spray",
    },
    "costs": {
        "analytical": "weft.network.analytical:Analytical",
        "astra-sim": "weft.network.astra:AstraSim",
        "tiers": "weft.network.cost:TierTable",
    },
}

# What policies were called in 0.1, and what they are called now. Version 0.3 forgets them.
RENAMED = {("place", "ff"): "first-fit:shared", ("place", "rand"): "random:shared", ("pace", "equal"): "fair-flows"}

# Names that another package of this repository adds for its own use.
ELSEWHERE = dict.fromkeys(("dally-astra-sim", "dally-by-shape", "flow-prototype"), "weft-evidence")

_BASES = {
    "order": "weft.policies.order.base:Order", "place": "weft.policies.place.base:Place",
    "planners": "weft.policies.planners.base:Planner", "interleave": "weft.policies.interleave.base:Interleave",
    "pace": "weft.policies.pace.base:Pace", "route": "weft.policies.route.base:Route",
    "costs": "weft.network.cost:CostModel",
}  # fmt: skip

_BY_HAND: dict[str, dict[str, Any]] = {layer: {} for layer in GROUPS}
_folders: ContextVar[tuple[Path, ...]] = ContextVar("folders", default=())  # where policy files are looked for


def register(layer: str, name: str, policy: Any) -> None:
    """Make a policy class known under a name for the rest of this process; an earlier one of that name is replaced."""
    if layer not in GROUPS:
        raise StackError(f"there is no layer {layer}; layers are {', '.join(GROUPS)}")
    if not name or any(mark in name for mark in ":+/[]"):
        raise StackError(f"{name!r} cannot name a policy; ':', '+', '/' and brackets have a meaning in stack names")
    if not _fits(layer, policy):
        raise StackError(f"{name}: {policy!r} is no policy class; derive it from {_BASES[layer]}")
    _BY_HAND[layer][name] = policy


def names(layer: str) -> list[str]:
    """Every name known in a layer."""
    return sorted({*BUILT_IN[layer], *_BY_HAND[layer], *_installed(layer)})


def readable(layer: str) -> set[str]:
    """Every name that is read in a layer: those that are known, and old ones."""
    return {*names(layer), *(old for where, old in RENAMED if where == layer)}


def by_hand() -> list[tuple[str, str, Any]]:
    """What `register` was told: layer, name and class of each; worker processes are told the same."""
    return [(layer, name, policy) for layer, known in _BY_HAND.items() for name, policy in known.items()]


def base_of(layer: str) -> type:
    """The class that policies of a layer are derived from."""
    base: type = _imported(_BASES[layer])
    return base


@contextmanager
def files_from(*folders: Path) -> Iterator[None]:
    """Inside, a policy file that is not in the working folder is looked for in these folders."""
    token = _folders.set((*folders, *_folders.get()))
    try:
        yield
    finally:
        _folders.reset(token)


def is_file(text: str) -> bool:
    """Whether a policy is written as a class in a file: `my_policy.py:MyPlace`."""
    return text.partition(":")[0].endswith(".py")


def is_planner(text: str) -> bool:
    """Whether a class in a file answers order and place at once."""
    if not is_file(text):
        return False
    try:
        find("planners", text)
    except StackError:
        return False
    return True


def apart(text: str, begins: Callable[[str, str], bool]) -> list[str]:
    """Split a text at its commas. A piece that begins nothing new holds settings of the piece before it:
    `pace=flow:slot=30ms,delay=6ms`."""
    found: list[str] = []
    for piece in text.split(","):
        if found and not begins(piece, found[-1]):
            found[-1] += f",{piece}"
        else:
            found.append(piece)
    return found


def make(layer: str, text: str) -> Any:
    """The policy that `name`, `name:parameter` or `file.py:Class` means in a layer."""
    policy, arg = find(layer, text)
    try:
        return policy.from_text(arg)
    except WeftError:
        raise
    except Exception as error:  # somebody else's class may lack a method, or fail in any way
        if policy.__module__.startswith("weft."):
            raise
        raise StackError(
            f"{layer.removesuffix('s')} {text}: {type(error).__name__}: {error}; mend the class"
        ) from error


def find(layer: str, text: str) -> tuple[Any, str | None]:
    """The class that such a text means, and the parameter."""
    name, colon, arg = text.partition(":")
    if (layer, name) in RENAMED and name not in names(layer):
        now = RENAMED[layer, name]
        if colon:
            raise StackError(f"{text}: {name} takes no parameter; it is now called {now}")
        warn(f"{layer} {name} is now {now}; the old name will go with weft 0.3", DeprecationWarning, stacklevel=2)
        name, colon, arg = now.partition(":")
    if is_file(text):
        attribute, colon, arg = arg.partition(":")
        policy = _from_file(layer, name, attribute)
    else:
        policy = _find(layer, name)
    if colon and not arg:
        raise StackError(f"nothing follows the colon of {text}; write {text[:-1]}, or a parameter after the colon")
    return policy, arg if colon else None


def _from_file(layer: str, file: str, attribute: str) -> Any:
    """A policy class in a Python file, which is run once in each process."""
    kind = layer.removesuffix("s")
    if not attribute:
        raise StackError(f"{kind} {file} names no class; write {file}:CLASS")
    path = next((p for p in (Path(file), *(folder / file for folder in _folders.get())) if p.is_file()), None)
    if path is None:
        raise StackError(f"{kind} {file}:{attribute}: there is no file {file}; give the path of a Python file")
    try:
        module = _module(path.resolve())
    except Exception as error:  # somebody else's code may fail in any way
        raise StackError(f"{path} cannot be run ({type(error).__name__}: {error}); mend it") from error
    policy = getattr(module, attribute, None)
    base = _imported(_BASES[layer])
    if policy is None:
        own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
        known = [value.__name__ for value in own if isinstance(value, type)]
        raise StackError(f"{path} has no class {attribute}{near(attribute, known) or '; it defines none'}")
    if not (isinstance(policy, type) and issubclass(policy, base)):
        raise StackError(f"{path}: {attribute} is no {kind}; derive it from {_BASES[layer]}")
    return called(policy, attribute)


def called(policy: Any, name: str) -> Any:
    """The class, under this name in messages if it has none of its own."""
    policy.name = policy.name or name
    return policy


@cache
def _module(path: Path) -> Any:
    """A Python file as a module. Its name is made from its path, so that files of one name do not replace each other,
    and a class in it can be pickled where the same file was loaded."""
    name = f"weft_policy_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("it is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _find(layer: str, name: str) -> Any:
    if name in _BY_HAND[layer]:
        return _BY_HAND[layer][name]
    if name in BUILT_IN[layer]:
        return _imported(BUILT_IN[layer][name])
    if name in _installed(layer):
        return _load(layer, _installed(layer)[name])
    known = names(layer)
    if name in ELSEWHERE:
        raise StackError(f"{layer.removesuffix('s')} {name} comes with {ELSEWHERE[name]}, which is not installed here")
    if layer == "costs":
        known = sorted([*known, "links"])
    if layer == "place":
        if name in WRAPS or name.startswith("dealt/"):
            raise StackError(f"{name} stands before a place; write {name}:PLACE, as in {name}:best-fit")
        known = sorted([*known, *WRAPS])
    raise StackError(f"there is no {layer.removesuffix('s')} {quoted(name)}{near(name, known)}")


def _load(layer: str, point: EntryPoint) -> Any:
    """The class that another package installed; where it cannot be loaded, the message names that package."""
    where = f"{layer.removesuffix('s')} {point.name}: its package names {point.value}, which"
    try:
        policy = point.load()
    except Exception as error:  # importing somebody else's module may fail in any way
        raise StackError(f"{where} cannot be loaded ({type(error).__name__}: {error}); mend or remove it") from error
    if not _fits(layer, policy):
        raise StackError(f"{where} is no policy class; derive it from {_BASES[layer]}")
    return policy


def _imported(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)


def _fits(layer: str, policy: Any) -> bool:
    return callable(getattr(policy, "from_network" if layer == "costs" else "from_text", None))


@cache
def _installed(layer: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"weft.{layer}")}
