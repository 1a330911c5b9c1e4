"""SlottedEngine: sharing "scheduled", where a pace sets the rate of every flow, slot by slot.

It stands in the simulated world where the event engine stands otherwise. An iteration computes, then sends; flows that
are ready join at the next slot; bytes are conserved, and an iteration ends in the middle of a slot if its last byte
does. A job that is stopped in a slot loses what it would have sent in it. Computing takes a fixed time, or goes through
queues of GPUs (slotted_gpus.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.compiled import load
from weft.model.flow_set import FlowRows, flow_set
from weft.model.plan import Gate
from weft.network import state
from weft.pace.rates import Carried, Demand, RateRule
from weft.sim.engine import Usage
from weft.sim.foreign import Others
from weft.sim.program import Program
from weft.sim.slotted_gpus import Gpus

__all__ = ["Iteration", "SlotView", "SlottedEngine"]

JOB = np.dtype(
    [
        ("state", "i4"), ("uid", "i8"), ("low", "i8"), ("high", "i8"), ("done", "i8"), ("total", "i8"),
        ("compute_s", "f8"), ("gpu_s", "f8"), ("began", "f8"), ("ready", "f8"), ("finish", "f8"), ("comm_s", "f8"),
        ("gate_s", "f8"), ("gated", "i4"), ("gate_used", "i4"), ("gate_epoch", "f8"), ("gate_period", "f8"),
        ("gate_tol", "f8"), ("gate_last", "f8"), ("adjusted", "i8"), ("computed", "i4"),
    ]
)  # fmt: skip
_FREE, _COMPUTING, _SENDING, _FINISHED = 0, 1, 2, 3
_EMPTY = np.zeros(0, state.SEGMENT)


@dataclass(frozen=True)
class Iteration:
    """What a job does again and again: compute, then send these flows. `tasks` are its computing where GPUs are queues
    or chance slows them."""

    compute_s: float
    gpu_s: float
    flows: FlowRows
    tasks: Program | None = None


@dataclass(frozen=True)
class SlotView:
    """A slot that has just passed, for who watches: nothing may be changed through it."""

    slot: int
    start_s: float
    live: npt.NDArray[np.int64]
    asked: npt.NDArray[np.float64]
    engine: SlottedEngine


class SlottedEngine:
    """See the module; what the world calls is what it calls of the event engine."""

    exact = True
    estimated = (0.0, 0.0)  # nothing is extrapolated
    estimate_error = 0.0

    def __init__(
        self,
        capacity: npt.NDArray[np.float64],
        rule: RateRule,
        *,
        seed: int = 0,
        packet_loss: float = 0.0,
        foreign: Others | None = None,
        gpus: Gpus | None = None,
        watch: Callable[[SlotView], None] | None = None,
    ) -> None:
        self.capacity, self.rule, self.watch = capacity, rule, watch
        self.packet_loss, self.foreign, self.gpus = packet_loss, foreign, gpus
        self.now = 0.0
        self.events = 0
        self.iterations = 0
        self.jobs = np.zeros(64, JOB)
        n_foreign = len(foreign) if foreign is not None else 0
        self.flows = flow_set(256 + n_foreign, 1)
        self._their_paths: dict[int, tuple[int, ...]] = {}
        self.foreign_bytes = np.zeros(n_foreign)  # of each, in slots in which a job of ours sends
        self.kernel = load("weft.network.slots.scheduled_kernel", ("network/slots",))
        n = len(capacity)
        self._load, self._carried, self._bytes, self._busy = (np.zeros(n) for _ in range(4))
        self._records = np.zeros(4096, state.RECORD)
        self._n_records = self._n_jobs = self._n_flows = 0
        self._slot = 0  # the next slot to simulate
        self._spare: dict[int, list[int]] = {}
        self._finished: list[int] = []
        self._said: set[int] = set()
        rule.begin(Demand(capacity, seed, packet_loss))
        self._n_flows = n_foreign

    def attach(
        self, uid: int, work: Iteration, iterations: int, *, base: int = 0, gate: Gate | None = None,
        turn: tuple[float, float] = (0.0, 0.0),
    ) -> int:  # fmt: skip
        """Start a job now; returns its slot."""
        free = np.flatnonzero(self.jobs[: self._n_jobs]["state"] == _FREE)
        at = int(free[0]) if len(free) else self._n_jobs
        self._n_jobs = max(self._n_jobs, at + 1)
        if at >= len(self.jobs):
            self.jobs = np.concatenate([self.jobs, np.zeros(len(self.jobs), JOB)])
        low = self._lay_out(at, uid, work.flows)
        self.jobs[at] = np.zeros((), JOB)
        job = self.jobs[at]
        job["uid"], job["total"], job["low"], job["high"] = uid, iterations, low, low + len(work.flows)
        job["compute_s"], job["gpu_s"], job["began"] = work.compute_s, work.gpu_s, self.now
        self._set_gate(at, gate)
        if self.gpus is not None:
            assert work.tasks is not None
            job["compute_s"] = math.inf  # they say when it is over
            self.gpus.put(at, work.tasks, base, turn)
        self.kernel.begin_job(self.jobs, at)
        if self.gpus is not None:
            self.gpus.begin(self.jobs, np.array([at]))
        return at

    def detach(self, at: int) -> Usage:
        """Stop a job now, or let go of one that has finished."""
        job = self.jobs[at]
        low, high = int(job["low"]), int(job["high"])
        comm_s, part = float(job["comm_s"]), 0.0
        if job["state"] != _FINISHED:
            part = min(max(self.now - float(job["began"]), 0.0) / max(float(job["compute_s"]), 1e-300), 1.0)
            comm_s += max(self.now - float(job["ready"]), 0.0)
        gpu_s = (int(job["done"]) + part) * float(job["gpu_s"])
        if self.gpus is not None:
            gpu_s = self.gpus.remove(at, self.now)
        usage = Usage(
            int(job["done"]), comm_s, float(job["gate_s"]), gpu_s, float(job["finish"]), int(job["adjusted"])
        )  # fmt: skip
        self.flows.active[low:high] = False
        self._over(low, high)
        job["state"] = _FREE
        self._said.discard(at)
        if high > low:
            self._spare.setdefault(high - low, []).append(low)
        return usage

    def run(self, until: float = math.inf) -> list[int]:
        """Advance to `until`, or to the end of the first slot in which jobs finish; returns their slots."""
        s = self.rule.slot_s
        while True:
            if finished := self._newly_finished():
                return finished
            if self._slot * s > until:  # nothing is to be done before a slot that is still to come
                self.now = max(self.now, until)
                return []
            soonest = self._wake()
            if finished := self._newly_finished():
                return finished
            if not np.any(self.jobs[: self._n_jobs]["state"] == _SENDING):
                if soonest == math.inf or soonest > until:
                    self.now = max(self.now, until) if until < math.inf else self.now
                    return []
                self.now = max(self.now, soonest)
                self._slot = max(self._slot, math.ceil(self.now * (1.0 - 1e-13) / s - 1e-9))
                if self._slot * s > until:
                    self.now = until
                    return []
                self.now = max(self.now, self._slot * s)
                continue
            if (self._slot + 1) * s > until:
                self.now = until
                return []
            self._step()
            self.now = self._slot * s

    def _wake(self) -> float:
        """Compute up to the start of the next slot, and begin to send what has computed by then."""
        at = self._slot * self.rule.slot_s
        by = at + 2e-9 * self.rule.slot_s + 1e-12 * at
        next_task, gpus = math.inf, self.gpus
        if gpus is not None:
            next_task = self._with_room(lambda n: gpus.advance(self.jobs, by, self._records, n))
        return min(next_task, self._with_room(lambda n: self._send(by, n)))

    def _send(self, by: float, n_records: int) -> tuple[int, float]:
        f = self.flows
        n, soonest = self.kernel.wake(self.jobs, self._n_jobs, by, f.sent, f.active, self._records, n_records)
        return int(n), float(soonest)

    def _with_room(self, advance: Callable[[int], tuple[int, float]]) -> float:
        """Have something advance that writes records; it says -1 when they are full."""
        while True:
            n, soonest = advance(self._n_records)
            if n >= 0:
                self._count(n)
                return soonest
            # iterations without traffic have filled the records: those written are kept, the rest is done again
            self._count(len(self._records))
            self._make_room()

    def _count(self, n: int) -> None:
        self.iterations += n - self._n_records
        self._n_records = n

    def _make_room(self) -> None:
        if self._n_records + self._n_jobs + 64 > len(self._records):
            self._records = np.concatenate([self._records, np.zeros(len(self._records), state.RECORD)])

    def _step(self) -> None:
        """One slot: rates, what the links carry of them, who is done."""
        self._make_room()
        f, rule, s = self.flows, self.rule, self.rule.slot_s
        start_s = self._slot * s
        live = np.flatnonzero(f.active)
        self.events += len(live)
        asked = rule.decide(self._slot, f, live)
        got, full, theirs = self._shared(asked, live, start_s)
        f = self.flows  # a foreign path may have widened it
        if rule.fills:
            got = self._filled(got, live, theirs)
        end, over = np.empty(len(f)), np.empty(self._n_jobs, np.int64)
        good = rule.goodput * (1.0 - self.packet_loss)
        n, n_over = self.kernel.carry(
            self.jobs, self._n_jobs, start_s, s, good, rule.start_after, f.path, f.feed0, f.feed1, f.size, f.chunk,
            f.sent, f.rate, f.active, got, end, self._carried, self._bytes, self._busy, self._records,
            self._n_records, over,
        )  # fmt: skip
        self._count(n)
        full &= self._carried + theirs >= self.capacity * (1.0 - 1e-6)  # not if those who asked had nothing to send
        rule.carried(self._slot, f, live, Carried(self._carried, full, self.packet_loss))
        if self.watch is not None:
            self.watch(SlotView(self._slot, start_s, live, asked, self))
        if self.gpus is not None:
            self.gpus.begin(self.jobs, over[:n_over])
        for j in over[:n_over]:
            self._over(int(self.jobs[j]["low"]), int(self.jobs[j]["high"]))
        self._slot += 1

    def _shared(
        self, asked: npt.NDArray[np.float64], live: npt.NDArray[np.int64], start_s: float
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
        """What the links carry of what is asked for, which are asked for too much, and what foreign flows take."""
        theirs = np.zeros(len(self.capacity))
        there = self._others(start_s, asked) if self.foreign is not None else ()
        f = self.flows
        everyone = np.concatenate([np.array(there, np.int64), live]) if there else live
        self.kernel.demand(everyone, f.path, asked, self._load)
        full = self._load > self.capacity * (1.0 + 1e-9)
        got = asked
        if full.any():
            got = np.zeros(len(f))
            self.kernel.fill(everyone, f.path, asked, self.capacity, got)
        if there:
            self.kernel.demand(np.array(there, np.int64), f.path, got, theirs)
            self.foreign_bytes[list(there)] += got[list(there)] * self.rule.slot_s
            # a link that gives us all we ask for is not full for us, however little it gives the others
            wanted, given = np.zeros(len(self.capacity)), np.zeros(len(self.capacity))
            self.kernel.demand(live, f.path, asked, wanted)
            self.kernel.demand(live, f.path, got, given)
            full &= wanted > given * (1.0 + 1e-9)
        return got, full, theirs

    def _filled(
        self, got: npt.NDArray[np.float64], live: npt.NDArray[np.int64], theirs: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        """Rates with what the links have left on top, shared max-min among our flows up to the rate of their lines."""
        f = self.flows
        self.kernel.demand(live, f.path, got, self._load)
        more = np.zeros(len(f))
        room = np.maximum(self.capacity - self._load - theirs, 0.0)
        self.kernel.fill(live, f.path, np.maximum(f.line - got[: len(f)], 0.0), room, more)
        return got + more

    def _others(self, start_s: float, asked: npt.NDArray[np.float64]) -> list[int]:
        """Foreign flows of this slot: their rows, with what they ask for in `asked` and their paths in place."""
        assert self.foreign is not None
        there = []
        for k, path, rate in self.foreign.at(start_s):
            f = self.flows
            if len(path) > f.path.shape[1]:
                self.flows = f = f.grown(len(f), len(path))
            if self._their_paths.get(k) is not path:
                self._their_paths[k] = path
                f.put(k, -1, FlowRows((0,), (0,), (path,), (math.inf,), (0.0,), ((0, 0),), ((0, 0),)), self.capacity)
            asked[k] = min(rate, f.line[k])
            there.append(k)
        return there

    def _over(self, low: int, high: int) -> None:
        """Flows have ended; what they reached last is no business of the next iteration."""
        self.flows.rate[low:high] = 0.0
        self.rule.over(low, high, self.flows)

    def _newly_finished(self) -> list[int]:
        done = np.flatnonzero(self.jobs[: self._n_jobs]["state"] == _FINISHED)
        new = [int(j) for j in done if int(j) not in self._said]
        self._said.update(new)
        return new

    def _lay_out(self, at: int, uid: int, rows: FlowRows) -> int:
        n = len(rows)
        if n == 0:
            return 0
        spare = self._spare.get(n)
        low = spare.pop() if spare else self._n_flows
        if not spare and low == self._n_flows:
            self._n_flows += n
        width = max(map(len, rows.paths))
        if self._n_flows > len(self.flows) or width > self.flows.path.shape[1]:
            room = max(2 * len(self.flows), self._n_flows) if self._n_flows > len(self.flows) else len(self.flows)
            self.flows = self.flows.grown(room, width)
        self.flows.put(low, at, rows, self.capacity, uid)
        return low

    def finish_s(self, at: int) -> float:
        """When a job that has finished did so."""
        return float(self.jobs[at]["finish"])

    def iterations_done(self, at: int) -> int:
        """Full iterations of an attached job."""
        return int(self.jobs[at]["done"])

    def set_gate(self, at: int, gate: Gate | None) -> None:
        """Change the gate of a job; it counts from the next time the job has computed."""
        self._set_gate(at, gate)

    def _set_gate(self, at: int, gate: Gate | None) -> None:
        job = self.jobs[at]
        job["gated"], job["gate_used"], job["gate_last"] = gate is not None, 0, math.inf
        if gate is not None:
            job["gate_epoch"], job["gate_period"], job["gate_tol"] = gate.epoch_s, gate.period_s, gate.tolerance

    def catch_up_all(self) -> None:
        """Nothing is ever behind."""

    def records(self) -> npt.NDArray[Any]:
        """Iteration times so far."""
        return self._records[: self._n_records]

    def segments(self) -> npt.NDArray[Any]:
        """Single tasks are not recorded."""
        return _EMPTY

    def carried(self) -> npt.NDArray[np.float64]:
        """Bytes that each link has carried, up to the last slot."""
        return np.array(self._bytes, np.float64)

    def links(self) -> npt.NDArray[Any]:
        """Bytes carried and busy time of each link, up to the last slot."""
        links = np.zeros(len(self.capacity), state.LINK)
        links["capacity"], links["bytes"], links["busy"] = self.capacity, self._bytes, self._busy
        return links
