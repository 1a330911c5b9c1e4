"""Conservation, checked from outside: what tasks began and ended when, against what the engine booked.

- No transfer is faster than its links allow, nor than its demand.
- In any stretch of time a link carries no more than capacity x time.
- Bytes booked on links are those of the transfers: all of finished ones, a part of aborted ones, nothing else.
- A GPU runs one task at a time; GPU seconds booked are those of the tasks.
"""

import math
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tests.sim.cases import Case
from tests.sim.driver import Outcome
from weft.sim.compiled.state import TRANSFER
from weft.sim.engine.program import NodeSpec

REL = 1e-9  # clocks are rounded
Spell = tuple[float, float, float]  # start, end, how much


def check_conservation(case: Case, outcome: Outcome) -> None:
    """Every law above on a run that skipped nothing."""
    spells: dict[int, list[Spell]] = {k: [] for k in range(len(case.spec.capacity))}
    on_gpu: dict[int, list[Spell]] = {}
    least, most = np.zeros(len(case.spec.capacity)), np.zeros(len(case.spec.capacity))
    for (i, s), usage in outcome.usage.items():
        specs = case.jobs[i].stays[s].specs
        ended = Counter[int]()
        computed = 0.0
        for segment in outcome.segments.get((i, s), []):
            spec, start, end = specs[segment["task"]], float(segment["start"]), float(segment["end"])
            ended[int(segment["task"])] += 1
            if spec.kind == TRANSFER:
                assert end - start >= fastest_s(case, spec) * (1 - REL) - REL * end, (i, s, spec)
                for k, n in spec.links:
                    spells[k].append((start + spec.latency, end, spec.amount * n))
                    least[k] += spec.amount * n
            else:
                computed += spec.weight * (end - start)
                if spec.gpu >= 0:
                    on_gpu.setdefault(spec.gpu, []).append((start, end, 1.0))
        finished = usage.finish_s > 0
        for x, spec in enumerate(specs):
            begun = usage.iterations + (0 if finished else 1)
            assert usage.iterations <= ended[x] <= begun, f"task {x} of {(i, s)} ended {ended[x]} times"
            for k, n in spec.links:
                most[k] += spec.amount * n * (begun - ended[x])
        _check_gpu_seconds(case, outcome, (i, s), computed, finished)
    carried = np.array(outcome.bytes)
    assert np.all(carried >= least * (1 - REL)), (carried, least)
    assert np.all(carried <= (least + most) * (1 + REL)), (carried, least + most)
    check_busy(case, outcome)
    for k, mine in spells.items():
        assert_within_capacity(mine, link_limit(case, k))
    for mine in on_gpu.values():
        assert_one_at_a_time(mine)


def check_totals(case: Case, outcome: Outcome, slack: float = REL) -> None:
    """Bytes of iterations, and capacity x time: the laws that can be checked when much was skipped."""
    least, most = np.zeros(len(case.spec.capacity)), np.zeros(len(case.spec.capacity))
    for (i, s), usage in outcome.usage.items():
        for spec in case.jobs[i].stays[s].specs:
            for k, n in spec.links:
                least[k] += usage.iterations * spec.amount * n
                most[k] += (usage.iterations + (usage.finish_s <= 0)) * spec.amount * n
    carried = np.array(outcome.bytes)
    assert np.all(carried >= least * (1 - REL)), (carried, least)
    assert np.all(carried <= most * (1 + REL)), (carried, most)
    for k, carries in enumerate(outcome.bytes):
        assert carries <= link_limit(case, k) * outcome.now * (1 + slack)
    steady = case.spec.jitter == case.spec.straggle_p == case.spec.task_jitter == 0.0
    for (i, s), usage in outcome.usage.items():
        stayed = outcome.ended_s[i, s] - case.jobs[i].stays[s].start_s
        assert 0 <= usage.comm_s + usage.gate_s <= stayed * (1 + REL) + REL
        work = sum(spec.weight * spec.amount for spec in case.jobs[i].stays[s].specs if spec.kind != TRANSFER)
        if steady:
            assert usage.gpu_s >= usage.iterations * work * (1 - REL) - REL
            assert usage.gpu_s <= (usage.iterations + (usage.finish_s <= 0)) * work * (1 + REL) + REL


def check_busy(case: Case, outcome: Outcome) -> None:
    """A link is busy at most all the time, and carries bytes only while it is."""
    for k, (carried, busy) in enumerate(zip(outcome.bytes, outcome.busy, strict=True)):
        assert 0 <= busy <= outcome.now * (1 + REL)
        assert carried <= link_limit(case, k) * busy * (1 + REL) + REL


def _check_gpu_seconds(case: Case, outcome: Outcome, key: tuple[int, int], computed: float, finished: bool) -> None:
    usage, stay = outcome.usage[key], case.jobs[key[0]].stays[key[1]]
    stayed = outcome.ended_s[key] - stay.start_s
    assert 0 <= usage.comm_s + usage.gate_s <= stayed * (1 + REL) + REL
    assert usage.gpu_s >= computed * (1 - REL) - REL
    running = 0.0 if finished else sum(s.weight for s in stay.specs if s.kind != TRANSFER)
    assert usage.gpu_s <= (computed + running * stayed) * (1 + REL) + REL


def fastest_s(case: Case, spec: NodeSpec) -> float:
    """Least time of a transfer: latency, then bytes at the rate its links and demand allow when it is alone."""
    if case.spec.sharing == "k-way" and spec.links:
        rate = min(spec.demand, 1.0 / case.spec.b_s_per_byte)
    else:
        rate = min([spec.demand, *(float(case.spec.capacity[k]) / n for k, n in spec.links)])
    return spec.latency + (spec.amount / rate if rate < math.inf else 0.0)


def link_limit(case: Case, k: int) -> float:
    """Bytes per second of a link: what `ideal` does not share and k-way does not know, it cannot be held to.

    k-way counts transfers, not flows: a transfer with two flows on a link books its bytes twice.
    """
    if case.spec.sharing == "max-min":
        return float(case.spec.capacity[k])
    if case.spec.sharing == "ideal":
        return 1e300
    nodes = (spec for job in case.jobs for stay in job.stays for spec in stay.specs)
    return max((n for spec in nodes for link, n in spec.links if link == k), default=1) / case.spec.b_s_per_byte


def assert_within_capacity(spells: Iterable[Spell], limit: float) -> None:
    """Transfers that lie wholly in a stretch of time sent their bytes in it; every stretch from a start to an end."""
    table: npt.NDArray[np.float64] = np.array(sorted(spells)).reshape(-1, 3)
    if not len(table):
        return
    for start in np.unique(table[:, 0]):
        inside = table[table[:, 0] >= start]
        order = np.argsort(inside[:, 1])
        sent, until = np.cumsum(inside[order, 2]), inside[order, 1]
        assert np.all(sent <= limit * (until - start) * (1 + REL) + REL * (1 + until)), (start, limit)


def assert_one_at_a_time(spells: Iterable[Spell]) -> None:
    """No two of them overlap."""
    table = sorted(spells)
    for (_, end, _), (start, _, _) in pairwise(table):
        assert start >= end - REL * (1 + end)
