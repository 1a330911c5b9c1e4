"""Random cases for the engine, with all its features drawn together, and how to run them.

A case is drawn from any `random.Random`: a seeded one, or one that Hypothesis controls and shrinks. Times and bytes are
small round numbers about half of the time, so that many events fall on one instant, and odd ones otherwise.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

import numpy as np

from weft.model.plan import Gate
from weft.network.state import TRANSFER
from weft.sim.engine import Engine, EngineSpec, Usage
from weft.sim.program import NodeSpec, compute_node, make_program, transfer_node
from weft.sim.reference import ReferenceEngine

FEATURES: dict[str, tuple[str, ...]] = {  # drawn in this order; the first value is the absence of the feature
    "skip": ("off", "exact", "estimate"),
    "graph": ("chain", "overlap", "opened"),
    "sharing": ("ideal", "max-min", "k-way"),
    "admission": ("all", "at-most", "ratio"),
    "gate": ("none", "one-off", "periodic", "changed"),
    "gpus": ("own", "shared"),
    "stops": ("none", "stopped", "resized"),
    "chance": ("none", "jitter", "stragglers"),
    "latency": ("none", "some"),
    "demand": ("none", "some"),
}


def thorough(n: int) -> int:
    """How many cases to draw; WEFT_THOROUGH=10 asks for ten times as many."""
    return max(1, int(n * float(os.environ.get("WEFT_THOROUGH", "1"))))


def admissible(a: tuple[str, str], b: tuple[str, str]) -> bool:
    """Whether two features can be had at once.

    Opened transfers exist under max-min sharing only: the other models know no rate of a single flow. What is random,
    or has followers, never repeats exactly, so nothing is skipped there but by estimate.
    """
    pair = {a, b}
    if ("graph", "opened") in pair and pair & {("sharing", "ideal"), ("sharing", "k-way")}:
        return False
    random_or_opened = {("chance", "jitter"), ("chance", "stragglers"), ("graph", "opened")}
    return not (("skip", "exact") in pair and pair & random_or_opened)


def all_pairs() -> set[frozenset[tuple[str, str]]]:
    """Every admissible pair of values of two features."""
    return {
        frozenset(((f, v), (g, w)))
        for f, g in combinations(FEATURES, 2)
        for v, w in product(FEATURES[f], FEATURES[g])
        if admissible((f, v), (g, w))
    }


def draw_features(rng: random.Random, **fixed: str) -> dict[str, str]:
    """One admissible value of every feature."""
    chosen: dict[str, str] = dict(fixed)
    for name, values in FEATURES.items():
        if name not in chosen:
            allowed = [v for v in values if all(admissible((name, v), other) for other in chosen.items())]
            chosen[name] = rng.choice(allowed)
    return {name: chosen[name] for name in FEATURES}


@dataclass(frozen=True)
class Stay:
    """One assignment of a job: attached at `start_s`, detached at `stop_s` unless it finishes before."""

    specs: tuple[NodeSpec, ...]
    start_s: float
    stop_s: float = math.inf


@dataclass(frozen=True)
class JobCase:
    """A job; of several stays the later ones go on with the iterations that are left."""

    iterations: int
    stays: tuple[Stay, ...]
    turn: tuple[float, float] = (0.0, 0.0)
    gate: Gate | None = None
    regate: tuple[float, Gate | None] | None = None  # when the gate is changed, and to what


@dataclass(frozen=True)
class Case:
    """An engine's physics and what is to run on it."""

    spec: EngineSpec
    jobs: tuple[JobCase, ...]
    features: Mapping[str, str] = field(default_factory=dict)


def amount(rng: random.Random) -> float:
    """Seconds or bytes: often one of a few round numbers, so that events coincide."""
    return rng.choice([0.5, 1.0, 1.0, 2.0, round(rng.uniform(0.1, 2.0), 3)])


def draw_case(rng: random.Random, features: Mapping[str, str], iterations: int = 8) -> Case:
    """A case with these features."""
    n_links, n_gpus = rng.randint(1, 4), rng.randint(1, 3)
    k = rng.randint(1, 3)
    chance = features["chance"]
    spec = EngineSpec(
        np.array([rng.choice([1.0, 2.0, 3.0]) for _ in range(n_links)]),
        np.array([rng.random() < 0.8 for _ in range(n_links)], np.bool_),
        n_gpus=n_gpus,
        sharing=features["sharing"],
        b_s_per_byte=0.5 if features["sharing"] == "k-way" else 0.0,
        eta_s_per_byte=0.1 if features["sharing"] == "k-way" else 0.0,
        admission=features["admission"],
        admission_k=k,
        # rising: under a rule that asks less beside two than beside one, a second would let in a third
        admission_ratios=tuple(sorted(rng.choice([0.5, 1.0, 2.5]) for _ in range(k))),
        seed=rng.randint(0, 99),
        jitter=0.1 if chance == "jitter" else 0.0,
        straggle_p=0.3 if chance == "stragglers" else 0.0,
        straggle_x=2.5,
        skip=features["skip"] != "off",
        exact=features["skip"] != "estimate",
        window=2.0,  # few iterations are to be enough for an estimate
        tolerance=0.5,
        budget=rng.choice([0, 1_000_000]),  # paces are computed, or measured
        segments=1 << 14,
    )
    jobs = tuple(_draw_job(rng, features, spec, iterations) for _ in range(rng.randint(2, 5)))
    return Case(spec, jobs, features)


def _draw_job(rng: random.Random, features: Mapping[str, str], spec: EngineSpec, iterations: int) -> JobCase:
    specs = _draw_graph(rng, features, spec)
    start = rng.choice([0.0, 0.0, 1.0, amount(rng)])
    stays = [Stay(specs, start)]
    if features["stops"] != "none" and rng.random() < 0.8:
        after = rng.choice([0.0, 3.0, 6.0, rng.uniform(1.0, 12.0), rng.uniform(1.0, 12.0)])
        stays = [Stay(specs, start, start + after)]
        if features["stops"] == "resized":
            again = stays[0].stop_s + rng.choice([0.0 if stays[0].stop_s > start else 1.0, 1.0, amount(rng)])
            stays.append(Stay(_draw_graph(rng, features, spec), again))
    task = rng.randrange(len(specs))
    gates = {
        "none": None,
        "one-off": Gate(rng.choice([1.0, 2.5, rng.uniform(0, 4)]), 0.0, task),
        "periodic": Gate(rng.choice([0.0, 0.5, rng.uniform(0, 4)]), rng.choice([2.0, 4.0, rng.uniform(1, 5)]), task),
    }
    kind = rng.choice(["none", "one-off", "periodic"]) if features["gate"] == "changed" else features["gate"]
    gate = gates[kind] if rng.random() < 0.8 else None
    regate = None
    if features["gate"] == "changed":
        regate = (start + rng.choice([0.0, 2.0, rng.uniform(0, 6)]), rng.choice([None, gates["periodic"]]))
    turn = (rng.choice([0.0, 1.0, 2.0]), rng.choice([0.0, 1.0, -0.5]))
    return JobCase(rng.randint(max(1, iterations // 2), iterations), tuple(stays), turn, gate, regate)


def _draw_graph(rng: random.Random, features: Mapping[str, str], spec: EngineSpec) -> tuple[NodeSpec, ...]:
    """One iteration: a chain, or a graph in which tasks overlap; opened transfers follow earlier ones."""
    specs: list[NodeSpec] = []
    last_on: dict[int, int] = {}  # a GPU runs one task of a job at a time: the graph must order them
    opened = features["graph"] == "opened"
    for i in range(rng.randint(2, 5)):
        after = set(range(max(0, i - 1), i))
        if opened and i and rng.random() < 0.7:
            after = {0}  # flows of one group start together
        elif features["graph"] != "chain" and i:
            after = {rng.randrange(i) for _ in range(rng.randint(0, 2))}
        if i == 0 or rng.random() < (0.2 if opened else 0.4):
            gpu = rng.randrange(spec.n_gpus) if features["gpus"] == "shared" and rng.random() < 0.8 else -1
            if gpu in last_on and gpu >= 0:
                after.add(last_on[gpu])
            last_on[gpu] = i
            seconds = amount(rng) if i == 0 else rng.choice([0.0, amount(rng), amount(rng)])
            ranks = tuple(range(rng.randint(1, 3)))
            weight = float(len(ranks)) if gpu < 0 else 1.0
            specs.append(compute_node(i, seconds, tuple(sorted(after)), gpu=gpu, weight=weight, ranks=ranks))
        else:
            specs.append(_draw_transfer(rng, features, spec, i, tuple(sorted(after)), specs))
    return tuple(specs)


def _draw_transfer(
    rng: random.Random,
    features: Mapping[str, str],
    spec: EngineSpec,
    i: int,
    after: tuple[int, ...],
    before: list[NodeSpec],
) -> NodeSpec:
    n_links = rng.choice([0, 1, 1, 2, 2, 3])
    links = sorted(rng.sample(range(len(spec.capacity)), min(n_links, len(spec.capacity))))
    leads: tuple[int, ...] = ()
    if features["graph"] == "opened":
        leads = tuple(x for x, s in enumerate(before) if s.kind == TRANSFER and rng.random() < 0.7)
    demand = math.inf
    if features["demand"] == "some" and rng.random() < 0.5:
        demand = rng.choice([1.0, 0.4, rng.uniform(0.2, 2.0)])
    latency = rng.choice([0.0, 0.1, 0.5]) if features["latency"] == "some" else 0.0
    chunk = rng.choice([0.0, 0.3]) if leads else 0.0
    size = rng.choice([0.0, *(amount(rng) for _ in range(7))])
    counted = [(k, rng.choice([1, 1, 2])) for k in links]
    return transfer_node(i, size, counted, after, demand=demand, latency=latency, leads=leads, chunk=chunk)


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
        self.slots: dict[int, tuple[int, int]] = {}  # slot: job, stay
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
            slot = next((k for k, v in self.slots.items() if v == (i, s)), None)
            if action == "start":
                self._start(i, s)
            elif slot is not None and action == "stop":
                self._detach(slot)
            elif slot is not None:
                self.engine.set_gate(slot, self.case.jobs[i].regate[1])  # type: ignore[index]
        self._advance(math.inf)
        for slot in sorted(self.slots, key=self.slots.__getitem__):  # held for ever: those they wait for wait for them
            self._detach(slot)
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
            for slot in finished:
                self._detach(slot)

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
        slot = self.engine.attach(i, program, self.left[i], base=base, gate=gate, turn=job.turn)
        self.slots[slot] = (i, s)

    def _detach(self, slot: int) -> None:
        i, s = self.slots.pop(slot)
        if isinstance(self.engine, ReferenceEngine) and (runs := run_length(self.engine.durations(slot))):
            self.durations.setdefault(i, []).extend(runs)
        usage = self.engine.detach(slot)
        self.usage[i, s], self.ended[i, s] = usage, self.engine.now
        self.left[i] -= usage.iterations
        if isinstance(self.engine, Engine):
            new = self.engine.segments()[self.seen_segments :]
            self.seen_segments += len(new)
            for segment in new.copy():
                mine = next((k for k in [(i, s), *self.slots.values()] if k[0] == segment["uid"]), None)
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


def plain(case: Case) -> Case:
    """The same without skipping."""
    return replace(case, spec=replace(case.spec, skip=False, exact=True))


def map_nodes(case: Case, change: Callable[[NodeSpec], NodeSpec]) -> Case:
    """The same with every task changed."""
    jobs = tuple(
        replace(job, stays=tuple(replace(stay, specs=tuple(map(change, stay.specs))) for stay in job.stays))
        for job in case.jobs
    )
    return replace(case, jobs=jobs)


def without(case: Case, feature: str) -> Case:
    """The same case with one feature taken away."""
    spec = case.spec
    if feature == "sharing":
        return replace(case, spec=replace(spec, sharing="ideal"))
    if feature == "admission":
        return replace(case, spec=replace(spec, admission="all"))
    if feature == "gate":
        return replace(case, jobs=tuple(replace(job, gate=None, regate=None) for job in case.jobs))
    if feature == "stops":
        jobs = tuple(replace(job, stays=(replace(job.stays[0], stop_s=math.inf),)) for job in case.jobs)
        return replace(case, jobs=jobs)
    if feature == "chance":
        return replace(case, spec=replace(spec, jitter=0.0, straggle_p=0.0))
    if feature == "skip":
        return plain(case)
    changes: dict[str, Callable[[NodeSpec], NodeSpec]] = {
        "gpus": lambda s: replace(s, gpu=-1),
        "graph": lambda s: replace(s, leads=(), chunk=0.0),
        "latency": lambda s: replace(s, latency=0.0),
        "demand": lambda s: replace(s, demand=math.inf) if s.links else s,
    }
    return map_nodes(case, changes[feature])


def jostled(case: Case, rng: random.Random, by: float = 1e-13) -> Case:
    """The same with every amount changed a little, each by its own amount."""
    return map_nodes(case, lambda s: replace(s, amount=s.amount * (1.0 + by * rng.uniform(-1.0, 1.0))))


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
    """Whether the plain run of a case stays where it is when every amount moves by 1e-13.

    If not, no two ways of rounding can be asked to agree: contended runs are chaotic (three jobs on a link amplify a
    change by a factor at every meeting), and where two events fall on one instant, an admission or a turn on a GPU
    may go either way.
    """
    links = range(len(case.spec.capacity))
    moved = (run_case(jostled(plain(case), random.Random(seed))) for seed in range(3))
    return not any(differences(other, reference, tolerance, links) for other in moved)
