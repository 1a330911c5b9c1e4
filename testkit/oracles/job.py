"""What the readable engine keeps of a job: the state of its tasks, random slow-downs, and what a rule sees of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from weft.model.plan import Gate
from weft.policies.pace.rates import Bools, Floats, Ints, Limits
from weft.sim.compiled.state import TRANSFER, UNLIMITED, rate_unit
from weft.sim.engine import EngineSpec
from weft.sim.engine.program import NodeSpec, Program, whole_units

if TYPE_CHECKING:
    from testkit.oracles.engine import ReferenceEngine

_MASK = (1 << 64) - 1


def _mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def slow_factor(spec: EngineSpec, job: int, iteration: int, worker: int) -> float:
    """Jitter and stragglers of one worker in one iteration: a number that depends on nothing else."""
    x = _mix((spec.seed * 0x9E3779B97F4A7C15 + job) & _MASK)
    x = _mix((x + iteration * 0xD6E8FEB86659FD93 + 1) & _MASK)
    x = _mix((x + worker * 0x9E3779B97F4A7C15 + 2) & _MASK)
    total = 0.0
    for i in range(4):
        total += float((x >> 16 * i) & 0xFFFF) + 0.5
    factor = max(1.0 + spec.jitter * ((total / 65536.0 - 2.0) * 1.7320508075688772), 0.05)
    if spec.straggle_p > 0.0 and float(_mix((x + 3) & _MASK) >> 11) / 9007199254740992.0 < spec.straggle_p:
        factor *= spec.straggle_x
    return factor


def task_factor(spec: EngineSpec, job: int, iteration: int, worker: int, task: int) -> float:
    """What one task of a worker adds to that."""
    if spec.task_jitter <= 0.0:
        return 1.0
    x = _mix((spec.seed * 0x9E3779B97F4A7C15 + job) & _MASK)
    for number, factor, salt in (
        (iteration, 0xD6E8FEB86659FD93, 4), (worker, 0x9E3779B97F4A7C15, 5), (task, 0xD6E8FEB86659FD93, 6),
    ):  # fmt: skip
        x = _mix((x + number * factor + salt) & _MASK)
    if spec.uneven:
        u = (float(x >> 11) + 0.5) / 9007199254740992.0
        return max(1.0 + spec.task_jitter * ((u * u * u * u * u - 1.0 / 6.0) * 3.9799497484264799), 0.05)
    total = 0.0
    for i in range(4):
        total += float((x >> 16 * i) & 0xFFFF) + 0.5
    return max(1.0 + spec.task_jitter * ((total / 65536.0 - 2.0) * 1.7320508075688772), 0.05)


@dataclass(eq=False)
class RefNode:
    """A task of a running job. state: pending, gated, queued, latency, active, done."""

    job: RefJob
    spec: NodeSpec
    index: int
    alone: float
    state: str = "pending"
    left: int = 0  # predecessors not done
    event: float = math.inf  # when something happens to it
    seconds: float = 0.0  # how long this run of it takes, jitter included
    began: float = 0.0
    remaining: float = 0.0
    rate: float | None = None
    mark: float = 0.0
    catches: int = -1  # the lead it meets at `event`, or -1 if it ends then
    tight: dict[int, bool] = field(default_factory=dict)  # per lead: may not go faster than it
    row: int = 0  # where a rule finds it
    ruled: bool = False  # a rule says what it may have
    since: float = math.nan  # when it last came under the rule
    demand: int = UNLIMITED  # in whole units: what it may have; `limit` is what it would ask for by itself
    limit: int = UNLIMITED
    claim: int = 1
    level: int = 0
    units: int = 0  # its rate in whole units

    @property
    def is_transfer(self) -> bool:
        return self.spec.kind == TRANSFER

    @property
    def sends(self) -> bool:
        """Whether it is a transfer whose bytes are under way."""
        return self.is_transfer and self.state == "active"

    def bytes_left(self, now: float) -> float:
        """What each flow still has to send."""
        if self.state != "active" or self.rate is None:
            return self.spec.amount
        return self.remaining - self.rate * (now - self.mark)


@dataclass(eq=False)
class RefJob:
    """A running job and what it has booked."""

    uid: int
    program: Program
    total: int
    base: int
    gate: Gate | None
    turn: tuple[float, float]
    nodes: list[RefNode] = field(default_factory=list)
    done: int = 0
    iter_start: float = 0.0
    gate_last: float = math.inf  # when its gate last opened; inf: not yet
    computing: int = 0  # tasks running or queued for a GPU
    sending: int = 0  # transfers running or waiting for admission
    gated: int = 0
    mark: float = 0.0
    comm_s: float = 0.0
    gate_s: float = 0.0
    gpu_s: float = 0.0
    finish: float = 0.0
    adjusted: int = 0
    durations: list[float] = field(default_factory=list)

    @property
    def key(self) -> float:
        """Smallest first."""
        return self.turn[0] + self.turn[1] * (self.total - self.done)


class RefBody:
    """See `weft.sim.engine.ruled.Body`."""

    def __init__(self, engine: ReferenceEngine) -> None:
        self._engine = engine

    def _by_row(self) -> dict[int, RefNode]:
        return {n.row: n for job in self._engine.jobs.values() for n in job.nodes}

    def stirred(self) -> tuple[Ints, Bools, Floats]:
        nodes = sorted(self._by_row().items())
        live = [node.ruled and node.state == "active" for _, node in nodes]
        since = [node.since for _, node in nodes]
        return np.array([row for row, _ in nodes], np.int64), np.array(live, np.bool_), np.array(since, np.float64)

    def sent(self, rows: Ints) -> Floats:
        nodes, now = self._by_row(), self._engine.now
        return np.array([nodes[r].spec.amount - nodes[r].bytes_left(now) for r in rows.tolist()], np.float64)

    def carried(self, rows: Ints, sent: Floats) -> Floats:
        out, nodes = np.array(self._engine.ruled_bytes, np.float64), self._by_row()
        for row, done in zip(rows.tolist(), sent.tolist(), strict=True):
            for link, n in nodes[row].spec.links:
                out[link] += done * n
        return out

    def full(self, rows: Ints) -> Bools:
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
        self._engine.horizon = horizon_s  # `due_s` only saves work, which does not matter here

    def look_again(self, rows: Ints) -> None:
        self._engine.limits_changed()

    def limit(self, rows: Ints, limits: Limits) -> None:
        nodes, unit = self._by_row(), rate_unit(self._engine.spec.capacity)
        ranked = limits.weights is not None or limits.levels is not None
        for row in rows.tolist():
            node = nodes[row]
            node.demand = min(node.limit, whole_units(float(limits.caps[row]), unit))
            if ranked:
                node.claim = 1 if limits.weights is None else int(limits.weights[row])
                node.level = 0 if limits.levels is None else int(limits.levels[row])
        self._engine.limits_changed()
