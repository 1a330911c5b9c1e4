"""GPUs beside slots: queues as in the event engine, to the last bit; none idle while a task waits; times by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.test_slotted import CAPACITY, ring, servers
from weft.model.flow_set import FlowRows
from weft.model.plan import Gate
from weft.network.state import ACTIVE, DONE
from weft.pace.equal import EqualRule
from weft.pace.flow import FlowRule
from weft.pace.rates import RateRule
from weft.sim.engine import EngineSpec, Usage
from weft.sim.program import NodeSpec, compute_node, make_program
from weft.sim.reference import ReferenceEngine
from weft.sim.slotted import Iteration, SlottedEngine, SlotView
from weft.sim.slotted_gpus import Gpus, Noise

NOTHING = FlowRows((), (), (), (), (), (), ())
N_GPUS = 4
SLOT_S = 0.0625  # a power of two: what happens at the start of a slot happens there in both engines


class Fine(EqualRule):
    """Equal shares in slots of a given length."""

    def __init__(self, slot_s: float = SLOT_S) -> None:
        self.slot_s = slot_s


@dataclass(frozen=True)
class Stay:
    """A job from when it starts to when it has finished, or is stopped."""

    uid: int
    specs: tuple[NodeSpec, ...]
    iterations: int
    start_s: float
    stop_s: float
    turn: tuple[float, float]
    base: int = 0
    flows: FlowRows = NOTHING


def draw_stay(rng: random.Random, uid: int, grid_s: float, shared: bool = True) -> Stay:
    """Two or three tasks on each of one to three workers, some of which wait for all workers."""
    workers = rng.sample(range(N_GPUS), rng.randint(1, 3))
    specs: list[NodeSpec] = []
    before: list[tuple[int, ...]] = [()] * len(workers)
    for task in range(rng.randint(1, 3)):
        seconds = rng.choice([0, 32, 100, 256, rng.randint(10, 300)]) / 1024  # sums are exact, and many are equal
        barrier = tuple(range(len(specs))) if rng.random() < 0.3 else None
        now = []
        for rank, gpu in enumerate(workers):
            after = before[rank] if barrier is None else barrier
            lane = {"gpu": gpu, "ranks": (rank,)} if shared else {"ranks": (rank, rank + 3), "weight": 2.0}
            specs.append(compute_node(task, seconds, after, **lane))  # type: ignore[arg-type]
            now.append((len(specs) - 1,))
        before = now
    start_s = rng.randint(0, 12) * grid_s
    stop_s = start_s + rng.randint(1, 20) * grid_s if rng.random() < 0.3 else math.inf
    turn = (rng.choice([0.0, 1.0, 2.0]), rng.choice([0.0, 1.0]))
    return Stay(uid, tuple(specs), rng.randint(1, 6), start_s, stop_s, turn, rng.randint(0, 5))


@dataclass
class Played:
    """What became of stays: usage, and when each was let go."""

    usage: dict[int, Usage] = field(default_factory=dict)
    left_s: dict[int, float] = field(default_factory=dict)


def drive(engine: Any, stays: list[Stay], attach: Any, leave: Any = lambda *_: None) -> Played:
    """Start and stop jobs at their times, stops first, and run them to their end."""
    played, slots = Played(), {}

    def let_go(slot: int) -> None:
        stay = slots.pop(slot)
        leave(slot, stay)
        played.left_s[stay.uid] = engine.now
        played.usage[stay.uid] = engine.detach(slot)

    agenda = sorted(
        [(s.stop_s, 0, s.uid) for s in stays if s.stop_s < math.inf] + [(s.start_s, 1, s.uid) for s in stays]
    )
    for when, starts, uid in [*agenda, (math.inf, 2, -1)]:
        while finished := engine.run(when if when < math.inf else 1e6):
            for slot in finished:
                let_go(slot)
        if starts == 1:
            slots[attach(engine, stays[uid])] = stays[uid]
        elif starts == 0:
            for slot in [k for k, stay in slots.items() if stay.uid == uid]:
                let_go(slot)
    assert not slots, f"stuck at {engine.now}"
    return played


def to_reference(engine: ReferenceEngine, stay: Stay) -> int:
    program = make_program(stay.specs, np.ones(1))
    return engine.attach(stay.uid, program, stay.iterations, base=stay.base, turn=stay.turn)


def to_slotted(engine: SlottedEngine, stay: Stay) -> int:
    work = Iteration(0.0, 0.0, stay.flows, make_program(stay.specs, np.ones(1)))
    return engine.attach(stay.uid, work, stay.iterations, base=stay.base, turn=stay.turn)


@given(st.randoms(use_true_random=False), st.sampled_from([Noise(), Noise(3, 0.2, 0.1, 4.0)]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_queues_are_those_of_the_event_engine(rng: random.Random, noise: Noise, shared: bool) -> None:
    """Without a network: who runs when, stops in between and chance included, is the same to the last bit; a finish
    that falls into a slot is told at its end. (Stops are at starts of slots: within one they are known to the slot.)"""
    stays = [draw_stay(rng, uid, SLOT_S, shared) for uid in range(rng.randint(1, 6))]
    spec = EngineSpec(
        np.ones(1), np.ones(1, np.bool_), n_gpus=N_GPUS, seed=noise.seed, jitter=noise.jitter,
        straggle_p=noise.straggle_p, straggle_x=noise.straggle_x,
    )  # fmt: skip
    twin = drive(ReferenceEngine(spec), stays, to_reference)
    engine = SlottedEngine(np.ones(1), Fine(), gpus=Gpus(N_GPUS, noise))
    ours = drive(engine, stays, to_slotted)
    for uid, usage in twin.usage.items():
        mine = ours.usage[uid]
        assert (mine.iterations, mine.finish_s) == (usage.iterations, usage.finish_s)
        assert mine.gpu_s == pytest.approx(usage.gpu_s, rel=1e-12)
        assert 0.0 <= ours.left_s[uid] - twin.left_s[uid] <= SLOT_S
    assert engine.iterations == sum(usage.iterations for usage in twin.usage.values())


class Watch:
    """Every task that ran on a GPU, seen from outside: in every slot, and when a job leaves."""

    def __init__(self, stays: list[Stay]) -> None:
        self.stays = stays
        self.runs: dict[tuple[int, int, float], tuple[int, float]] = {}  # (job, task, from): GPU, to
        self.engine: SlottedEngine | None = None

    def __call__(self, view: SlotView) -> None:
        self.look(view.engine)
        assert (view.engine._carried <= CAPACITY * (1 + 1e-6)).all()

    def left(self, slot: int, stay: Stay) -> None:
        """Look once more at a job that is about to be let go."""
        assert self.engine is not None
        self.look(self.engine)

    def look(self, engine: SlottedEngine) -> None:
        assert engine.gpus is not None
        q = engine.gpus.queues
        for slot, job in enumerate(engine.jobs[: engine._n_jobs]):
            if job["state"] == 0:
                continue
            first = int(q.work[slot]["task0"])
            for i in range(len(self.stays[job["uid"]].specs)):
                node = q.nodes[first + i]
                if node["state"] in (ACTIVE, DONE):
                    began = float(node["began"])
                    key = int(job["uid"]), i, began
                    self.runs[key] = int(node["gpu"]), began + float(node["remaining"])

    def by_gpu(self, played: Played) -> dict[int, list[tuple[float, float, int, int]]]:
        """(from, to, job, task) on each GPU; a stopped job's end where it was stopped."""
        busy: dict[int, list[tuple[float, float, int, int]]] = {}
        for (uid, i, began), (gpu, end) in self.runs.items():
            busy.setdefault(gpu, []).append((began, min(end, played.left_s[uid]), uid, i))
        return {gpu: sorted(runs) for gpu, runs in busy.items()}


EPS = 1e-7


def check_one_at_a_time(busy: list[tuple[float, float, int, int]]) -> None:
    for (_, end, *_), (began, *_) in pairwise(busy):
        assert end <= began + EPS


def ready_s(watch: Watch, starts: list[float], uid: int, i: int, began: float) -> float:
    """When a task could have run: its iteration had begun, and the tasks before it were done."""
    begun = max(s for s in starts if s <= began + EPS)
    mine = {(k, b): end for (u, k, b), (_, end) in watch.runs.items() if u == uid and begun - EPS <= b <= began + EPS}
    before = [end for p in watch.stays[uid].specs[i].after for (k, _), end in mine.items() if k == p]
    return max([begun, *before])


def check_nobody_waits_for_an_idle_gpu(
    watch: Watch, starts: dict[int, list[float]], busy: list[tuple[float, float, int, int]]
) -> None:
    for began, _, uid, i in busy:
        at = ready_s(watch, starts[uid], uid, i, began)
        for since, end, *_ in busy:  # walk along what ran meanwhile
            if since <= at + EPS and end > at:
                at = end
            if at >= began - EPS:
                break
        assert at >= began - EPS, f"job {uid} task {i} waited from {at} to {began} for a GPU that was idle"


def draw_flows(rng: random.Random) -> FlowRows:
    size = rng.uniform(0.3, 4.0)
    who = rng.sample(range(4), rng.randint(2, 4))
    return ring(tuple(who), size) if rng.random() < 0.5 else servers(who[0], tuple(who[1:]), size)


def iteration_starts(engine: SlottedEngine, stays: list[Stay]) -> dict[int, list[float]]:
    records = engine.records()
    return {
        s.uid: [s.start_s, *(s.start_s + np.cumsum(records[records["uid"] == s.uid]["duration"])).tolist()]
        for s in stays
    }


@given(st.randoms(use_true_random=False), st.sampled_from([FlowRule, EqualRule]), st.sampled_from([0.0, 0.3]))
@settings(max_examples=50, deadline=None)
def test_gpus_and_bytes(rng: random.Random, rule: type[RateRule], jitter: float) -> None:
    """Jobs that compute on shared GPUs and send, started and stopped at any moment: a GPU has one task at a time and is
    never idle while one waits for it; bytes are conserved; nobody is faster than alone on GPUs and lines."""
    drawn = [draw_stay(rng, uid, 0.047) for uid in range(rng.randint(2, 5))]
    stays = [replace(stay, flows=draw_flows(rng)) for stay in drawn]
    watch = Watch(stays)
    engine = SlottedEngine(CAPACITY, rule(), gpus=Gpus(N_GPUS, Noise(1, jitter)), watch=watch)
    watch.engine = engine
    played = drive(engine, stays, to_slotted, watch.left)
    starts = iteration_starts(engine, stays)
    for busy in watch.by_gpu(played).values():
        check_one_at_a_time(busy)
        check_nobody_waits_for_an_idle_gpu(watch, starts, busy)
    least, most = np.zeros(len(CAPACITY)), np.zeros(len(CAPACITY))
    for stay in stays:
        usage = played.usage[stay.uid]
        finished = usage.finish_s > 0.0
        for path, size in zip(stay.flows.paths, stay.flows.size, strict=True):
            least[list(path)] += usage.iterations * size
            most[list(path)] += (usage.iterations + (not finished)) * size
        slowest = max(size / min(CAPACITY[list(p)]) for p, size in zip(stay.flows.paths, stay.flows.size, strict=True))
        assert finished or stay.stop_s < math.inf
        if finished and jitter == 0.0:
            assert usage.finish_s - stay.start_s >= usage.iterations * (longest(stay.specs) + slowest) * (1 - 1e-9)
            assert usage.gpu_s == pytest.approx(usage.iterations * sum(spec.amount for spec in stay.specs))
    carried = engine.links()["bytes"]
    assert (carried >= least * (1 - 1e-9)).all()
    assert (carried <= most * (1 + 1e-9)).all()
    assert sum(u.gpu_s for u in played.usage.values()) <= N_GPUS * engine.now * (1 + 1e-9)
    q = engine.gpus.queues  # type: ignore[union-attr]
    assert (q.gpus["head"] == -1).all()
    assert q.sizes[0] <= N_GPUS  # GPUs that a stopped job is still to give back, and nothing else


def longest(specs: tuple[NodeSpec, ...]) -> float:
    ends: list[float] = []
    for spec in specs:
        ends.append(max((ends[p] for p in spec.after), default=0.0) + spec.amount)
    return max(ends)


def two_on_one_gpu(slot_s: float) -> Iterator[float]:
    """Finish times of two jobs on GPU 0 that send over links of their own: ten times 0.1 s and 0.5 bytes at 10
    bytes/s; ten times 0.08 s and 0.6 bytes."""
    engine = SlottedEngine(CAPACITY, Fine(slot_s), gpus=Gpus(1))
    for uid, (seconds, rows) in enumerate([(0.1, servers(1, (0,), 0.5)), (0.08, servers(3, (2,), 0.6))]):
        tasks = make_program([compute_node(0, seconds, gpu=0)], CAPACITY)
        engine.attach(uid, Iteration(seconds, seconds, rows, tasks), 10)
    while engine.run(100.0):
        pass
    return (engine.finish_s(uid) for uid in range(2))


@pytest.mark.parametrize("slot_s", [0.02, 0.005, 0.001])
def test_two_jobs_in_step(slot_s: float) -> None:
    """They alternate on the GPU: 0.1 + 0.08 s a round, and while one computes the other sends. a's first ends at 0.1,
    its k-th round at 0.1 + 0.18 (k - 1), and its last bytes 0.05 s later; b's 0.08 and 0.06 s after a's. A flow that is
    ready waits for a slot: less than one in each of the ten rounds (0.08 and 0.1 s leave room for the slot)."""
    a, b = two_on_one_gpu(slot_s)
    assert 0.0 <= a - (0.1 + 9 * 0.18 + 0.05) <= 10 * slot_s
    assert 0.0 <= b - (10 * 0.18 + 0.06) <= 10 * slot_s


def test_a_stopped_job_gives_its_gpu_to_who_waits() -> None:
    """a computes from 0 for 1 s, b waits behind it; a is stopped at 0.4, in the middle of a slot: b has the GPU from
    0.4 to 0.7; a is told what it used, comes back at 0.5, waits for b, and is alone: 0.7 + 1."""
    engine = SlottedEngine(CAPACITY, EqualRule(), gpus=Gpus(1))
    long, short = (make_program([compute_node(0, s, gpu=0)], CAPACITY) for s in (1.0, 0.3))
    a = engine.attach(0, Iteration(1.0, 1.0, NOTHING, long), 1)
    b = engine.attach(1, Iteration(0.3, 0.3, NOTHING, short), 1)
    assert engine.run(0.4) == []
    assert engine.detach(a).gpu_s == pytest.approx(0.4)
    assert engine.run(0.5) == []
    again = engine.attach(0, Iteration(1.0, 1.0, NOTHING, long), 1)
    assert engine.run(10.0) == [b]
    assert engine.run(10.0) == [again]
    assert (engine.finish_s(b), engine.finish_s(again)) == pytest.approx((0.7, 1.7))
    assert engine.detach(b).gpu_s == pytest.approx(0.3)


def test_a_gpu_is_taken_up_to_the_stop() -> None:
    """b computes until 0.03 s and sends 0.3 bytes at 10 bytes/s in the slot from 0.06 s. a has the GPU from 0.03 s and
    is stopped at 0.1 s. b is back at 0.09 s, in the same slot: it computes from 0.1 to 0.13 s and sends from 0.18 s."""
    engine = SlottedEngine(CAPACITY, EqualRule(), gpus=Gpus(1))
    short, long = (make_program([compute_node(0, s, gpu=0)], CAPACITY) for s in (0.03, 1.0))
    b = engine.attach(0, Iteration(0.03, 0.03, servers(1, (0,), 0.3), short), 2)
    a = engine.attach(1, Iteration(1.0, 1.0, NOTHING, long), 1)
    assert engine.run(0.1) == []
    assert engine.detach(a).gpu_s == pytest.approx(0.07)
    assert engine.run(1.0) == [b]
    assert engine.finish_s(b) == pytest.approx(0.21)


@given(st.randoms(use_true_random=False), st.sampled_from([FlowRule, EqualRule]))
@settings(max_examples=40, deadline=None)
def test_a_gpu_of_ones_own_is_a_fixed_time(rng: random.Random, rule: type[RateRule]) -> None:
    """Jobs that share nothing but links, gated or not, sending or not, stopped or not: the same as without queues."""
    stays, gates = [], {}
    for uid in range(rng.randint(1, 4)):
        stay = draw_stay(rng, uid, 0.047)
        specs = (compute_node(0, rng.choice([0.06, rng.uniform(0.01, 0.3)]), gpu=uid),)
        stays.append(replace(stay, specs=specs, flows=rng.choice([NOTHING, draw_flows(rng)])))
        gates[uid] = rng.choice([None, Gate(0.1, rng.choice([0.0, 0.3]))])

    def attach(engine: SlottedEngine, stay: Stay) -> int:
        seconds = stay.specs[0].amount
        tasks = make_program(stay.specs, np.ones(1)) if engine.gpus is not None else None
        work = Iteration(seconds, seconds, stay.flows, tasks)
        return engine.attach(stay.uid, work, stay.iterations, gate=gates[stay.uid])

    plain, queued = (
        drive(SlottedEngine(CAPACITY, rule(), gpus=gpus), stays, attach) for gpus in (None, Gpus(N_GPUS))
    )  # fmt: skip
    for uid, usage in plain.usage.items():
        mine = queued.usage[uid]
        assert mine.iterations == usage.iterations
        assert mine.finish_s == pytest.approx(usage.finish_s, rel=1e-6)
        if usage.finish_s > 0.0:
            for name in ("comm_s", "gate_s", "gpu_s", "adjusted"):
                assert getattr(mine, name) == pytest.approx(getattr(usage, name), rel=1e-6, abs=1e-9), name
        else:  # what would have begun in the slot of the stop has not
            assert usage.gpu_s - rule.slot_s <= mine.gpu_s <= usage.gpu_s + 1e-9


def test_many_short_iterations() -> None:
    """More records than there is room for at first: all are there, and all iterations are counted."""
    engine = SlottedEngine(CAPACITY, Fine(0.5), gpus=Gpus(1))
    tasks = make_program([compute_node(0, 0.001, gpu=0)], CAPACITY)
    for uid in range(2):
        engine.attach(uid, Iteration(0.001, 0.001, NOTHING, tasks), 6000, turn=(0.0, 1.0))
    finished = []
    while new := engine.run(100.0):
        finished += new
    assert sorted(finished) == [0, 1]
    assert engine.iterations == len(engine.records()) == 12_000
    assert max(engine.finish_s(uid) for uid in range(2)) == pytest.approx(12.0)


@pytest.mark.parametrize("gpus", [None, Gpus])
def test_a_gate_counts_from_when_a_job_has_computed(gpus: type[Gpus] | None) -> None:
    """A job computes from 0 to 0.5 s and sends in the slot from 0.54 s. At 0.2 s its gate becomes that of 0.9 s: it
    sends then, as in the event engine, wherever it computes."""
    engine = SlottedEngine(CAPACITY, EqualRule(), gpus=gpus(1) if gpus else None)
    tasks = make_program([compute_node(0, 0.5, gpu=0)], CAPACITY)
    at = engine.attach(0, Iteration(0.5, 0.5, servers(1, (0,), 0.3), tasks), 1)
    assert engine.run(0.2) == []
    engine.set_gate(at, Gate(0.9))
    assert engine.run(10.0) == [at]
    assert engine.finish_s(at) == pytest.approx(0.93)
    assert engine.detach(at).gate_s == pytest.approx(0.4)
