"""The refusal of a stack that needs more than a world can do or knows."""

from __future__ import annotations

from collections.abc import Iterator

from weft.core.stack import Stack
from weft.core.world import World
from weft.errors import StackError
from weft.model.cluster import Cluster


def refuse(stack: Stack, world: World) -> None:
    """Raise StackError, with the reason in words, if the stack needs what this world lacks."""
    for reason in _objections(stack, world):
        raise StackError(f"stack {stack.name} cannot run in the {world.name} world: {reason}")


def unequal_gpus(stack: Stack, cluster: Cluster) -> str:
    """Why the stack cannot plan for this cluster's GPUs, which are of several kinds; empty if it can."""
    if stack.planner.unequal or cluster.alike:
        return ""
    name, types = stack.planner.name, " and ".join(cluster.gpu_types)
    return f"{name} knows one kind of GPU, and this cluster has several ({types}); use an order and a place"


def _objections(stack: Stack, world: World) -> Iterator[str]:
    can, planner = world.capabilities, stack.planner
    if planner.dedicated and not can.copies:
        yield f"{planner.name} gives each job a cluster of its own, and this world has one for all"
    if planner.shares_gpus and not can.gpu_sharing:
        yield (
            f"{planner.name} puts several jobs on one GPU, and this world gives a GPU to one job at a time; use a "
            "place that gives whole GPUs (lwf:1,whole in the stack ada-srsf-whole, or best-fit)"
        )
    if (planner.shares_gpus or planner.names_gpus) and not can.gpu_indices:
        yield f"{planner.name} chooses single GPUs, and this world only counts GPUs per server"
    if planner.resizes and not can.resizing:
        yield f"{planner.name} changes the number of GPUs of a job, and this world runs a job at the size it asked for"
    if planner.uneven and not can.uneven:
        yield f"{planner.name} may give a job more GPUs on one server than on another, and this world cannot"
    if reason := unequal_gpus(stack, world.cluster):
        yield reason
    if world.restart_s is not None and planner.shortest_stay_s <= world.restart_s:
        yield (
            f"{planner.name} may take GPUs from a job after {planner.shortest_stay_s:g} s, and a restart takes "
            f"{world.restart_s:g} s, so that jobs may never get on; choose a longer time"
        )
    if stack.interleave.shifts and not can.shifts:
        yield f"{stack.interleave.name} shifts communication in time, and this world cannot gate a job"
    if (stack.pace.steers or stack.pace.holds_back) and not can.pacing:
        yield f"{stack.pace.name} decides which transfers run, and this world leaves that to the network"
    if stack.route.steers and not can.routes:
        yield f"{stack.route.name} chooses paths of flows, and this world leaves that to the network; use route ecmp"
    for layer in (planner, stack.interleave, stack.pace, stack.route):
        missing = sorted(fact.value for fact in layer.needs - world.facts)
        if missing:
            yield f"{layer.name} must know each job's {' and '.join(missing)}, which this world does not know"
