"""Snapshots of CASSINI's Table 2 (and Figure 2) on one link of 50 Gbit/s: what was fitted, and what follows from it.

The paper gives, for each job, the communication time under Th+CASSINI and under Themis, the score and the shift. In
snapshots 1 and 2 the former is the dedicated time. An iteration is taken to compute and then to send once at a constant
rate. Two things were fitted there: the period (equal for all jobs of a snapshot; the middle of the widest optimum is
the published shift, to the grid of 5 degrees) and one rate per snapshot, so that jobs started together, unshifted, have
Themis' times (least squares over whole Gbit/s, 1,000 iterations). Snapshots 3 to 5 are predictions: the same rates
(VGG16 the mean of its two), computing in proportion to the batch; BERT and RoBERTa from the zoo.

`WINDOW_RATES` is a second fit, with a rate per job. It meets Themis' times better, but only over the first 40
iterations: jobs of unequal rates drift apart on a fairly shared link, so what it fits is a transient whose length was
chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.policies.interleave.cassini.circle import Circle
from weft.policies.interleave.cassini.compat import Compat, compat

if TYPE_CHECKING:
    from weft.model.plan import Gate

CAPACITY_GBPS = 50.0
PADDING = 0.1
ITERATIONS = 1000


@dataclass(frozen=True)
class Traced:
    """A job of a snapshot: computing, then sending for `comm_ms` at `gbps` when alone; and what the paper measured."""

    name: str
    compute_ms: float
    comm_ms: float
    gbps: float
    cassini_ms: float = 0.0
    themis_ms: float = 0.0
    shift_ms: float = 0.0

    @property
    def period_s(self) -> float:
        """Iteration time alone."""
        return (self.compute_ms + self.comm_ms) / 1e3

    @property
    def circle(self) -> Circle:
        """Its circle, from the start of the iteration."""
        return Circle(self.period_s, ((self.compute_ms / 1e3, self.comm_ms / 1e3, self.gbps),))


@dataclass(frozen=True)
class Snapshot:
    """Jobs that share a link, and the published score."""

    jobs: tuple[Traced, ...]
    score: float
    fitted: bool


# compute at some batch: on the line through the two fitted points of VGG16 (1400: 142 ms, 1700: 173 ms), in proportion
# for VGG19 (1400: 168 ms). RoBERTa and BERT: bytes and A100 times of the zoo at these batches, four workers.
SNAPSHOTS: dict[int, Snapshot] = {
    1: Snapshot(
        (Traced("WideResNet101", 152, 138, 36, 138, 205, 0), Traced("VGG16", 142, 148, 36, 148, 199, 150)), 1.0, True,
    ),
    2: Snapshot(
        (Traced("VGG19", 168, 168, 33, 168, 220, 0), Traced("VGG16", 173, 163, 33, 163, 220, 158),
         Traced("ResNet50", 277, 59, 4, 59, 55, 46)), 1.0, True,
    ),
    3: Snapshot(
        (Traced("VGG19", 123, 168, 33, 166, 176, 0), Traced("VGG16", 121, 155, 34.5, 168, 177, 100)), 0.9, False,
    ),
    4: Snapshot(
        (Traced("RoBERTa", 126, 133, 45, 164, 210, 0), Traced("RoBERTa'", 126, 133, 45, 180, 208, 60)), 0.8, False,
    ),
    5: Snapshot(
        (Traced("BERT", 114, 117, 45, 209, 213, 0), Traced("VGG19", 168, 168, 33, 294, 292, 42),
         Traced("WideResNet101", 152, 138, 36, 265, 266, 191)), 0.6, False,
    ),
}  # fmt: skip

# The other fit: rates by snapshot, in the order of its jobs; to be played for 40 iterations.
WINDOW_RATES = {1: (48, 46), 2: (42, 44, 4), 3: (42, 46), 4: (45, 45), 5: (45, 42, 48)}

# Two VGG19 jobs of two workers: 574.7 MB of gradients at 45 Gbit/s; the period follows from the shift of 120 ms, half
# of it being the best for two equal jobs.
FIGURE_2 = Snapshot((Traced("VGG19", 137.8, 102.2, 45), Traced("VGG19'", 137.8, 102.2, 45, shift_ms=120)), 1.0, False)


def with_rates(snapshot: Snapshot, gbps: Sequence[float]) -> Snapshot:
    """The same jobs sending at other rates for as long: a job's bytes change with them."""
    return replace(snapshot, jobs=tuple(replace(j, gbps=g) for j, g in zip(snapshot.jobs, gbps, strict=True)))


def shifted(snapshot: Snapshot) -> Compat:
    """Score and shifts; iterations may be made up to a tenth longer so that they fit."""
    return compat({job.name: job.circle for job in snapshot.jobs}, CAPACITY_GBPS, padding=PADDING)


def gates_of(snapshot: Snapshot, jitter: float = 0.0) -> dict[str, Gate]:
    """The gates that the interleave layer sets for these jobs: as in a cluster, by what a few iterations would show."""
    from weft.model.flows import Traffic
    from weft.model.plan import Gate
    from weft.policies.interleave.cassini.align import align
    from weft.policies.interleave.cassini.layout import TOLERANCE, lay_out
    from weft.sim.spec import slowest_worker

    mean, spread = slowest_worker(1, jitter, 0.0, 1.0) if jitter else (1.0, 0.0)
    traffic = {}
    for job in snapshot.jobs:
        compute_s = job.compute_ms / 1e3
        arcs = ((0.0, job.comm_ms / 1e3, job.gbps),)
        traffic[job.name] = Traffic(
            job.period_s + compute_s * (mean - 1.0), 1, compute_s, compute_s * spread, {0: arcs}
        )
    layout = lay_out(traffic, np.array([CAPACITY_GBPS]), PADDING)
    gates = {}
    for group in layout.groups:
        for found in align(layout, group, PADDING, consensus=False):
            shifts = found.shifts_s
            begin_s = max(t.iteration_s for t in traffic.values())
            if found.held:  # on a common clock on which nobody is late for the first opening
                begin_s = max(traffic[name].offset_s - shifts[name] for name in found.jobs)
            for name in found.jobs if found.pays else ():
                gates[name] = Gate(begin_s + shifts[name], found.periods_s[name] if found.held else 0.0, 1, TOLERANCE)
    return gates


def published_gates(snapshot: Snapshot) -> dict[str, Gate]:
    """Gates that shift the jobs once, by what the paper printed."""
    from weft.model.plan import Gate

    begin_s = 2 * max(job.period_s for job in snapshot.jobs)
    return {job.name: Gate(begin_s + (job.compute_ms + job.shift_ms) / 1e3, 0.0, 1) for job in snapshot.jobs}


@lru_cache(maxsize=256)
def played(
    snapshot: Snapshot,
    with_shifts: bool,
    jitter: float = 0.0,
    seed: int = 0,
    iterations: int = ITERATIONS,
    as_published: bool = False,
) -> dict[str, Any]:
    """The jobs on one link: communication times (ms), p90 of iterations, adjustments per minute.

    With `as_published` the shifts are the paper's.
    """
    from weft.sim.engine import Engine, EngineSpec
    from weft.sim.engine.program import compute_node, make_program, transfer_node

    found = shifted(snapshot)
    gates = gates_of(snapshot, jitter) if with_shifts else {}
    gates = published_gates(snapshot) if as_published else gates
    rate = CAPACITY_GBPS * 1e9 / 8
    spec = EngineSpec(np.array([rate]), np.ones(1, np.bool_), seed=seed, jitter=jitter, skip=jitter == 0)
    engine = Engine(spec)
    rows: dict[int, str] = {}
    for i, job in enumerate(snapshot.jobs):
        nodes = [
            compute_node(0, job.compute_ms / 1e3),
            transfer_node(1, job.comm_ms / 1e3 * job.gbps * 1e9 / 8, [(0, 1)], (0,), demand=job.gbps * 1e9 / 8),
        ]
        program = make_program(nodes, spec.capacity)
        rows[engine.attach(i, program, iterations, gate=gates.get(job.name))] = job.name
    engine.run(go_on=True)
    records, usages = engine.records().copy(), {name: engine.detach(row) for row, name in rows.items()}
    answer: dict[str, Any] = {"score": found.rotation.score, "jobs": {}, "compat": found}
    for i, job in enumerate(snapshot.jobs):
        mine = records[records["uid"] == i]
        usage = usages[job.name]
        times = np.repeat(mine["duration"], np.maximum(1, mine["count"].astype(np.int64)))
        answer["jobs"][job.name] = {
            "comm_ms": 1e3 * usage.comm_s / iterations,
            "iteration_ms": 1e3 * float(times.mean()),
            "p90_ms": 1e3 * float(np.quantile(times, 0.9)),
            "adjusted_per_min": usage.adjusted / (usage.finish_s / 60.0),
            "shift_ms": 1e3 * found.rotation.shifts_s[i],
        }
    return answer
