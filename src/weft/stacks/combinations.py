"""Combinations: every way to answer the five questions, from the policies that there are.

A joint planner (Themis, Pollux) answers order and place at once and stands where those two would. Some policies are
worth trying in more than one spelling (`flow`, `flow:host-only`); a policy from another package is tried under its
plain name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from weft.core.stack import Stack
from weft.errors import StackError, near
from weft.stacks import resolve
from weft.stacks.registry import ELSEWHERE, WRAPS, apart, is_file, make, readable
from weft.stacks.registry import names as policy_names

_HOW = r"^((even|dealt(/[a-z-]+)?):)*"  # what may stand before the name of a place: see stacks.py

SPELLINGS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "order": {"srsf": ("srsf", "srsf:preemptive")},
    "place": {"first-fit": ("first-fit", "first-fit:shared"), "random": ("random", "random:shared")},
    "pace": {
        "at-most": ("at-most:1",),
        "flow": ("flow", "flow:host-only"),
        "tcp": ("tcp:ideal", "tcp:ideal-bbr"),  # the others are asked every 10 ms and give nearly the same results
    },
}


@dataclass(frozen=True, order=True)
class Combination:
    """One answer to each question; `planner` instead of order and place, or "" beside them."""

    order: str
    place: str
    interleave: str
    pace: str
    planner: str = ""
    route: str = "ecmp"

    @property
    def plan(self) -> str:
        """Who decides which job runs where."""
        return self.planner or f"{self.order}/{self.place}"

    @property
    def network(self) -> str:
        """Who decides when transfers run, how fast, and over which links."""
        return f"{self.interleave}/{self.pace}" + (f"/{self.route}" if self.route != "ecmp" else "")

    @property
    def name(self) -> str:
        """What results call it: `fifo/best-fit/none/flow`, `themis/none/flow`."""
        return f"{self.plan}/{self.network}"

    def stack(self) -> Stack:
        """The stack; raises StackError, with the reason, if its layers contradict each other."""
        stack = resolve(self.name)
        if self.planner and stack.planner.dedicated:
            raise StackError(
                f"{self.planner} gives each job a cluster of its own: a bound, no scheduler; compare it with --stack"
            )
        return stack


def policies(layer: str) -> list[str]:
    """The policies of a layer that are tried by default."""
    spelled = SPELLINGS.get(layer, {})
    tried = [name for name in policy_names(layer) if name not in ELSEWHERE]
    return [text for name in tried for text in spelled.get(name, (name,))]


def policies_in(layer: str, texts: Sequence[str]) -> list[str]:
    """The policies that options name: `a,b`, each known in the layer. Commas of a parameter stay where they are."""
    known = set(policy_names(layer))
    begins = readable(layer).union(WRAPS if layer == "place" else ())

    def bare(one: str) -> str:
        return re.sub(_HOW, "", one) if layer == "place" else one

    def anew(part: str, last: str) -> bool:
        before = bare(last)
        settings = before.count(":") > is_file(before)  # without any, a comma cannot go on with them
        return not settings or is_file(part) or re.split("[:/]", part)[0] in begins

    found = [one for text in texts for one in apart(text, anew)]
    for one in found:
        inner = bare(one)
        if not one:
            raise StackError(f"--{layer.removesuffix('s')} names nothing{near('', sorted(known))}")
        make(layer, inner or one)
        if found.count(one) > 1:
            raise StackError(f"--{layer.removesuffix('s')} names {one} twice; name each once")
    return found


def combinations(chosen: Mapping[str, Sequence[str]]) -> Iterator[Combination]:
    """Every combination, admissible or not, of the chosen policies; layers that are left out are tried whole, but for
    routes: each would multiply them all, and most clusters have one path between two servers.

    Where orders or places are chosen and planners are not, there are no joint planners, and the other way round.
    """
    layered = bool(chosen.get("order") or chosen.get("place"))
    joint = bool(chosen.get("planners"))
    of = {layer: list(chosen.get(layer) or policies(layer)) for layer in ("order", "place", "interleave", "pace")}
    of["route"] = list(chosen.get("route") or ["ecmp"])
    planners = list(chosen.get("planners") or ([] if layered else policies("planners")))
    if layered or not joint:
        for order, place, interleave, pace, route in product(*of.values()):
            yield Combination(order, place, interleave, pace, route=route)
    for planner, interleave, pace, route in product(planners, of["interleave"], of["pace"], of["route"]):
        yield Combination("", "", interleave, pace, planner, route)
