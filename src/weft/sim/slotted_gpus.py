"""Gpus: where jobs of a slotted simulation compute, if that is more than a fixed time.

GPUs are queues as in the event engine: several jobs on one take turns, task by task, without preemption, by the key
that the order gives them; jitter and stragglers are the same numbers. A job on the network is simulated in slots, its
computing at the very moments: what it computes begins where its last byte came in, within a slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.compiled import load
from weft.network.state import GPU, NODE, grown
from weft.sim.layout import Pool
from weft.sim.program import Program

__all__ = ["Gpus", "Noise"]

_ROOMS = ("network", "network/slots", "sim", "sim/slots")
WORK = np.dtype(
    [
        ("task0", "i8"), ("task1", "i8"), ("left", "i8"), ("base", "i8"),  # base: iterations of earlier assignments
        ("p0", "f8"), ("p1", "f8"), ("gpu_s", "f8"),
    ]
)  # fmt: skip


class Noise(NamedTuple):
    """Jitter and stragglers of a run."""

    seed: int = 0
    jitter: float = 0.0
    straggle_p: float = 0.0
    straggle_x: float = 1.0


class Queues(NamedTuple):
    """What the kernel works on: tasks of all jobs, what a job is at, GPUs, and a heap of what is to come."""

    nodes: npt.NDArray[Any]
    succ: npt.NDArray[np.int32]
    ranks: npt.NDArray[np.int32]
    work: npt.NDArray[Any]
    gpus: npt.NDArray[Any]
    dirty: npt.NDArray[np.int64]
    when: npt.NDArray[np.float64]
    what: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    clock: npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Stay:
    """Where the parts of a job's program lie."""

    program: Program
    at: tuple[int, int, int]  # tasks, successors, ranks


class Gpus:
    """See the module; jobs are known by their place in the engine."""

    def __init__(self, n_gpus: int, noise: Noise | None = None) -> None:
        self.noise = noise or Noise()
        self.kernel = load("weft.sim.slots.gpus_kernel", _ROOMS)
        gpus = np.zeros(n_gpus, GPU)
        gpus["running"] = gpus["head"] = -1
        n = 64 + 64 + n_gpus
        self.queues = Queues(
            np.zeros(64, NODE), np.zeros(64, np.int32), np.zeros(64, np.int32), np.zeros(64, WORK), gpus,
            np.zeros(n_gpus, np.int64), np.zeros(n), np.zeros(n, np.int64), np.zeros(2, np.int64), np.zeros(1),
        )  # fmt: skip
        self._pools = tuple(Pool() for _ in range(3))
        self._stays: dict[int, _Stay] = {}

    def put(self, at: int, program: Program, base: int, turn: tuple[float, float]) -> None:
        """A job that computes so in each of its iterations; it begins when `begin` says so."""
        parts = program.nodes, program.succ, program.ranks
        starts = tuple(pool.take(len(part)) if len(part) else 0 for pool, part in zip(self._pools, parts, strict=True))
        self._make_room(at)
        q = self.queues
        for arena, start, part in zip(q[:3], starts, parts, strict=True):
            arena[start : start + len(part)] = part
        q.work[at] = (starts[0], starts[0] + len(program.nodes), 0, base, *turn, 0.0)
        self._stays[at] = _Stay(program, (starts[0], starts[1], starts[2]))
        self.kernel.put(q, at, starts[1], starts[2])

    def _make_room(self, at: int) -> None:
        q = self.queues
        ends = {name: pool.end for name, pool in zip(("nodes", "succ", "ranks"), self._pools, strict=True)}
        changes: dict[str, Any] = {}
        for name, end in {**ends, "work": at + 1}.items():
            array = getattr(q, name)
            if end > len(array):
                changes[name] = grown(array, max(end, 2 * len(array)))
        q = q._replace(**changes)
        events = len(q.nodes) + len(q.work) + len(q.gpus)  # each of them has at most one
        if events > len(q.when):
            q = q._replace(when=grown(q.when, events), what=grown(q.what, events))
        self.queues = q

    def begin(self, jobs: npt.NDArray[Any], which: npt.NDArray[np.int64]) -> None:
        """These jobs begin their next iteration at the time they carry, unless they are finished."""
        self.kernel.begin(self.queues, jobs, which)

    def advance(
        self, jobs: npt.NDArray[Any], until: float, records: npt.NDArray[Any], n_records: int
    ) -> tuple[int, float]:
        """Compute up to `until`; see the kernel."""
        n, soonest = self.kernel.advance(self.queues, jobs, self.noise, until, records, n_records)
        return int(n), float(soonest)

    def remove(self, at: int, now: float) -> float:
        """Stop a job, or let go of one that has finished; returns the GPU seconds that it has used."""
        self.kernel.stop(self.queues, at, now)
        stay = self._stays.pop(at)
        parts = stay.program.nodes, stay.program.succ, stay.program.ranks
        for pool, start, part in zip(self._pools, stay.at, parts, strict=True):
            if len(part):
                pool.give(start, len(part))
        return float(self.queues.work[at]["gpu_s"])
