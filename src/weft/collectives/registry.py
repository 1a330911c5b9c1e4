"""The collectives by name."""

from __future__ import annotations

from weft.collectives import (
    all_to_all,
    halving_doubling,
    parameter_server,
    point_to_point,
    recursive_doubling,
    ring,
    tree,
)
from weft.collectives.base import Collective, Stages
from weft.errors import InputError

__all__ = ["COLLECTIVES", "get_collective", "stages"]

COLLECTIVES: dict[str, Collective] = {
    c.name: c
    for c in (
        Collective("ring", ring.stages, "all-reduce around a ring, bandwidth-optimal", rack_aware=True),
        Collective("halving-doubling", halving_doubling.stages, "all-reduce by recursive halving and doubling"),
        Collective("recursive-doubling", recursive_doubling.stages, "all-reduce by exchanges of whole messages"),
        Collective("tree", tree.stages, "reduce and broadcast over a binary tree"),
        Collective("parameter-server", parameter_server.stages, "push to n servers beside the workers, and pull"),
        Collective("all-to-all", all_to_all.stages, "a part from every worker to every other", all_reduce=False),
        Collective("point-to-point", point_to_point.stages, "from the first worker to the second", all_reduce=False),
    )
}


def get_collective(name: str) -> Collective:
    """The collective of that name, or an InputError that lists what there is."""
    found = COLLECTIVES.get(name)
    if found is None:
        raise InputError(f"collective {name!r} is unknown; choose one of {', '.join(COLLECTIVES)}")
    return found


def stages(name: str, n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """What the named collective sends among n workers (nothing, for one)."""
    if n < 1:
        raise InputError(f"collective {name}: it has {n} workers; give at least 1")
    if n_ps < 1:
        raise InputError(f"collective {name}: it has {n_ps} parameter servers; give at least 1")
    if not 0 <= message_bytes < float("inf"):
        raise InputError(f"collective {name}: its message has {message_bytes} bytes; give a finite size of at least 0")
    return get_collective(name).stages(n, message_bytes, n_ps)
