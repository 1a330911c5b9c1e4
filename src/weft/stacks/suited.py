"""The stack `weft` in one world: what the world cannot carry out is left out with a note, not refused."""

from __future__ import annotations

from dataclasses import replace

from weft.core.capabilities import Capabilities
from weft.core.layered import Layered
from weft.core.layered.even import Even
from weft.core.stack import Stack
from weft.model.view import Fact
from weft.policies.interleave.base import NoInterleave
from weft.policies.order.base import Order
from weft.policies.order.limited import Limited
from weft.policies.order.weft import Weft as WeftOrder
from weft.policies.pace.admission import Fair
from weft.policies.pace.weft import Weft as WeftPace
from weft.policies.place.base import Place
from weft.policies.place.best_fit import BestFit
from weft.policies.route.base import Ecmp


def adaptive(stack: Stack) -> Stack:
    """A stack that is fitted to its world at the start of a run: its planner makes do with what is known there."""
    return replace(stack, suited=suited)


def suited(stack: Stack, can: Capabilities, facts: frozenset[Fact]) -> tuple[Stack, tuple[str, ...]]:
    """The stack with every layer as this world allows it, and a line about each thing that is left out."""
    left_out: list[str] = []
    planner, interleave, pace = stack.planner, stack.interleave, stack.pace
    if isinstance(planner, Layered):
        planner = Layered(_order(planner.order, can, facts, left_out), _place(planner.place, can, facts, left_out))
    if interleave.shifts and (not can.shifts or Fact.PROFILE not in facts):
        interleave = NoInterleave()
        left_out.append("no time-shifts: this world cannot gate jobs, or does not know when they send")
    if isinstance(pace, WeftPace):
        pace = pace.suited(can.others)
    if (pace.steers or pace.holds_back) and not can.pacing:
        pace = Fair()
        left_out.append("transfers are left to the network, which this world does not pace")
    route = stack.route
    if route.steers and not can.routes:
        route = Ecmp()
        left_out.append("paths are left to the network, in which this world does not choose them")
    return Stack(stack.name, planner, interleave, pace, route), tuple(f"weft: {line}" for line in left_out)


def _order(order: Order, can: Capabilities, facts: frozenset[Fact], left_out: list[str]) -> Order:
    if isinstance(order, Limited):
        return Limited(_order(order.order, can, facts, left_out), order.limits)
    if not isinstance(order, WeftOrder):
        return order
    order, lines = order.suited(facts, can.resizing)
    left_out += lines
    return order


def _place(place: Place, can: Capabilities, facts: frozenset[Fact], left_out: list[str]) -> Place:
    if not place.needs <= facts:
        missing = " and ".join(sorted(fact.value for fact in place.needs - facts))
        left_out.append(f"place best-fit instead of {place.name}, which must know each job's {missing}")
        place = BestFit()
    if place.uneven and not can.uneven:
        left_out.append("as many workers on each server of a job")
        place = Even(place)
    return place
