"""Levels: many priorities as few, so that as little as possible is lost (Crux, section 4.3).

Jobs that share a link contend. An edge leads from the one with the higher priority to the other and weighs the former's
intensity; it is lost if both end up on one level. Levels follow each other along a topological order, cut into
consecutive parts. The best cuts of one order are found by dynamic programming; the order is drawn several times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ORDERS = 10  # topological orders that are drawn


def compressed(weight: Floats, levels: int, rng: np.random.Generator, orders: int = ORDERS) -> list[int]:
    """A level, from 0 (first) to `levels` - 1, for each job.

    `weight[a, b]` is what the edge from a to b weighs, 0 where there is none; jobs are in order of priority, so edges
    lead from lower to higher numbers. Levels may stay empty.
    """
    n = len(weight)
    if n <= levels:
        return list(range(n))
    best, found = -1.0, [0] * n
    for _ in range(orders):
        order = _drawn(weight > 0.0, rng)
        value, cuts = cut(weight[np.ix_(order, order)], levels)
        if value > best:
            best = value
            for level, (low, high) in enumerate(zip([0, *cuts], [*cuts, n], strict=True)):
                for job in order[low:high]:
                    found[job] = level
    return found


def kept(weight: Floats, level: Sequence[int]) -> float:
    """The weight of edges between levels: what compression keeps."""
    above = np.asarray(level)[:, None] < np.asarray(level)[None, :]
    return float(weight[above].sum())


def cut(weight: Floats, levels: int) -> tuple[float, list[int]]:
    """The most weight that lies between `levels` consecutive parts of an order, and where the parts begin (all but the
    first).

    f(i, k) = max over j <= i of f(j, k-1) + C(j, i), where C(j, i) is the weight of edges from the first j jobs to the
    others up to i. C comes from a prefix sum in two dimensions.
    """
    n = len(weight)
    total = np.zeros((n + 1, n + 1))
    total[1:, 1:] = weight.cumsum(axis=0).cumsum(axis=1)
    across = total - np.diag(total)[:, None]  # [j, i]: from the first j to those between j and i
    across[np.tril_indices(n + 1, -1)] = -np.inf
    f, came = np.zeros(n + 1), []
    for _ in range(levels - 1):
        value = f[:, None] + across
        came.append(value.argmax(axis=0))
        f = value.max(axis=0)
    cuts, i = [], n
    for before in reversed(came):
        i = int(before[i])
        cuts.append(i)
    return float(f[n]), cuts[::-1]


def _drawn(edges: npt.NDArray[np.bool_], rng: np.random.Generator) -> list[int]:
    """A random topological order, breadth first: those without a predecessor in random order, then those that these
    release."""
    waits = edges.sum(axis=0).tolist()
    ready = [job for job, n in enumerate(waits) if n == 0]
    order: list[int] = []
    while ready:
        freed: list[int] = []
        for job in rng.permutation(ready).tolist():
            order.append(job)
            for other in np.flatnonzero(edges[job]).tolist():
                waits[other] -= 1
                if not waits[other]:
                    freed.append(other)
        ready = freed
    return order
