"""What a rule that sets caps sees of the readable engine's transfers (twin of limits_kernel.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.pace.rates import Bools, Floats, Ints, Limits
from weft.sim.compiled.state import rate_unit
from weft.sim.engine.program import whole_units
from weft.sim.readable.job import RefNode

if TYPE_CHECKING:
    from weft.sim.readable.engine import ReferenceEngine

__all__ = ["RefBody"]


class RefBody:
    """See `weft.sim.engine.ruled.Body`."""

    def __init__(self, engine: ReferenceEngine) -> None:
        self._engine = engine

    def _by_row(self) -> dict[int, RefNode]:
        return {n.row: n for job in self._engine.jobs.values() for n in job.nodes}

    def stirred(self) -> tuple[Ints, Bools, Floats]:
        """All transfers, whether they have changed or not."""
        nodes = sorted(self._by_row().items())
        live = [node.ruled and node.state == "active" for _, node in nodes]
        since = [node.since for _, node in nodes]
        return np.array([row for row, _ in nodes], np.int64), np.array(live, np.bool_), np.array(since, np.float64)

    def sent(self, rows: Ints) -> Floats:
        """Bytes that each flow of these has sent."""
        nodes, now = self._by_row(), self._engine.now
        return np.array([nodes[r].spec.amount - nodes[r].bytes_left(now) for r in rows.tolist()], np.float64)

    def carried(self, rows: Ints) -> Floats:
        """Bytes over each link, of transfers under the rule."""
        out, nodes = np.array(self._engine.ruled_bytes, np.float64), self._by_row()
        for row, sent in zip(rows.tolist(), self.sent(rows).tolist(), strict=True):
            for link, n in nodes[row].spec.links:
                out[link] += sent * n
        return out

    def full(self, rows: Ints) -> Bools:
        """Links that keep some of these from what they may have."""
        capacity = self._engine.spec.capacity
        unit = rate_unit(capacity)
        room = [whole_units(float(c), unit) for c in capacity]
        for node in self._engine.flowing():
            for link, n in node.spec.links:
                room[link] -= n * node.units + n * node.claim
        out, nodes = np.zeros(len(capacity), np.bool_), self._by_row()
        for row in rows.tolist():
            if 0 <= nodes[row].units < nodes[row].demand:
                for link, _ in nodes[row].spec.links:
                    out[link] |= room[link] < 0
        return out

    def look_to(self, horizon_s: float, due_s: float) -> None:
        """Who catches up with whom is of interest up to the horizon; all ends are, as nothing is to be saved here."""
        self._engine.horizon = horizon_s

    def look_again(self, rows: Ints) -> None:
        """Everything is looked at again."""
        self._engine.limits_changed()

    def limit(self, rows: Ints, limits: Limits) -> None:
        """Caps, and weights and levels where they are given."""
        nodes, unit = self._by_row(), rate_unit(self._engine.spec.capacity)
        ranked = limits.weights is not None or limits.levels is not None
        for row in rows.tolist():
            node = nodes[row]
            node.demand = min(node.limit, whole_units(float(limits.caps[row]), unit))
            if ranked:
                node.claim = 1 if limits.weights is None else int(limits.weights[row])
                node.level = 0 if limits.levels is None else int(limits.levels[row])
        self._engine.limits_changed()
