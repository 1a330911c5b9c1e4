"""Policies that are handed over as classes or objects, as the texts by which they are found.

    text_of("place", MyPlace)                          # "MyPlace": registered for the rest of this process
    stack_of({"order": "srsf", "place": MyPlace})      # "srsf/MyPlace/none/fair"

Worker processes are told what was registered, classes of a notebook included (`weft.runs.executors`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

from weft.core.layered import Layered
from weft.core.stack import Stack
from weft.errors import StackError, near
from weft.model.policy import Policy
from weft.policies.planners.base import Planner
from weft.stacks import DEFAULT
from weft.stacks.registry import base_of, by_hand, called, find, make, names, register

Taken = dict[tuple[str, str], Any]  # what was registered for one call, by layer and name


class Held:
    """An object in the place of a class: every caller gets a copy of the object."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.__module__ = type(policy).__module__

    def from_text(self, arg: str | None) -> Policy:
        """A copy, since a run may write into a policy."""
        if arg is not None:
            raise StackError(f"{self.policy.name}:{arg}: an object takes no parameter; leave it out")
        return deepcopy(self.policy)


def holds_objects() -> bool:
    """Whether objects were registered, whose settings no name says."""
    return any(isinstance(policy, Held) for _, _, policy in by_hand())


def text_of(layer: str, policy: Any, taken: Taken | None = None) -> str:
    """The text for a policy of a layer: a text as it is; a class or an object under a name of its own.

    `taken` holds what has a name in this call already, so that two classes of one name do not replace each other.
    """
    if isinstance(policy, str):
        return policy
    kind = policy if isinstance(policy, type) else type(policy)
    base = base_of(layer)
    if not issubclass(kind, base):
        raise StackError(
            f"{layer.removesuffix('s')} {policy!r} is no policy; give a name, or derive it from {base.__name__}"
        )
    known = vars(kind).get("name", "")
    if known in names(layer) and find(layer, known)[0] is kind:
        if policy is kind:
            return str(known)
        with suppress(StackError):
            same = make(layer, policy.name)
            if type(same) is kind and vars(same) == vars(policy):
                return str(policy.name)
    return _registered(layer, policy, kind, {} if taken is None else taken)


def _registered(layer: str, policy: Any, kind: type, taken: Taken) -> str:
    """Register a policy under its own name or that of its class, but under no name that is in use."""
    fixed = set(names(layer)) - {name for where, name, _ in by_hand() if where == layer}
    own = str(vars(kind).get("name", ""))
    free = own if own and own not in fixed and not set(own) & set(":+/[]") else kind.__name__
    name, n = free, 1
    while name in fixed or taken.setdefault((layer, name), policy) is not policy:
        n += 1
        name = f"{free}-{n}"
    called(kind, name)
    register(layer, name, policy if policy is kind else Held(policy))
    return name


def stack_of(stack: Any, taken: Taken | None = None) -> str:
    """The text for a stack: a name as it is, a `Stack`, a joint planner, or a dict of its layers."""
    if isinstance(stack, str):
        return stack
    if isinstance(stack, type) and issubclass(stack, Planner):
        return text_of("planners", stack, taken)
    made = stack() if isinstance(stack, type) else stack
    if isinstance(made, Planner) and not isinstance(made, Layered):
        return text_of("planners", made, taken)
    if isinstance(made, Layered):
        made = {"order": made.order, "place": made.place}
    if isinstance(made, Stack):
        if made.suited is not None:  # a stack of ours that is fitted to its world
            return made.name
        parts = made.planner.__dict__ if isinstance(made.planner, Layered) else {"planner": made.planner}
        made = {**{layer: parts[layer] for layer in ("order", "place", "planner") if layer in parts},
                "interleave": made.interleave, "pace": made.pace, "route": made.route}  # fmt: skip
    if not isinstance(made, Mapping):
        raise StackError(f"{stack!r} is no stack; give a name, a Stack, a Planner, or a dict of layers")
    first = ["planner"] if "planner" in made else ["order", "place"]
    layers = [*first, "interleave", "pace", "route"]
    for layer in made:
        if layer not in layers:
            raise StackError(f"stack {dict(made)}: there is no layer {layer!r}{near(str(layer), layers)}")
    texts = [
        text_of(layer.replace("planner", "planners"), made.get(layer, DEFAULT.get(layer)), taken) for layer in layers
    ]
    return "/".join(texts[:-1] if texts[-1] == DEFAULT["route"] else texts)
