"""Parked components: their events leave the queue, and one event wakes them shortly before a job ends.

A component is parked because it repeats itself (skip_kernel.py), or at a measured or computed pace
(estimate_kernel.py). Anything that touches a parked component first brings it up to date.
"""

import math

from numba import float64, int64, njit, void

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.components_kernel import reset
from weft.sim.compiled.events_kernel import begin_iteration
from weft.sim.compiled.heap_kernel import heap_drop, heap_set
from weft.sim.compiled.memory_kernel import TABLE, apart, inner
from weft.sim.compiled.state import (
    ACTIVE,
    COMPUTE,
    FROZEN,
    NOT_PARKED,
    PARK_EXACT,
    PARK_PACED,
    PARKED,
    RUNNING,
)
from weft.sim.compiled.tasks_kernel import account, flush_record, fresh_node, record, sort_held


@inner()
def unseen(now, per):
    """Fraction of an iteration, at a pace, that is too small for the clock to resolve: larger late in a run and for
    short iterations."""
    return 1e-6 + 4.5e-16 * now * per


@inner()
def book(E, j, now):
    """Write down what a job has done up to now, so that what it does between two such moments can be multiplied."""
    account(E, j, now)
    flush_record(E, j)


@inner()
def freeze(E, c):
    """Hide the active transfers of a component that is parked at a pace: its neighbours may change meanwhile."""
    j = m.comps(E)[c].head
    while j >= 0:
        for x in range(m.jobs(E)[j].node0, m.jobs(E)[j].node1):
            if m.nodes(E)[x].kind != COMPUTE and m.nodes(E)[x].state == ACTIVE:
                m.nodes(E)[x].state = FROZEN
        j = m.jobs(E)[j].next


@inner()
def park(E, c, now, kind, wake):
    """Take the component's events out of the queue, but for one that wakes it."""
    comp = m.comps(E)[c]
    comp.parked = kind
    comp.park_time = now
    comp.record1 = m.scalars(E).n_records
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        if job.state == RUNNING:
            job.state = PARKED
            for x in range(job.node0, job.node1):
                i = m.where(E)[2 * x]
                m.nodes(E)[x].snap = m.heap_key(E)[i] if i >= 0 else -1.0
                heap_drop(E, 2 * x)
        j = job.next
    heap_set(E, 2 * comp.ref + 1, wake)
    if kind == PARK_PACED:
        freeze(E, c)


@inner()
def _carry_bytes(E, j, iterations):
    """Book the bytes of skipped iterations on the links they crossed."""
    job, nodes, flows, links = m.jobs(E)[j], m.nodes(E), m.flows(E), m.links(E)
    for x in range(job.node0, job.node1):
        each = iterations * nodes[x].amount
        for f in range(nodes[x].flow0, nodes[x].flow1):
            links[flows[f].link].bytes += each * flows[f].n


@inner()
def _carry_on(E, j, iterations, shift, mark, stamp):
    """Book the bytes of iterations at a pace on the links they crossed, with the least time that they take, and move
    the clocks of the component's own links on (once per link, which is stamped)."""
    job, nodes, flows, links = m.jobs(E)[j], m.nodes(E), m.flows(E), m.links(E)
    for x in range(job.node0, job.node1):
        each = iterations * nodes[x].amount
        for f in range(nodes[x].flow0, nodes[x].flow1):
            link = links[flows[f].link]
            carried = each * flows[f].n
            link.bytes += carried
            link.busy += carried / link.capacity
            if link.comp == mark and link.stamp != stamp:
                link.stamp = stamp
                if link.flowing > 0:
                    link.mark += shift


@inner()
def _shift_job(E, j, shift):
    """Move a job's clocks on by a skipped stretch."""
    job, nodes = m.jobs(E)[j], m.nodes(E)
    job.iter_start += shift
    job.gate_last += shift
    job.mark += shift
    for x in range(job.node0, job.node1):
        node = nodes[x]
        node.mark += shift
        node.began += shift
        if node.snap >= 0.0:
            node.snap += shift


@inner()
def _next_stamp(E):
    m.scalars(E).stamp += 1
    return m.scalars(E).stamp


@inner()
def _shift_links(E, c, periods, shift):
    """Busy time of the component's own links over whole periods, and their clocks (once per link: stamped)."""
    comp, jobs, nodes, flows, links = m.comps(E)[c], m.jobs(E), m.nodes(E), m.flows(E), m.links(E)
    stamp = _next_stamp(E)
    j = comp.head
    while j >= 0:
        job = jobs[j]
        for x in range(job.node0, job.node1):
            for f in range(nodes[x].flow0, nodes[x].flow1):
                link = links[flows[f].link]
                if link.comp != comp.mark or link.stamp == stamp:
                    continue
                link.stamp = stamp
                if periods > 0.0:
                    at_park = link.busy + (comp.park_time - link.mark if link.flowing > 0 else 0.0)
                    link.busy += periods * (at_park - link.snap_busy)
                if link.flowing > 0:
                    link.mark += shift
        j = job.next


@inner()
def _settle_exact(E, c, now):
    """Add up the whole periods since a repeating component was parked."""
    comp = m.comps(E)[c]
    periods = min(comp.periods, math.floor((now - comp.park_time) / comp.period))
    shift = periods * comp.period
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        steps = periods * job.per
        factor = steps / float(job.done - job.snap_done)
        job.comm_s += factor * (job.comm_s - job.snap_comm)
        job.gate_s += factor * (job.gate_s - job.snap_gate)
        job.gpu_s += factor * (job.gpu_s - job.snap_gpu)
        job.adjusted += int(factor * (job.adjusted - job.snap_adjusted))
        job.done += int(steps)
        m.scalars(E).n_iterations += int(steps)
        _shift_job(E, j, shift)
        _carry_bytes(E, j, steps)
        job.snap_comm = factor  # kept for the records below
        j = job.next
    _shift_links(E, c, periods, shift)
    for r in range(comp.record0, comp.record1):
        j = m.records(E)[r].row
        if m.jobs(E)[j].comp == c and m.jobs(E)[j].uid == m.records(E)[r].uid:
            m.records(E)[r].count *= 1.0 + m.jobs(E)[j].snap_comm


@apart(void(TABLE, int64, float64))
def settle_paced(E, c, now):
    """Move a component that is parked at a pace on to now; it stays parked."""
    comp = m.comps(E)[c]
    passed = now - comp.park_time
    if passed <= 0.0:
        return
    measured = comp.record1 > comp.record0
    stamp = _next_stamp(E)
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        progress = job.per * passed + job.carry
        whole = math.floor(progress + unseen(now, job.per))
        steps = min(whole, job.total - job.done - (0.0 if comp.fluid != 0 else 1.0))
        job.carry = min(progress - steps, 1.0)
        job.comm_s += steps * job.comm_per
        job.gate_s += steps * job.gate_per
        job.gpu_s += steps * job.gpu_per
        job.adjusted += int(steps * job.adjusted_per)
        job.done += int(steps)
        job.due += steps
        m.scalars(E).n_iterations += int(steps)
        if comp.fluid == 0:
            m.scalars(E).paced += steps
        else:
            m.scalars(E).fluid += steps
        _shift_job(E, j, passed)
        job.gate_last = math.inf  # which opening it would have had is not known
        _carry_on(E, j, steps, passed, comp.mark, stamp)
        if measured and job.seen > 0.0:
            job.snap_comm = steps / job.seen
        else:
            job.snap_comm = 0.0
            record(E, j, 1.0 / job.per, steps)
        j = job.next
    if measured:  # the first stretch repeats the window's records, later ones its mean
        for r in range(comp.record0, comp.record1):
            j = m.records(E)[r].row
            if m.jobs(E)[j].comp == c and m.jobs(E)[j].uid == m.records(E)[r].uid:
                m.records(E)[r].count *= 1.0 + m.jobs(E)[j].snap_comm
        comp.record0 = comp.record1
    comp.park_time = now


@inner()
def _set_off(E, j, now):
    """Let a job that was parked from the start begin. It may be parked again between two runs, so the next run starts
    it."""
    if m.scalars(E).in_run != 0:
        m.jobs(E)[j].begun = 1
        begin_iteration(E, j, now)
    elif m.jobs(E)[j].listed == 0:
        m.jobs(E)[j].listed = 1
        m.starters(E)[m.scalars(E).n_starters] = j
        m.scalars(E).n_starters += 1


@apart(void(TABLE, int64, float64))
def resume(E, c, now):
    """Put the events of a component that is up to date back into the queue."""
    comp = m.comps(E)[c]
    heap_drop(E, 2 * comp.ref + 1)
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        if job.state == PARKED:
            job.state = RUNNING
            for x in range(job.node0, job.node1):
                if m.nodes(E)[x].snap >= 0.0:
                    heap_set(E, 2 * x, m.nodes(E)[x].snap)
                if m.nodes(E)[x].state == FROZEN:
                    m.nodes(E)[x].state = ACTIVE
                    fresh_node(E, x)  # its neighbours may have changed
            if job.begun == 0:
                _set_off(E, j, now)
        j = job.next
    comp.parked = NOT_PARKED
    comp.fluid = 0
    if m.scalars(E).n_held > 0:
        sort_held(E)
    reset(E, c)


@njit((TABLE, int64, float64), cache=True)
def unpark(E, c, now):
    """Bring a parked component up to date and let it run: what is left of its last period is put back into the queue.

    Its next events may lie before `now`. They concern no other job, and the next run handles them first.
    """
    if m.comps(E)[c].parked == NOT_PARKED:
        return
    if m.comps(E)[c].parked == PARK_EXACT:
        _settle_exact(E, c, now)
    else:
        settle_paced(E, c, now)
    resume(E, c, now)
