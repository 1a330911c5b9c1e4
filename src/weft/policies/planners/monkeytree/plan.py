"""The integer program of MonkeyTree: the fewest blocks to move so that no ToR is crossed by too many rings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

# The program's search ends after so many nodes, or once at most this part of the moves may be too many: with up to 19
# moves they are the fewest. Neither depends on the machine; they bound the search, not the time of one node.
NODES, GAP = 200, 0.05


@dataclass(frozen=True)
class Segment:
    """A pipeline stage, or a whole job: its rings, and its blocks on each ToR."""

    rings: int
    blocks: tuple[int, ...]

    @property
    def split(self) -> bool:
        """Whether it spans several ToRs."""
        return sum(n > 0 for n in self.blocks) > 1


def fragmentation(segments: Sequence[Segment], tors: int) -> list[int]:
    """By ToR, the rings that cross it: those of the segments on it that are on other ToRs too."""
    return [sum(s.rings for s in segments if s.split and s.blocks[t]) for t in range(tors)]


def moved(segments: Sequence[Segment], room: Sequence[int], limit: int) -> list[tuple[int, ...]] | None:
    """Blocks of each segment on each ToR after the fewest moves that leave no ToR above the limit, as far as NODES and
    GAP let the search go; None if it finds no way. `room` is how many blocks each ToR has for all of these segments;
    those in one ToR stay.

    Variables are, over split segments s and ToRs t: blocks w, blocks that leave d, whether s is on t (x) and on t alone
    (y). The published program counts blocks that come as well and halves the sum: the same, and slower to solve.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import coo_array

    tors = len(room)
    split = [i for i, s in enumerate(segments) if s.split]
    kept = np.array([s.blocks for s in segments if not s.split], np.int64).reshape(-1, tors).sum(axis=0)
    left, cells = np.asarray(room, np.int64) - kept, len(split) * tors
    limits = _Limits()
    for i, at in enumerate(split):
        segment = segments[at]
        mine = range(i * tors, (i + 1) * tors)
        size = sum(segment.blocks)
        limits.add([(c, 1.0) for c in mine], size, size)
        for t, c in enumerate(mine):
            was = segment.blocks[t]
            x, y, d = 2 * cells + c, 3 * cells + c, cells + c
            limits.add([(c, 1.0), (x, -float(min(size, left[t])))], -np.inf, 0.0)
            if was:
                limits.add([(d, 1.0), (c, 1.0)], was, np.inf)
            limits.add([(y, 1.0), (x, -1.0)], -np.inf, 0.0)
            others = [(2 * cells + o, 1.0) for o in mine if o != c]
            limits.add([*others, (y, tors - 1.0)], -np.inf, tors - 1.0)
    for t in range(tors):
        column = range(t, cells, tors)
        limits.add([(c, 1.0) for c in column], -np.inf, float(left[t]))
        rings = [float(segments[at].rings) for at in split]
        both = zip(column, rings, strict=True)
        limits.add([term for c, r in both for term in ((2 * cells + c, r), (3 * cells + c, -r))], -np.inf, limit)
    cost = np.zeros(4 * cells)
    cost[cells : 2 * cells] = 1.0
    most = np.repeat([float(max(room)), np.inf, 1.0, 1.0], cells)
    matrix = coo_array((limits.values, (limits.rows, limits.columns)), shape=(len(limits.low), 4 * cells)).tocsr()
    found = milp(
        cost, integrality=np.ones(4 * cells), bounds=Bounds(0.0, most),
        constraints=LinearConstraint(matrix, limits.low, limits.high),
        options={"node_limit": NODES, "mip_rel_gap": GAP},
    )  # fmt: skip
    if found.x is None:
        return None
    blocks = np.rint(found.x[:cells]).astype(int).reshape(len(split), tors).tolist()
    new = {at: tuple(row) for at, row in zip(split, blocks, strict=True)}
    return [new.get(i, s.blocks) for i, s in enumerate(segments)]


class _Limits:
    """Rows of a sparse matrix, with the least and the most that each may come to."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, terms: Sequence[tuple[int, float]], least: float, most: float) -> None:
        """One row."""
        for column, value in terms:
            self.rows.append(len(self.low))
            self.columns.append(column)
            self.values.append(value)
        self.low.append(least)
        self.high.append(most)
