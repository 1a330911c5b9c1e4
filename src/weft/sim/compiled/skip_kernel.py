"""Skipping what repeats: stretches of simulated time whose outcome is known are not simulated.

Whenever the reference job of a component ends an iteration, the component's state (what every task is doing, and for
how much longer) is compared with a snapshot taken earlier (at powers of two: Brent's cycle search). If it is the same,
the component repeats itself and is parked (park_kernel.py). A job alone is the simplest case.
"""

import math

from numba import int64

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.memory_kernel import inner
from weft.sim.compiled.park_kernel import book, park
from weft.sim.compiled.state import ACTIVE, COMPUTE, GATED, LATENCY, PARK_EXACT
from weft.sim.compiled.tasks_kernel import remaining_bytes, turn


@inner()
def _clock(E, x, now):
    """How much longer a node goes on doing what it does."""
    node = m.nodes(E)[x]
    if node.kind != COMPUTE and node.state == ACTIVE:
        return remaining_bytes(E, x, now) / node.alone
    if node.state in (ACTIVE, GATED, LATENCY):
        return m.heap_key(E)[m.where(E)[2 * x]] - now
    return 0.0


@inner()
def _gate_phase(E, j, now):
    job = m.jobs(E)[j]
    if job.gate_task < 0 or job.gate_period <= 0.0:
        return 0.0
    periods = (now - job.gate_epoch) / job.gate_period
    return periods - math.floor(periods)


@inner()
def _matches(E, c, now):
    """Whether the component is as it was at the snapshot, up to the rounding of the clock."""
    comp = m.comps(E)[c]
    period = now - comp.snap_time
    tolerance = 4e-15 * now + 1e-13 * period
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        for x in range(job.node0, job.node1):
            node = m.nodes(E)[x]
            if node.state != node.snap_state or abs(_clock(E, x, now) - node.snap) > tolerance:
                return False
        if job.done == job.snap_done or abs(now - job.iter_start - job.snap_age) > tolerance:
            return False
        if job.gate_task >= 0:
            if job.gate_period <= 0.0:
                if now < job.gate_epoch:
                    return False
            else:
                off = abs(_gate_phase(E, j, now) - _gate_phase(E, j, comp.snap_time))
                if min(off, 1.0 - off) * job.gate_period > tolerance:
                    return False
                if abs(now - job.gate_last - job.snap_gate_last) > tolerance:
                    return False
        j = job.next
    return True


@inner()
def _busy(E, k, now):
    link = m.links(E)[k]
    return link.busy + (now - link.mark if link.flowing > 0 else 0.0)


@inner()
def _snapshot(E, c, now):
    comp = m.comps(E)[c]
    comp.has_snap = 1
    comp.snap_time = now
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        book(E, j, now)
        job.snap_done = job.done
        job.snap_age = now - job.iter_start
        job.snap_gate_last = now - job.gate_last
        job.snap_adjusted = job.adjusted
        job.snap_comm = job.comm_s
        job.snap_gate = job.gate_s
        job.snap_gpu = job.gpu_s
        for x in range(job.node0, job.node1):
            m.nodes(E)[x].snap_state = m.nodes(E)[x].state
            m.nodes(E)[x].snap = _clock(E, x, now)
            for f in range(m.nodes(E)[x].flow0, m.nodes(E)[x].flow1):
                k = m.flows(E)[f].link
                m.links(E)[k].snap_busy = _busy(E, k, now)
        j = job.next
    comp.snap_record = m.scalars(E).n_records


@inner()
def _order_holds(E, c, periods):
    """How many periods pass before the order of two jobs' turns could change (shared GPUs, admission)."""
    i = m.comps(E)[c].head
    while i >= 0:
        j = m.jobs(E)[i].next
        while j >= 0:
            a, b = m.jobs(E)[i], m.jobs(E)[j]
            step_a, step_b = a.p1 * (a.done - a.snap_done), b.p1 * (b.done - b.snap_done)
            if step_a != 0.0 or step_b != 0.0:
                apart = turn(E, i) - turn(E, j)
                drift = step_b - step_a
                if apart < 0.0:
                    apart, drift = -apart, -drift
                room = apart - abs(step_a) - abs(step_b)
                if room <= 0.0:
                    return 0.0
                if drift < 0.0:
                    periods = min(periods, math.floor(room / -drift))
            j = m.jobs(E)[j].next
        i = m.jobs(E)[i].next
    return periods


@inner()
def _try_exact(E, c, now):
    comp = m.comps(E)[c]
    periods = math.inf
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        per = job.done - job.snap_done
        periods = min(periods, math.floor((job.total - job.done - 1) / per))
        job.per = per
        j = job.next
    if comp.ordered != 0 and periods >= 2.0:
        periods = _order_holds(E, c, periods)
    if periods < 2.0:
        return False
    j = comp.head
    while j >= 0:
        book(E, j, now)
        j = m.jobs(E)[j].next
    comp.record0 = comp.snap_record
    comp.period = now - comp.snap_time
    comp.periods = periods
    park(E, c, now, int64(PARK_EXACT), now + periods * comp.period)
    return True


@inner()
def tick_exact(E, c, now):
    """Look for a repetition; True if the component was parked."""
    comp = m.comps(E)[c]
    if comp.has_snap != 0 and _matches(E, c, now) and _try_exact(E, c, now):
        return True
    if comp.ticks & (comp.ticks - 1) == 0:
        _snapshot(E, c, now)
    return False
