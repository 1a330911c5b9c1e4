"""Engine: executes attached programs over simulated time. The compiled kernel does the work; this module keeps its
arenas.

The caller attaches a job at the current moment, runs until a time or until a job finishes, detaches. Components of
jobs that influence each other are kept up to date here so that the kernel can skip what repeats.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import EngineError
from weft.model.plan import Gate
from weft.policies.pace.rates import Demand
from weft.sim.compiled import state
from weft.sim.compiled.load import kernel
from weft.sim.compiled.state import Arrays, address_table, allocate, grown, seated_anew
from weft.sim.engine.glance import all_iterations_done, carried, iterations_done, questions
from weft.sim.engine.layout import Layout
from weft.sim.engine.limits import EngineBody
from weft.sim.engine.program import Program
from weft.sim.engine.ruled import Ruled
from weft.sim.engine.spec import BUDGET, EngineSpec, Usage

__all__ = ["BUDGET", "Engine", "EngineSpec", "Usage"]

_SHARING = {"ideal": state.IDEAL, "max-min": state.MAXMIN, "k-way": state.KWAY}
_FIELDS = state.JOB.names or ()
_LISTED = _FIELDS.index("listed")
_used = itemgetter(*map(_FIELDS.index, ("done", "comm_s", "gate_s", "gpu_s", "finish", "adjusted")))
_FEW = 4  # jobs whose iterations are counted one by one at an instant; when more are asked about, all are counted
_ADMIT = {"all": state.ADMIT_ALL, "at-most": state.ADMIT_AT_MOST, "ratio": state.ADMIT_RATIO, "ask": state.ADMIT_ASK}


class Engine:
    """See the module."""

    def __init__(self, spec: EngineSpec) -> None:
        self.spec = spec
        a = allocate(len(spec.capacity), spec.n_gpus)
        # Programs count in parts of flows; a link has room for so many times as much, and carries as many times more.
        a.links["capacity"][: len(spec.capacity)] = spec.capacity * spec.finest
        a.links["port"][: len(spec.capacity)] = spec.ports
        a.links["felt"] = state.UNLIMITED
        a.scalars["unit"] = unit = state.rate_unit(spec.capacity, spec.finest)
        a.links["units"][: len(spec.capacity)] = np.floor(spec.capacity / unit) * spec.finest
        scalars = a.scalars
        scalars["sharing"], scalars["admit"] = _SHARING[spec.sharing], _ADMIT[spec.admission]
        scalars["admit_k"], scalars["exact"] = spec.admission_k, int(spec.exact)
        rule = spec.rule() if spec.rule is not None else None
        # a rule's answers do not repeat
        scalars["skip"] = int(spec.skip and spec.admission != "ask" and rule is None)
        scalars["b"], scalars["eta"] = spec.b_s_per_byte, spec.eta_s_per_byte
        for name in ("seed", "budget", "jitter", "straggle_p", "straggle_x", "task_jitter", "uneven", "window"):
            scalars[name] = getattr(spec, name)
        scalars["horizon"] = scalars["slot_end"] = math.inf
        if spec.segments:
            a = a._replace(segments=np.zeros(spec.segments, state.SEGMENT))
            scalars["segment_max"] = spec.segments
        self._layout = Layout()
        self._use(a._replace(ratios=np.array(spec.admission_ratios or (0.0,), np.float64)))
        self._programs: dict[int, Program] = {}
        self._starts: dict[int, tuple[int, ...]] = {}
        self._to_begin: list[int] = []
        self._early: list[int] = []  # finished while a component was brought up to date
        self._done: list[int] | None = None  # full iterations of every row, as long as nothing changes
        self._asked = 0
        self._kernel, self._park, self._membership = kernel("engine"), kernel("park"), kernel("membership")
        self.ruled: Ruled | None = None
        if rule is not None:
            scalars["rule"] = state.RULE_ENDS if rule.everyone else state.RULE_STARTS
            self.ruled = Ruled(rule, Demand(spec.capacity, spec.seed, spec.packet_loss), EngineBody(self))

    def _use(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._layout.use(arrays)
        self._addresses = address_table(arrays)
        self.table = int(self._addresses.ctypes.data)  # the address of the addresses is all that compiled code needs

    @property
    def now(self) -> float:
        """Current simulated time."""
        return float(self.arrays.scalars["now"])

    @property
    def events(self) -> int:
        """Number of task completions that were simulated one by one (not skipped), and of limits that a rule has
        set."""
        return int(self.arrays.scalars["n_events"]) + (self.ruled.decisions if self.ruled is not None else 0)

    @property
    def iterations(self) -> int:
        """Iterations completed, skipped ones included (parked components as of their last update)."""
        return int(self.arrays.scalars["n_iterations"])

    @property
    def exact(self) -> bool:
        """Whether nothing was extrapolated so far."""
        return int(self.arrays.scalars["n_estimates"]) == 0

    @property
    def estimate_error(self) -> float:
        """Relative disagreement of the measuring windows, averaged over the extrapolated iterations."""
        weight = float(self.arrays.scalars["est_weight"])
        return float(self.arrays.scalars["est_err"]) / weight if weight > 0 else 0.0

    @property
    def estimated(self) -> tuple[float, float]:
        """Shares of all iterations that were not simulated: at a measured pace, and at a computed one (fluid model)."""
        paced, fluid = self.arrays.scalars["paced"], self.arrays.scalars["fluid"]
        return float(paced) / max(1, self.iterations), float(fluid) / max(1, self.iterations)

    def attach(
        self, uid: int, program: Program, iterations: int, *, base: int = 0, gate: Gate | None = None,
        turn: tuple[float, float] = (0.0, 0.0),
    ) -> int:  # fmt: skip
        """Start a job now; returns its row. `base` is the number of iterations it did before (for jitter).

        All that is attached and detached between two runs happens at one instant.
        """
        self._changes()
        row, starts = self._layout.take(program)
        if (larger := self._layout.room(self.arrays)) is not None:
            self._use(larger)
        self._layout.copy_in(row, program, starts)
        self._programs[row], self._starts[row] = program, starts
        self._make_room()
        if len(program.flows):
            self._make_seats(program)
        if gate is not None:
            self._set_gate(row, gate)
        details = (row, uid, iterations, base, float(turn[0]), float(turn[1]))
        if self._membership.attach(self.table, *details, program.serial, starts, program.sizes):
            self._catch_up()
        self._to_begin.append(row)
        if self.ruled is not None:
            self.ruled.attach(starts[0], row, uid, program)
        if len(program.leads):
            self.arrays.scalars["opened"] += 1
        return row

    def detach(self, row: int) -> Usage:
        """Stop a job now (or let go of one that has finished)."""
        self._changes()
        if self.arrays.jobs["state"][row] != state.FINISHED:
            self.catch_up(row)
        a = self.arrays
        if row in self._to_begin:  # it came and leaves at one instant
            self._to_begin.remove(row)
        if a.jobs["state"][row] != state.FINISHED:
            self._kernel.abort(self.table, row)
        job = a.jobs[row].item()  # all fields at once: asked for one by one they take far longer
        if job[_LISTED]:  # it was to begin with the next run
            count = int(a.scalars["n_starters"])
            rest = a.starters[:count][a.starters[:count] != row]
            a.starters[: len(rest)], a.scalars["n_starters"] = rest, len(rest)
        usage = Usage(*_used(job))
        a.jobs["state"][row] = state.FREE
        program, starts = self._programs.pop(row), self._starts.pop(row)
        if self.ruled is not None:
            self.ruled.detach(row)
        if len(program.leads):
            a.scalars["opened"] -= 1
        self._layout.give(row, program, starts)
        return usage

    def run(self, until: float = math.inf, *, go_on: bool = False) -> list[int]:
        """Advance to `until` or to the first instant at which jobs finish; returns their rows.

        With `go_on` it advances to `until` whatever finishes on the way. Rows are to be detached by the caller.
        """
        self._changes()
        self.arrays.scalars["go_on"] = int(go_on)
        for row in self._to_begin:
            self._kernel.begin(self.table, row)
        self._to_begin.clear()
        if self.ruled is not None:
            self.ruled.meet(self.now)
        if self._early:
            early, self._early = self._early, []
            return early
        return self._advance(until)

    def step(self, until: float = math.inf) -> list[int]:
        """Advance to the next instant at which something happens, or to `until`; returns the jobs that finish then."""
        scalars = self.arrays.scalars
        event = float(self.arrays.heap_key[0]) if scalars["n_heap"] else math.inf
        due = math.inf if self.ruled is None else math.nextafter(self.ruled.due, math.inf)
        return self.run(self.now if self._to_begin else min(event, due, until))

    def link_rates(self) -> npt.NDArray[np.float64]:
        """Bytes per second that each link carries now (max-min sharing)."""
        used: npt.NDArray[np.float64] = (
            self.arrays.links["used"][: len(self.spec.capacity)] * self.arrays.scalars["unit"]
        )
        return self._whole(used)

    def on_link(self, link: int) -> dict[int, tuple[float, float]]:
        """Bytes per second of each job that sends over a link now, by uid, and the most that it may have there."""
        a, unit = self.arrays, float(self.arrays.scalars["unit"])
        first, line = int(a.links["seat0"][link]), float(self.spec.capacity[link])
        found: dict[int, tuple[float, float]] = {}
        for seat in a.seats[first : first + int(a.links["count"][link])]:
            node = a.nodes[seat["node"]]
            if node["state"] == state.ACTIVE:
                uid, n = int(a.jobs["uid"][node["job"]]), int(seat["n"]) / self.spec.finest
                rate, asked = found.get(uid, (0.0, 0.0))
                most = min(float(node["demand_units"]) * unit, line)
                found[uid] = rate + n * max(int(node["units"]), 0) * unit, asked + n * most
        return found

    def _make_seats(self, program: Program) -> None:
        """Make sure that the links of a program can move their seats to a block that is twice as large."""
        a = self.arrays
        used = np.zeros(len(a.links), np.bool_)
        used[program.flows["link"]] = True
        need = 4 * int(a.links["attached"][used].sum()) + 8 * len(program.flows)  # a block moves each time it doubles
        if int(a.scalars["n_seats"]) + need > len(a.seats):
            self._use(a._replace(seats=seated_anew(a, need)))

    def _make_room(self) -> None:
        """Make sure that every job can write a record or two."""
        if int(self.arrays.scalars["n_records"]) + 8 * len(self.arrays.jobs) + 64 > len(self.arrays.records):
            self._use(self.arrays._replace(records=grown(self.arrays.records, 2 * len(self.arrays.records))))

    def _advance(self, until: float) -> list[int]:
        self._changes()
        self._make_room()
        finished: list[int] = []
        while True:
            stop = until if self.ruled is None else min(until, self.ruled.due)
            why = self._kernel.run(self.table, stop)
            self.arrays.scalars["in_run"] = 0
            if why == state.ASK:
                self._ask()
                continue
            if self.ruled is not None and why == state.STIRRED:
                self.ruled.stirred(self.now)
                continue
            if count := int(self.arrays.scalars["n_finished"]):
                finished += self.arrays.finished[:count].tolist()
            if self.ruled is not None and why == state.REACHED and stop < until:
                self.ruled.renew(self.now)
                if until < math.inf or not self._is_stuck():
                    continue
            if why != state.RECORDS_FULL:
                if until == math.inf and not finished:
                    self._check_progress()
                return sorted(finished)
            self._use(self.arrays._replace(records=grown(self.arrays.records, 2 * len(self.arrays.records))))

    def _ask(self) -> None:
        """Let the rule say which of the waiting transfers start."""
        assert self.spec.ask is not None
        for x, waiting, beside in questions(self.arrays, self.spec.ports):
            if self.spec.ask(waiting, beside):
                self._kernel.let(self.table, x)

    def sent_bytes(self, row: int) -> float:
        """Bytes that the one transfer of an attached job has sent over each of its links, all iterations together."""
        job = self.arrays.jobs[row]
        rows = np.array([job["node0"]], np.int64)
        return float(job["done"]) * float(self.arrays.nodes["amount"][rows[0]]) + float(EngineBody(self).sent(rows)[0])

    def _check_progress(self) -> None:
        scalars = self.arrays.scalars
        if self.spec.ask and scalars["n_held"] > 0 and scalars["n_heap"] == 0:
            raise EngineError(
                f"the admission rule lets none of {int(scalars['n_held'])} waiting transfers start, and nothing else "
                "will happen: a rule must let a transfer start when nothing runs beside it"
            )

    def _is_stuck(self) -> bool:
        return self.ruled is not None and self.ruled.stuck and int(self.arrays.scalars["n_heap"]) == 0

    def check_rule(self) -> None:
        """Refuse, with the reason, a rule that has let nothing through for a long time when nothing else will happen by
        itself."""
        if self.ruled is not None and self._is_stuck():
            raise EngineError(
                f"the rule {type(self.ruled.rule).__name__} lets nothing through, and nothing else will happen"
            )

    def _catch_up(self) -> None:
        """Simulate what is left of the last period of components that were unparked; it concerns no other job."""
        now = self.now
        while finished := self._advance(now):
            self._early += finished

    def catch_up(self, row: int) -> None:
        """Bring the component of a job up to date with the clock."""
        self._changes()
        self._make_room()
        while self._membership.up_to_date(self.table, row):
            self._catch_up()

    def catch_up_all(self) -> None:
        """Bring every component up to date with the clock."""
        for row in self._programs:
            self.catch_up(row)

    def finish_s(self, row: int) -> float:
        """When a job finished that is not detached yet."""
        return float(self.arrays.jobs[row]["finish"])

    def iterations_done(self, row: int) -> int:
        """Full iterations of an attached job up to now, without disturbing anything."""
        if self._done is None:
            self._asked += 1
            if self._asked <= _FEW:
                return iterations_done(self.arrays, row)
            self._done = all_iterations_done(self.arrays)
        return self._done[row]

    def _changes(self) -> None:
        """Forget how many iterations jobs have done: something is about to change."""
        self._done, self._asked = None, 0

    def carried(self) -> npt.NDArray[np.float64]:
        """Bytes that each link has carried up to now, without disturbing anything."""
        return self._whole(carried(self.arrays, len(self.spec.capacity), self._programs))

    def _whole(self, parts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """What links carry, from what parts of flows carry."""
        return parts / self.spec.finest if self.spec.finest > 1 else parts

    def reroute(self, row: int, program: Program) -> None:
        """Send what an attached job has left, and all that it will send, over other links from now on: those of a
        program that is the same but for its links."""
        self._changes()
        self.catch_up(row)
        if self.arrays.jobs["state"][row] == state.FINISHED:  # it has left its links, perhaps just now
            return
        if (comp := int(self.arrays.jobs[row]["comp"])) >= 0:
            self._park.unpark(self.table, comp, self.now)
        old, starts = self._programs[row], self._starts[row]
        reroute = kernel("reroute")
        reroute.loosen(self.table, row)
        starts = self._layout.exchange(old, starts, program)
        if (larger := self._layout.room(self.arrays)) is not None:
            self._use(larger)
        self._layout.copy_links(self.arrays, program, starts)
        self._programs[row], self._starts[row] = program, starts
        if len(program.flows):
            self._make_seats(program)
        if reroute.fasten(self.table, row):
            self._catch_up()
        if self.ruled is not None:
            self.ruled.reroute(starts[0], program)

    def set_gate(self, row: int, gate: Gate | None) -> None:
        """Change the gate of an attached job; it counts from the next time the task is released."""
        self._changes()
        self.catch_up(row)
        self._set_gate(row, gate)
        if (comp := int(self.arrays.jobs[row]["comp"])) >= 0:
            self._park.unpark(self.table, comp, self.now)
            self._park.reset(self.table, comp)
            self.arrays.comps[comp]["ordered"] = 1  # openings matter now: paces can be measured, not computed

    def records(self) -> npt.NDArray[Any]:
        """Run-length iteration times so far."""
        return self.arrays.records[: int(self.arrays.scalars["n_records"])]

    def segments(self) -> npt.NDArray[Any]:
        """The first tasks, as far as they were recorded."""
        return self.arrays.segments[: int(self.arrays.scalars["n_segments"])]

    def links(self) -> npt.NDArray[Any]:
        """Bytes carried and busy time of each link, those of transfers under way included, once all is up to date."""
        links = self.arrays.links[: len(self.spec.capacity)].copy()
        open_ = links["flowing"] > 0
        links["busy"][open_] += self.now - links["mark"][open_]
        links["bytes"] = self.carried()
        return links

    def _set_gate(self, row: int, gate: Gate | None) -> None:
        job = self.arrays.jobs[row]
        job["gate_last"] = math.inf
        job["gate_task"] = -1 if gate is None else gate.task
        if gate is not None:
            job["gate_epoch"], job["gate_period"], job["gate_tol"] = gate.epoch_s, gate.period_s, gate.tolerance
