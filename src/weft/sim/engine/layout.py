"""Layout: where the programs of attached jobs lie in the engine's arenas."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from weft.sim.compiled.state import JOB, Arrays, allocate, grown
from weft.sim.engine.program import PARTS, Program, as_bytes

_blank = np.zeros(1, JOB)
_blank["comp"] = _blank["next"] = _blank["gate_task"] = -1
_BLANK = as_bytes(_blank)
_FLOWS = PARTS.index("flows")
_BY_THEMSELVES = {*PARTS, "jobs", "chain", "seats"}  # arrays that grow by themselves


class Pool:
    """Hands out ranges of an arena; ranges given back are reused for requests of the same size."""

    def __init__(self) -> None:
        self.end = 0
        self.free: dict[int, list[int]] = {}

    def take(self, size: int) -> int:
        spare = self.free.get(size)
        if spare:
            return spare.pop()
        start = self.end
        self.end += size
        return start

    def give(self, start: int, size: int) -> None:
        self.free.setdefault(size, []).append(start)


class Layout:
    """One pool for job rows and one for each part of a program."""

    def __init__(self) -> None:
        self._rows = Pool()
        self._pools = tuple(Pool() for _ in PARTS)
        self._row_bytes: npt.NDArray[np.void] = _BLANK
        self._bytes: tuple[npt.NDArray[np.void], ...] = ()
        self._at_the_end = True  # something was handed out at the end, where the arenas may have no room

    def take(self, program: Program) -> tuple[int, tuple[int, ...]]:
        """A free row, and where each part of the program goes (0 for what it has none of)."""
        ends = sum([pool.end for pool in self._pools], self._rows.end)
        starts = tuple([pool.take(n) if n else 0 for pool, n in zip(self._pools, program.sizes, strict=True)])
        row = self._rows.take(1)
        if sum([pool.end for pool in self._pools], self._rows.end) > ends:
            self._at_the_end = True
        return row, starts

    def give(self, row: int, program: Program, starts: tuple[int, ...]) -> None:
        """Row and ranges are free again."""
        self._rows.give(row, 1)
        for pool, start, size in zip(self._pools, starts, program.sizes, strict=True):
            if size:
                pool.give(start, size)

    def use(self, a: Arrays) -> None:
        """Programs are copied into these arenas from now on."""
        self._row_bytes, self._bytes = as_bytes(a.jobs), tuple(as_bytes(getattr(a, part)) for part in PARTS)

    def copy_in(self, row: int, program: Program, starts: tuple[int, ...]) -> None:
        """Copy a program as it is, in whole rows because numpy would copy field by field; compiled code then adds the
        offsets."""
        self._row_bytes[row : row + 1] = _BLANK
        for arena, start, size, part in zip(self._bytes, starts, program.sizes, program.bytes, strict=True):
            if size:
                arena[start : start + size] = part

    def exchange(self, old: Program, starts: tuple[int, ...], program: Program) -> tuple[int, ...]:
        """Where the parts of a program lie whose flows are replaced by those of another."""
        pool, before, after = self._pools[_FLOWS], old.sizes[_FLOWS], program.sizes[_FLOWS]
        if before:
            pool.give(starts[_FLOWS], before)
        end = pool.end
        begin = pool.take(after) if after else 0
        self._at_the_end |= pool.end > end
        return (*starts[:_FLOWS], begin, *starts[_FLOWS + 1 :])

    def copy_links(self, a: Arrays, program: Program, starts: tuple[int, ...]) -> None:
        """Copy the flows of a program to where they lie, and tell its nodes."""
        begin, size = starts[_FLOWS], program.sizes[_FLOWS]
        a.flows[begin : begin + size] = program.flows
        nodes = a.nodes[starts[0] : starts[0] + program.sizes[0]]
        for end in ("flow0", "flow1"):
            nodes[end] = program.nodes[end] + begin
        for name in ("alone", "demand_units", "limit"):
            nodes[name] = program.nodes[name]

    def room(self, a: Arrays) -> Arrays | None:
        """The arenas with room for all that was handed out, what is too small doubled; None if they have it already."""
        if not self._at_the_end:
            return None
        self._at_the_end = False
        ends = {name: pool.end for name, pool in zip(PARTS, self._pools, strict=True)}
        if self._rows.end <= len(a.jobs) and all(end <= len(getattr(a, name)) for name, end in ends.items()):
            return None
        changes: dict[str, npt.NDArray[Any]] = {}
        for name, end in {**ends, "jobs": self._rows.end}.items():
            array = getattr(a, name)
            if end > len(array):
                changes[name] = grown(array, max(end, 2 * len(array)))
        if "flows" in changes:
            changes["chain"] = grown(a.chain, len(changes["flows"]))
        if "nodes" in changes or "jobs" in changes:
            changes |= _alongside(a, len(changes.get("nodes", a.nodes)), len(changes.get("jobs", a.jobs)))
        return a._replace(**changes)


def _alongside(a: Arrays, n_nodes: int, n_jobs: int) -> dict[str, npt.NDArray[Any]]:
    """The other arrays whose length depends on the number of nodes or jobs, where it must be larger."""
    needed = allocate(len(a.links), len(a.gpus), jobs=n_jobs, nodes=n_nodes)._asdict()
    return {
        name: grown(old, len(needed[name]), -1 if name == "where" else 0)
        for name, old in a._asdict().items()
        if name not in _BY_THEMSELVES and needed[name].size > old.size
    }
