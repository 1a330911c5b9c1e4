"""Binary tree: reduce to rank 0, then broadcast, over a binomial tree."""

from __future__ import annotations

from weft.collectives.base import Stage, Stages

__all__ = ["stages"]


def stages(n: int, message_bytes: float, n_ps: int = 1) -> Stages:
    """ceil(log2 n) rounds up and as many down, each of the whole message, for any n.

    In round i the ranks whose lowest set bit is 2^i send to the rank without that bit: no worker sends or receives two
    messages at once, which is what Table I of the Ada-SRSF paper counts.
    """
    if n < 2:
        return ()
    up = []
    distance = 1
    while distance < n:
        up.append(tuple((r, r - distance) for r in range(distance, n, 2 * distance)))
        distance *= 2
    down = [tuple((dst, src) for src, dst in pairs) for pairs in reversed(up)]
    return tuple(Stage(message_bytes, pairs) for pairs in (*up, *down))
