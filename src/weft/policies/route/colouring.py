"""Edge colouring: which spine each flow between racks takes so that no two flows meet on a link of a spine.

Vertices on the left are racks that send, vertices on the right racks that receive, and each flow is an edge. Edges that
meet at a vertex get different colours. As many colours as the largest degree D are always enough (König): dummy edges
bring every vertex to degree D, and a regular bipartite multigraph falls apart into D perfect matchings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

Edge = tuple[Hashable, Hashable]  # whence, where to; the same name on both sides means two vertices
Counts = npt.NDArray[np.int64]


def colour(edges: Sequence[Edge]) -> list[int]:
    """A colour for each edge, 0 to D - 1; parallel edges get theirs in their order."""
    if not edges:
        return []
    left = {name: at for at, name in enumerate(dict.fromkeys(a for a, _ in edges))}
    right = {name: at for at, name in enumerate(dict.fromkeys(b for _, b in edges))}
    waiting: dict[tuple[int, int], deque[int]] = {}
    n = max(len(left), len(right))
    counts = np.zeros((n, n), np.int64)
    for at, (a, b) in enumerate(edges):
        pair = left[a], right[b]
        counts[pair] += 1
        waiting.setdefault(pair, deque()).append(at)
    colours = [0] * len(edges)
    for first, times, matched in _matchings(_regular(counts)):
        for a, b in enumerate(matched.tolist()):
            flows = waiting.get((a, b), ())
            for colour_ in range(first, first + min(times, len(flows))):
                colours[waiting[a, b].popleft()] = colour_
    return colours


def spines(edges: Sequence[Edge], n: int) -> list[int]:
    """The spine of each flow where there are n of them; where D is larger, colours take turns on them."""
    return [each % n for each in colour(edges)]


def degree(edges: Sequence[Edge]) -> int:
    """D: the most flows that leave one rack, or that one rack receives."""
    ends: dict[tuple[int, Hashable], int] = {}
    for edge in edges:
        for side in enumerate(edge):
            ends[side] = ends.get(side, 0) + 1
    return max(ends.values(), default=0)


def _regular(counts: Counts) -> Counts:
    """The same with dummy edges, so that every row and column has the largest sum."""
    full = counts.copy()
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    most = max(rows.max(), columns.max())
    lacks, short = (most - rows).tolist(), (most - columns).tolist()
    a = b = 0
    while a < len(lacks) and b < len(short):
        added = min(lacks[a], short[b])
        full[a, b] += added
        lacks[a] -= added
        short[b] -= added
        a, b = a + (lacks[a] == 0), b + (short[b] == 0)
    return full


def _matchings(left_over: Counts) -> list[tuple[int, int, Counts]]:
    """Perfect matchings that use up all edges: the first colour, how many colours, and the column of each row."""
    found, first, rows = [], 0, np.arange(len(left_over))
    while left_over.any():
        matched = maximum_bipartite_matching(csr_array(left_over), perm_type="column").astype(np.int64)
        times = int(left_over[rows, matched].min())
        left_over[rows, matched] -= times
        found.append((first, times, matched))
        first += times
    return found
