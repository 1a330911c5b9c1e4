"""How the compiled engine tells a rule about its transfers, and how it learns what these may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.policies.pace.rates import Bools, Floats, Ints, Limits
from weft.sim.compiled.load import kernel

if TYPE_CHECKING:
    from weft.sim.engine import Engine

_NO_ROWS = np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0)


class EngineBody:
    """See `weft.sim.engine.ruled.Body`; rows are nodes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kernel = kernel("limits")

    def stirred(self) -> tuple[Ints, Bools, Floats]:
        a = self._engine.arrays
        count = int(a.scalars["n_stirs"])
        if not count:
            return _NO_ROWS
        rows = np.sort(a.stirs[:count]).astype(np.int64)
        a.noted[rows], a.scalars["n_stirs"] = 0, 0
        return rows, a.live[rows] != 0, a.since[rows]

    def sent(self, rows: Ints) -> Floats:
        out = np.empty(len(rows))
        self._kernel.sent(self._engine.table, rows, out)
        return out

    def carried(self, rows: Ints, sent: Floats) -> Floats:
        out = np.empty(len(self._engine.spec.capacity))
        self._kernel.carried(self._engine.table, rows, sent, out)
        return out / self._engine.spec.finest

    def full(self, rows: Ints) -> Bools:
        out = np.zeros(len(self._engine.spec.capacity), np.bool_)
        self._kernel.full(self._engine.table, rows, out)
        return out

    def look_to(self, horizon_s: float, due_s: float) -> None:
        scalars = self._engine.arrays.scalars
        scalars["horizon"], scalars["slot_end"] = horizon_s, due_s

    def look_again(self, rows: Ints) -> None:
        self._kernel.look_again(self._engine.table, rows)

    def limit(self, rows: Ints, limits: Limits) -> None:
        table = self._engine.table
        self._kernel.cap(table, rows, limits.caps[rows], np.empty(len(rows), np.int64))
        if limits.weights is not None or limits.levels is not None:
            claims = np.ones(len(rows), np.int64) if limits.weights is None else limits.weights[rows]
            levels = np.zeros(len(rows), np.int64) if limits.levels is None else limits.levels[rows]
            self._kernel.rank(table, rows, claims, levels)
