"""How the cases of cases.py are run, on the kernel or on its readable twin, and how two runs are compared."""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from testkit.oracles.engine import ReferenceEngine
from tests.sim.cases import Case, jostled, plain
from weft.sim.engine import Engine, EngineSpec, Usage
from weft.sim.engine.program import make_program


@dataclass
class Outcome:
    """What a run of a case left behind."""

    usage: dict[tuple[int, int], Usage]  # by job and stay
    ended_s: dict[tuple[int, int], float]  # when each stay ended
    done: set[int]  # jobs that finished
    durations: dict[int, list[tuple[float, float]]]  # run-length iteration times of each job
    bytes: list[float]
    busy: list[float]
    now: float
    iterations: int  # in all
    segments: dict[tuple[int, int], Any] = field(default_factory=dict)  # of each stay (kernel only)
    events: int = 0
    exact: bool = True

    def finish_s(self) -> dict[int, float]:
        """When each job finished."""
        return {i: u.finish_s for (i, _), u in self.usage.items() if u.finish_s > 0}

    def physics(self) -> tuple[Any, ...]:
        """All that the kernel and its readable twin must agree on."""
        return (self.usage, self.ended_s, self.done, self.durations, self.bytes, self.busy, self.now, self.iterations)


Make = Callable[[EngineSpec], Any]


class _Driver:
    """Attaches, stops, resumes and gates the jobs of a case at their times."""

    def __init__(self, case: Case, make: Make) -> None:
        self.case, self.engine = case, make(case.spec)
        self.rows: dict[int, tuple[int, int]] = {}  # row: job, stay
        self.left = [job.iterations for job in case.jobs]
        self.usage: dict[tuple[int, int], Usage] = {}
        self.ended: dict[tuple[int, int], float] = {}
        self.durations: dict[int, list[tuple[float, float]]] = {}
        self.segments: dict[tuple[int, int], Any] = {}
        self.seen_segments = 0

    def run(self) -> Outcome:
        for when, number, action, i, s in self._agenda():
            if when > self.engine.now or number % 3 == 0:  # much may happen at one instant between two runs
                self._advance(when)
            row = next((k for k, v in self.rows.items() if v == (i, s)), None)
            if action == "start":
                self._start(i, s)
            elif row is not None and action == "stop":
                self._detach(row)
            elif row is not None:
                self.engine.set_gate(row, self.case.jobs[i].regate[1])  # type: ignore[index]
        self._advance(math.inf)
        for row in sorted(self.rows, key=self.rows.__getitem__):  # held for ever: those they wait for wait for them
            self._detach(row)
        return self._outcome()

    def _agenda(self) -> Iterable[tuple[float, int, str, int, int]]:
        """(time, number, action, job, stay); at one instant stops come before starts, as a scheduler does it.

        A job may also be stopped at the very instant at which it started, and start again elsewhere.
        """
        entries: list[tuple[float, int, str, int, int]] = []
        for i, job in enumerate(self.case.jobs):
            for s, stay in enumerate(job.stays):
                entries.append((stay.start_s, 1, "start", i, s))
                if stay.stop_s < math.inf:
                    entries.append((stay.stop_s, 0 if stay.stop_s > stay.start_s else 3, "stop", i, s))
            if job.regate is not None:
                entries.append((job.regate[0], 2, "gate", i, 0))
        entries.sort()
        return [(when, n, action, i, s) for n, (when, _, action, i, s) in enumerate(entries)]

    def _advance(self, until: float) -> None:
        while finished := self.engine.run(until):
            for row in finished:
                self._detach(row)

    def _start(self, i: int, s: int) -> None:
        job, spec = self.case.jobs[i], self.case.spec
        if self.left[i] == 0:
            return
        kway_b = spec.b_s_per_byte if spec.sharing == "k-way" else None
        program = make_program(job.stays[s].specs, spec.capacity, kway_b=kway_b)
        base = job.iterations - self.left[i]
        gate = job.gate
        if gate is not None and gate.task >= len(job.stays[s].specs):
            gate = replace(gate, task=0)
        row = self.engine.attach(i, program, self.left[i], base=base, gate=gate, turn=job.turn)
        self.rows[row] = (i, s)

    def _detach(self, row: int) -> None:
        i, s = self.rows.pop(row)
        if isinstance(self.engine, ReferenceEngine) and (runs := run_length(self.engine.durations(row))):
            self.durations.setdefault(i, []).extend(runs)
        usage = self.engine.detach(row)
        self.usage[i, s], self.ended[i, s] = usage, self.engine.now
        self.left[i] -= usage.iterations
        if isinstance(self.engine, Engine):
            new = self.engine.segments()[self.seen_segments :]
            self.seen_segments += len(new)
            for segment in new.copy():
                mine = next((k for k in [(i, s), *self.rows.values()] if k[0] == segment["uid"]), None)
                self.segments.setdefault(mine or (int(segment["uid"]), -1), []).append(segment)

    def _outcome(self) -> Outcome:
        engine = self.engine
        done = {i for i, left in enumerate(self.left) if left == 0}
        if isinstance(engine, ReferenceEngine):
            total = sum(u.iterations for u in self.usage.values())
            busy = engine.link_busy()
            return Outcome(self.usage, self.ended, done, self.durations, engine.bytes, busy, engine.now, total)
        links, records = engine.links(), engine.records()
        for i in range(len(self.case.jobs)):
            mine = records[records["uid"] == i]
            if len(mine):
                self.durations[i] = [(float(r["duration"]), float(r["count"])) for r in mine]
        return Outcome(
            self.usage, self.ended, done, self.durations, links["bytes"].tolist(), links["busy"].tolist(), engine.now,
            engine.iterations, self.segments, engine.events, engine.exact,
        )  # fmt: skip


def run_length(durations: list[float]) -> list[tuple[float, float]]:
    """Iteration times as the engine keeps them: one entry as long as they stay within 1e-12 of its first."""
    runs: list[tuple[float, float]] = []
    for d in durations:
        if runs and abs(d - runs[-1][0]) <= 1e-12 * runs[-1][0]:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1.0)
        else:
            runs.append((d, 1.0))
    return runs


def run_case(case: Case, make: Make = Engine) -> Outcome:
    """Run a case on the kernel, or on its readable twin."""
    return _Driver(case, make).run()


def differences(a: Outcome, b: Outcome, tolerance: float, links: Iterable[int]) -> dict[str, tuple[float, float]]:
    """Where two runs of a case disagree by more than a relative tolerance; busy times are compared on `links` only."""
    scale = 1.0 + max(a.now, b.now)
    pairs: dict[str, tuple[float, float]] = {}
    for key in {*a.usage, *b.usage}:
        u, v = a.usage.get(key), b.usage.get(key)
        if u is None or v is None:
            return {f"stay {key}": (math.nan, math.nan)}
        for name in ("iterations", "comm_s", "gate_s", "gpu_s", "finish_s", "adjusted"):
            pairs[f"{name} of {key}"] = (getattr(u, name) / scale, getattr(v, name) / scale)
    for k, (x, y) in enumerate(zip(a.bytes, b.bytes, strict=True)):
        pairs[f"bytes over {k}"] = (x / (1.0 + y), y / (1.0 + y))
    for k in links:
        pairs[f"busy of {k}"] = (a.busy[k] / scale, b.busy[k] / scale)
    for i in range(max([*a.durations, *b.durations], default=-1) + 1):
        runs, others = a.durations.get(i, []), b.durations.get(i, [])
        for power in (0, 1, 2):  # how many iterations, how long in all, how spread
            sums = [sum(n * d**power for d, n in r) for r in (runs, others)]
            pairs[f"iteration times of {i}, power {power}"] = (sums[0] / scale**power, sums[1] / scale**power)
    return {name: (x, y) for name, (x, y) in pairs.items() if not abs(x - y) <= tolerance}


def lone_links(case: Case) -> list[int]:
    """Links that one job alone uses."""
    users: dict[int, set[int]] = {}
    for i, job in enumerate(case.jobs):
        for stay in job.stays:
            for spec in stay.specs:
                for k, _ in spec.links:
                    users.setdefault(k, set()).add(i)
    return [k for k, jobs in users.items() if len(jobs) == 1]


def well_posed(case: Case, reference: Outcome, tolerance: float = 1e-10) -> bool:
    """Whether the plain run of a case stays where it is when every amount, latency and gate moves by 1e-13.

    If not, no two ways of rounding can be asked to agree: contended runs are chaotic (three jobs on a link amplify a
    change by a factor at every meeting), and where two events fall on one instant, an admission or a turn on a GPU
    may go either way.
    """
    links = range(len(case.spec.capacity))
    moved = (run_case(jostled(plain(case), random.Random(seed))) for seed in range(20))
    return not any(differences(other, reference, tolerance, links) for other in moved)
