"""Named stacks, and how a stack is put together from names: docs/stacks.md describes the notation for users.

A stack is a name (`ada-srsf`), some of which take a parameter (`ada-srsf:3`), or its layers one after another
(`srsf/delay/none/fair/spray`; `themis/cassini/fair` with a joint planner; layers left out at the end are the defaults).
`X+Y` is stack X with interleave Y, and `X[place=tight]` is X with that layer replaced. Whatever results call a stack
can be given again.
"""

from __future__ import annotations

from typing import cast

from weft.core.layered import Layered
from weft.core.layered.even import Dealt, Even
from weft.core.stack import Stack
from weft.errors import StackError, near, quoted
from weft.network.collectives.algorithms import COLLECTIVES
from weft.policies.order.base import Order
from weft.policies.place.base import Place
from weft.policies.place.pattern import HD
from weft.policies.planners.base import Planner
from weft.stacks.registry import WRAPS, apart, is_file, is_planner, make, readable
from weft.stacks.registry import names as policy_names
from weft.stacks.suited import adaptive

__all__ = ["ABOUT", "STACKS", "Stack", "default_stack", "describe", "names", "resolve"]

# name: its layers; those left out are DEFAULT's. A joint planner has "planner" instead of order and place.
STACKS: dict[str, dict[str, str]] = {
    "weft": {"order": "weft", "place": "tight", "pace": "weft"},
    "fifo": {"order": "fifo"},
    "fifo-backfill": {"order": "fifo:backfill"},
    "sjf": {"order": "sjf"},
    "srsf": {"order": "srsf"},
    "srsf-preemptive": {"order": "srsf:preemptive"},
    "srsf-tight": {"order": "srsf:preemptive", "place": "tight"},
    "srsf-first-fit": {"order": "srsf", "place": "first-fit"},
    "srsf-random": {"order": "srsf", "place": "random"},
    "ada-srsf": {"order": "srsf", "place": "lwf:1", "pace": "adadual"},
    "ada-srsf-whole": {"order": "srsf", "place": "lwf:1,whole", "pace": "adadual"},
    "srsf-1": {"order": "srsf", "place": "lwf:1", "pace": "at-most:1"},
    "srsf-2": {"order": "srsf", "place": "lwf:1", "pace": "at-most:2"},
    "srsf-3": {"order": "srsf", "place": "lwf:1", "pace": "at-most:3"},
    "dally": {"order": "nw-sens", "place": "delay"},
    "dally-manual": {"order": "nw-sens", "place": "delay:manual"},
    "dally-nowait": {"order": "nw-sens", "place": "delay:no-wait"},
    "dally-consolidated": {"order": "nw-sens", "place": "delay:consolidated"},
    "dally-benefit": {"order": "nw-sens", "place": "delay:benefit"},
    "tiresias": {"order": "las", "place": "skew"},
    "tiresias-racks": {"order": "las", "place": "delay:no-wait"},
    "tiresias:gittins": {"order": "gittins", "place": "skew"},
    "tiresias-queues": {"order": "las-queues", "place": "skew"},
    "gandiva": {"order": "time-slice", "place": "affinity"},
    "gandiva-packing": {"order": "time-slice", "place": "packing"},
    "titan": {"place": "titan"},
    "titan-defrag": {"order": "defrag", "place": "titan"},
    "elasticflow": {"place": "elasticflow"},
    "hived": {"place": "hived"},
    "crux": {"pace": "crux", "route": "crux"},
    "monkeytree": {"planner": "monkeytree", "route": "edge-colouring"},
    "foresight": {"interleave": "foresight", "route": "edge-colouring"},
    "mltcp": {"pace": "mltcp"},
    "arnold": {"place": "arnold"},
    "sglb": {"route": "sglb"},
}

# name: what it is, in a line
ABOUT: dict[str, str] = {
    "weft": "ours: least expected service first with a bound on waiting, in tight places, fitted to the world",
    "fifo": "first in, first out; a job that does not fit holds up those behind it",
    "fifo-backfill": "first in, first out; smaller jobs may start in gaps: what most sites run",
    "sjf": "shortest job first, by its length alone",
    "srsf": "shortest remaining service first (iterations left x GPUs); nobody is stopped",
    "srsf-preemptive": "shortest remaining service first; longer jobs give way",
    "srsf-tight": "the same, on the fewest machines of one rack",
    "srsf-first-fit": "shortest remaining service first on whichever GPUs come first",
    "srsf-random": "shortest remaining service first on random GPUs",
    "ada-srsf": "Ada-SRSF: least-loaded servers, and transfers admitted by what they cost (Wang et al. 2020)",
    "ada-srsf-whole": "Ada-SRSF with one job on a GPU, which live worlds can carry out",
    "srsf-1": "Ada-SRSF's baseline: at most 1 transfer on a server at a time",
    "srsf-2": "Ada-SRSF's baseline: at most 2 transfers on a server at a time",
    "srsf-3": "Ada-SRSF's baseline: at most 3 transfers on a server at a time",
    "dally": "Dally: jobs wait for a close placement as long as that has paid before; network-sensitive first",
    "dally-manual": "Dally with waits that are set by hand",
    "dally-nowait": "Dally without waiting",
    "dally-consolidated": "Dally that waits until a job fits close together",
    "dally-benefit": "Dally that waits as long as the benefit is worth it",
    "tiresias": "Tiresias: least attained service first; skewed models close together (NSDI '19)",
    "tiresias-racks": "Tiresias that looks at racks, without waiting",
    "tiresias:gittins": "Tiresias with the Gittins index, from how long jobs usually last",
    "tiresias-queues": "Tiresias with two queues, as published",
    "gandiva": "Gandiva: jobs take turns on GPUs (OSDI '18)",
    "gandiva-packing": "Gandiva that puts jobs together on GPUs",
    "titan": "Titan: fewest idle machines, then fewest bytes between machines",
    "titan-defrag": "Titan that also moves jobs together",
    "elasticflow": "ElasticFlow's placement as Titan compares with it: best fit for powers of two",
    "hived": "HiveD's placement as Titan compares with it: fragments first, split freely",
    "crux": "Crux: who computes most per second on its busiest link goes first, in paths and levels (SIGCOMM '24)",
    "monkeytree": "MonkeyTree: jobs move so that few rings cross a rack, and each ring has a spine of its own (2026)",
    "foresight": "Foresight: a delay before each iteration, planned ahead, without its caps on rates (IFIP '25)",
    "mltcp": "MLTCP: a job's share grows with what it has sent of its iteration (HotNets '24)",
    "arnold": "Arnold: one large job on the fewest minipods, pipelines kept together, without reservation (2025)",
    "sglb": "SGLB: flows hashed over the less loaded half of the paths (SIGCOMM '25)",
    "ideal": "a bound: every job has a cluster of its own",
    "pollux": "Pollux: goodput decides sizes and places of elastic jobs (OSDI '21)",
    "random": "any job anywhere: a floor to compare with",
    "themis": "Themis: auctions for finish-time fairness (NSDI '20)",
}

# name: the layer that a parameter of the stack is handed on to
_PARAMETERS = {
    "ada-srsf": "pace", "ada-srsf-whole": "pace", "gandiva": "order", "gandiva-packing": "order", "tiresias": "order",
    "tiresias-queues": "order", "tiresias-racks": "order", "titan": "place", "crux": "pace", "monkeytree": "planner",
    "foresight": "interleave", "mltcp": "pace", "arnold": "place",
}  # fmt: skip

DEFAULT = {"order": "fifo", "place": "best-fit", "interleave": "none", "pace": "fair", "route": "ecmp"}


def default_stack() -> str:
    """What runs where nobody names a stack."""
    return "weft"


def names() -> list[str]:
    """Every stack that has a name: those above, and planners that other packages installed."""
    return [*STACKS, *(name for name in policy_names("planners") if name not in STACKS)]


def resolve(
    name: str | None = None,
    order: str | None = None,
    place: str | None = None,
    interleave: str | None = None,
    pace: str | None = None,
    route: str | None = None,
) -> Stack:
    """The stack of that name with the given layers replaced; without a name, the given layers over the defaults.

    Raises StackError for an unknown name and, in words, for layers that contradict each other.
    """
    name, asked = _split(name) if name is not None else (None, {})
    spelled = name is not None and _layers_of(name) is not None
    given = {"order": order, "place": place, "interleave": interleave, "pace": pace, "route": route}
    asked |= {layer: text for layer, text in given.items() if text is not None}
    replaced = {layer: asked[layer] for layer in DEFAULT if layer in asked}
    layers = {**_described(name), **replaced} if name is not None else {**DEFAULT, **replaced}
    if "planner" in layers:
        for layer in ("order", "place"):
            if layer in replaced:
                raise StackError(
                    f"{layer} {replaced[layer]} cannot be used with {name}: {layers['planner']} decides order and "
                    "place at once; replace its interleave, pace or route, or choose another stack"
                )
        planner = cast(Planner, make("planners", layers["planner"]))
    else:
        planner = Layered(cast(Order, make("order", layers["order"])), _place(layers["place"]))
    # what existed before routes keeps its name, because results are found by it
    parts = [text for layer, text in layers.items() if (layer, text) != ("route", DEFAULT["route"])]
    full_name = "/".join(parts) if spelled or name is None else _name(name, replaced)
    network = (make(layer, layers[layer]) for layer in ("interleave", "pace", "route"))
    stack = Stack(full_name, planner, *network)
    own = name is not None and name.partition("+")[0] == "weft"
    return adaptive(stack) if own else stack


def describe(name: str) -> dict[str, str]:
    """Layer by layer, the policies that a stack's name stands for; ECMP's routes go without saying, as in names."""
    return {layer: text for layer, text in _described(name).items() if (layer, text) != ("route", DEFAULT["route"])}


def _described(name: str) -> dict[str, str]:
    name, changes = _split(name)
    if changes:
        return {**_described(name), **changes}
    if (spelled := _layers_of(name)) is not None:
        return spelled
    base, plus, interleave = name.rpartition("+")
    if plus:
        if "+" in base:
            raise StackError(f"stack {name}: it names two interleaves; keep one of them")
        return {**_described(base), "interleave": interleave}
    base, colon, parameter = name.partition(":")
    if name in STACKS:
        layers = STACKS[name]
    elif colon and base in _PARAMETERS:
        layer = _PARAMETERS[base]
        layers = {**STACKS[base], layer: f"{STACKS[base][layer]}:{parameter}"}
        try:
            make("planners" if layer == "planner" else layer, layers[layer])
        except StackError as error:  # it names the policy, which a user of the stack has not written
            raise StackError(f"stack {name}: {error}") from error
    elif name.partition(":")[0] in policy_names("planners") or is_planner(name):
        layers = {"planner": name}
    elif is_file(name):
        layers = {"order": name}
    else:
        raise StackError(f"there is no stack {quoted(name)}{near(name, names(), '`weft stacks` lists them')}")
    if "planner" in layers:
        return {"planner": layers["planner"], **{k: layers.get(k, DEFAULT[k]) for k in ("interleave", "pace", "route")}}
    return {**DEFAULT, **layers}


def _layers_of(name: str) -> dict[str, str] | None:
    """The layers of a stack that is written as such: order/place/interleave/pace/route, or
    planner/interleave/pace/route."""
    if "/" not in name or name.partition(":")[0] in _PARAMETERS:  # tiresias:3600/36000 has a parameter
        return None
    pieces = name.split("/")
    first = "/".join(pieces[: _pieces_of_policy(pieces, "order", "place")])
    known = first.partition(":")[0]
    joint = is_planner(first) or (known in policy_names("planners") and known not in policy_names("order"))
    layers = ["planner", "interleave", "pace", "route"] if joint else list(DEFAULT)
    found: dict[str, str] = {}
    for layer, below in zip(layers, [*layers[1:], ""], strict=True):
        if pieces:
            n = _pieces_of_policy(pieces, layer, below)
            found[layer], pieces = "/".join(pieces[:n]), pieces[n:]
    if pieces or not all(found.values()):
        raise StackError(f"stack {name}: write order/place/interleave/pace/route, or planner/interleave/pace/route")
    return {layer: found.get(layer) or DEFAULT[layer] for layer in layers}


def _pieces_of_policy(pieces: list[str], layer: str, below: str) -> int:
    """How many of the pieces between slashes make up the first policy: more than one in the path of a file, after
    "dealt", and in a parameter (las:3600/36000)."""
    if layer == "place" and pieces[0] == "dealt" and len(pieces) > 1:
        return 1 + _pieces_of_policy([pieces[1].partition(":")[2], *pieces[2:]], layer, below)
    if layer == "place" and pieces[0].startswith(("even:", "dealt:")):
        return _pieces_of_policy([pieces[0].partition(":")[2], *pieces[1:]], layer, below)
    if _begins(pieces[0], layer):
        if ":" not in pieces[0] or not below or is_file(pieces[0]):
            return 1
        return next((i for i in range(1, len(pieces)) if _begins(pieces[i], below)), 1)
    return next((i for i, piece in enumerate(pieces, 1) if is_file(piece)), 1)


def _begins(piece: str, layer: str) -> bool:
    """Whether a policy of that layer may begin like this."""
    name = piece.partition(":")[0]
    known = readable("planners" if layer == "planner" else layer)
    return name in known or is_file(piece) or (layer == "place" and name in WRAPS)


def _place(text: str, around: tuple[str, ...] = ()) -> Place:
    """A place by its name. `even:NAME` holds it to as many workers on each server; `dealt:NAME` deals its ranks out."""
    how, _, inner = text.partition(":")
    wrap, slash, collective = how.partition("/")
    if wrap in around:
        raise StackError(f"{text}: {wrap} stands before this place already; write it once")
    if inner and how == "even":
        return Even(_place(inner, (*around, wrap)))
    if inner and wrap == "dealt":
        if slash and not collective:
            raise StackError(f"{text}: write dealt:{inner}, or dealt/COLLECTIVE:{inner}")
        collective = collective or HD
        if collective not in COLLECTIVES:
            raise StackError(f"{text}: there is no collective {collective}{near(collective, list(COLLECTIVES))}")
        return Dealt(_place(inner, (*around, wrap)), collective)
    return cast(Place, make("place", text))


def _split(name: str) -> tuple[str, dict[str, str]]:
    """A name without its brackets, and the layers that are replaced in them."""
    base, bracket, text = name.partition("[")
    if not bracket:
        return name, {}
    parts = apart(text.removesuffix("]"), lambda part, last: ":" not in last or part.partition("=")[0] in DEFAULT)
    changes = dict(part.partition("=")[::2] for part in parts)
    if not text.endswith("]") or not all(changes.values()):
        raise StackError(f"stack {name}: write what is replaced as NAME[place=tight] or NAME[place=tight,pace=fair]")
    if len(changes) < len(parts):
        raise StackError(f"stack {name}: a layer is replaced twice; leave one out")
    for layer in changes.keys() - DEFAULT.keys():
        raise StackError(f"stack {name}: there is no layer {quoted(layer)}{near(layer, [*DEFAULT])}")
    return base, changes


def _name(name: str, replaced: dict[str, str]) -> str:
    changes = ",".join(f"{layer}={text}" for layer, text in replaced.items())
    return f"{name}[{changes}]" if changes else name
