"""Jobs come and go: components are taken apart and put together, simulated again or left parked at computed paces."""

import math

from numba import float64, int64, njit, void

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.components_kernel import dissolve, enter, form, leave
from weft.sim.compiled.estimate_kernel import LAST, ask_window, measured, next_look
from weft.sim.compiled.fluid_kernel import fluid_pace
from weft.sim.compiled.heap_kernel import heap_drop, heap_set
from weft.sim.compiled.memory_kernel import TABLE, apart, inner
from weft.sim.compiled.park_kernel import book, freeze, park, resume, settle_paced, unpark, unseen
from weft.sim.compiled.state import (
    ACTIVE,
    ADMIT_ALL,
    COMPUTE,
    DONE,
    FINISHED,
    FREE,
    FROZEN,
    IDEAL,
    LATENCY,
    NOT_PARKED,
    PARK_EXACT,
    PARK_PACED,
    PARKED,
    RUNNING,
)
from weft.sim.compiled.tasks_kernel import flush_record, unlink

ALLOWANCE = 10  # tasks by which the budget of windows grows with every job that leaves


@inner()
def _may_compute(E):
    """Whether paces may be computed in this run at all: there is no admission rule, and the user does not ask for
    exactness."""
    return (
        m.scalars(E).exact == 0
        and m.scalars(E).skip != 0
        and m.scalars(E).admit == ADMIT_ALL
        and m.scalars(E).sharing != IDEAL
    )


@inner()
def _to_pace(E, c, now):
    """Stop simulating a component: bring it up to date, and take its events out of the queue."""
    comp = m.comps(E)[c]
    if comp.parked == PARK_EXACT:
        j = comp.head
        while j >= 0:
            job = m.jobs(E)[j]
            seen = float(job.done - job.snap_done)
            measured(E, j, seen, comp.period, job.snap_comm, job.snap_gate, job.snap_gpu, job.snap_adjusted)
            j = job.next
        comp.parked = PARK_PACED
        freeze(E, c)
        if now > comp.park_time:  # the position of each job in its period is lost
            m.scalars(E).n_estimates += 1
    if comp.parked == PARK_PACED:
        settle_paced(E, c, now)
    else:
        j = comp.head
        while j >= 0:
            book(E, j, now)
            j = m.jobs(E)[j].next
        comp.record0 = m.scalars(E).n_records
        park(E, c, now, int64(PARK_PACED), now)
        comp.record0 = comp.record1
    heap_drop(E, 2 * comp.ref + 1)


@apart(int64(TABLE, int64, float64, int64))
def _take_apart(E, c, now, n):
    """Bring a component up to date and give it up; its jobs are added to members, from n on. Returns their number."""
    comp = m.comps(E)[c]
    _to_pace(E, c, now)
    lasted = now - comp.born
    gap = comp.gap
    if lasted > 0.0:
        gap = lasted if gap == math.inf else 0.5 * (gap + lasted)
    j = comp.head
    while j >= 0:
        m.jobs(E)[j].gap = gap
        m.members(E)[n] = j
        n += 1
        j = m.jobs(E)[j].next
    dissolve(E, c)
    return n


@inner()
def _first_end(E, c, but):
    """Seconds until the first job of a component has only `but` iterations left at its pace."""
    ends = math.inf
    j = m.comps(E)[c].head
    while j >= 0:
        job = m.jobs(E)[j]
        ends = min(ends, (job.total - job.done - job.carry - but) / job.per)
        j = job.next
    return ends


@inner()
def _decide(E, c, now):
    """Simulate a component that has just come together, or compute its pace and leave it parked?"""
    comp = m.comps(E)[c]
    comp.born = now
    if comp.size == 1 or comp.ordered != 0 or comp.opened != 0:
        resume(E, c, now)
        return
    fluid_pace(E, c)
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        job.per = job.fluid * job.calib
        job.comm_per = max(0.0, 1.0 / job.per - job.comm_per)
        job.gate_per = 0.0
        job.adjusted_per = 0.0
        job.seen = 0.0
        j = job.next
    ends = _first_end(E, c, 0.0)
    comp.want = ask_window(E, c, min(comp.gap, ends), ends)
    if comp.want > 0.0:
        resume(E, c, now)
        return
    comp.fluid = 1
    m.scalars(E).n_estimates += 1
    comp.record0 = m.scalars(E).n_records
    park(E, c, now, int64(PARK_PACED), now + max(0.0, min(ends, next_look(E, c))))


@apart(void(TABLE, int64, float64))
def _put_together(E, n, now):
    """Form components of the jobs in members, and decide for each whether to simulate it or to compute its pace."""
    for i in range(n):
        j = m.members(E)[i]
        if m.jobs(E)[j].comp < 0 and m.jobs(E)[j].state == PARKED:
            form(E, j)
            _decide(E, m.jobs(E)[j].comp, now)


@inner()
def _take_back(E, x):
    """Take back what was booked for a task of the iteration that was under way when its job was parked, because the
    pace has counted it too."""
    node = m.nodes(E)[x]
    if node.kind == COMPUTE:
        m.jobs(E)[node.job].gpu_s -= node.weight * node.remaining
        return
    for f in range(node.flow0, node.flow1):
        m.links(E)[m.flows(E)[f].link].bytes -= node.amount * m.flows(E)[f].n


@inner()
def _end_here(E, j, now):
    """A job whose pace was computed is done."""
    job = m.jobs(E)[j]
    job.done = job.total
    job.finish = now
    job.state = FINISHED
    flush_record(E, j)
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        if node.kind != COMPUTE and node.state in (ACTIVE, LATENCY, FROZEN):
            unlink(E, x, now, 0.0)
        elif node.state == DONE:
            _take_back(E, x)
        node.state = DONE
    m.finished(E)[m.scalars(E).n_finished] = j
    m.scalars(E).n_finished += 1


@inner()
def _nearly_ends(E, c, now):
    """Whether a job of a component that goes at measured paces is about to end: its last iterations are simulated."""
    j = m.comps(E)[c].head
    while j >= 0:
        job = m.jobs(E)[j]
        left = job.total - job.done - job.carry - (now - m.comps(E)[c].park_time) * job.per
        if left <= LAST + unseen(now, job.per):
            return True
        j = job.next
    return False


@apart(void(TABLE, int64, float64))
def wake(E, j, now):
    """Handle the event that ends a parked stretch: a job ends, or the component was undisturbed for long enough."""
    c = m.jobs(E)[j].comp
    comp = m.comps(E)[c]
    if comp.fluid == 0 and (comp.parked == PARK_EXACT or _nearly_ends(E, c, now)):
        unpark(E, c, now)
        return
    settle_paced(E, c, now)
    ended = False
    y = comp.head
    while y >= 0 and comp.fluid != 0:
        job = m.jobs(E)[y]
        if job.total - job.done - job.carry <= unseen(now, job.per):
            _end_here(E, y, now)
            ended = True
        y = job.next
    if ended:
        return
    comp.gap = max(comp.gap, now - comp.born)
    ends = _first_end(E, c, 0.0 if comp.fluid != 0 else LAST)
    window = ask_window(E, c, 0.0, ends)
    if window > 0.0:
        comp.want = window
        resume(E, c, now)
    else:
        heap_set(E, 2 * comp.ref + 1, now + max(0.0, min(ends, max(next_look(E, c), now - comp.born))))


@inner()
def _visit(E, j, y, now, computing, n):
    """The new job j meets job y and disturbs its component. Returns the number of members so far; where paces are not
    computed, 1 if the component was parked."""
    c = m.jobs(E)[y].comp
    if y == j or c < 0:
        return n
    if computing:
        return _take_apart(E, c, now, n)
    parked = m.comps(E)[c].parked != NOT_PARKED
    unpark(E, c, now)
    dissolve(E, c)
    return 1 if parked else n


@inner()
def _follows_own(E, f, j):
    """Whether a flow of j is not its first in the list of the link, so that the jobs on the link have been met."""
    g = m.chain(E)[f].next
    return g >= 0 and m.nodes(E)[m.chain(E)[g].node].job == j


@inner()
def meet(E, j, now, computing):
    """Visit all jobs that share a link that could be full, or a GPU, with a job; returns what the last visit did."""
    job = m.jobs(E)[j]
    n = int64(0)
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        for f in range(node.flow0, node.flow1):
            link = m.links(E)[m.flows(E)[f].link]
            if link.binding == 0 or _follows_own(E, f, j):
                continue
            g = link.shead
            while g >= 0:
                n = _visit(E, j, m.nodes(E)[m.chain(E)[g].node].job, now, computing != 0, n)
                g = m.chain(E)[g].next
        if node.gpu >= 0:
            y = m.gpus(E)[node.gpu].shead
            while y >= 0:
                n = _visit(E, j, m.nodes(E)[y].job, now, computing != 0, n)
                y = m.nodes(E)[y].gnext
    return n


@njit(cache=True)
def join(E, j):
    """Let a new job into the lists of its links and GPUs; the jobs it can influence lose their components.

    True if some of them now have events before this moment, which must be simulated first.
    """
    enter(E, j)
    if m.scalars(E).skip == 0:  # then no job has a component
        return False
    now = m.scalars(E).now
    job = m.jobs(E)[j]
    job.gap = math.inf
    job.calib = 1.0
    computing = _may_compute(E)
    for x in range(job.node0, job.node1):
        if m.nodes(E)[x].gpu >= 0:
            computing = False
    n = meet(E, j, now, int64(computing))
    if not computing:
        return n > 0
    if n > 0:
        job.state = PARKED
        m.members(E)[n] = j
        _put_together(E, n + 1, now)
    return False


@njit(cache=True)
def attach(E, j, uid, total, base, p0, p1, serial, starts, sizes):
    """Make an attached job of a program that was copied into the arenas: add their offsets to what was copied, fill in
    the job's row and let it join. True if jobs that it meets now have events before this moment, which must be
    simulated first.

    `starts` and `sizes` are of nodes, succ, flows, ranks, leads and follows.
    """
    node0, succ0, flow0, rank0, lead0, fol0 = starts
    n_nodes, n_succ, _, _, n_leads, n_fol = sizes
    job = m.jobs(E)[j]
    job.state = RUNNING
    job.uid = uid
    job.total = total
    job.base = base
    job.node0 = node0
    job.node1 = node0 + n_nodes
    job.p0 = p0
    job.p1 = p1
    job.mark = m.scalars(E).now
    job.serial = serial
    for x in range(node0, node0 + n_nodes):
        node = m.nodes(E)[x]
        node.job = j
        node.succ0 += succ0
        node.succ1 += succ0
        node.flow0 += flow0
        node.flow1 += flow0
        for f in range(node.flow0, node.flow1):
            m.chain(E)[f].node = x
        node.rank0 += rank0
        node.rank1 += rank0
        node.lead0 += lead0
        node.lead1 += lead0
        node.fol0 += fol0
        node.fol1 += fol0
    for i in range(succ0, succ0 + n_succ):
        m.succ(E)[i] = m.succ(E)[i] + node0
    for i in range(lead0, lead0 + n_leads):
        m.leads(E)[i].node += node0
        m.leads(E)[i].by += node0
    for i in range(fol0, fol0 + n_fol):
        m.follows(E)[i] = m.follows(E)[i] + lead0
    return join(E, j)


@inner()
def _regroups(E, c):
    """Whether the others of a component stay parked, at paces computed anew, when one of its jobs leaves."""
    comp = m.comps(E)[c]
    return _may_compute(E) and comp.ordered == 0 and comp.opened == 0 and comp.size > 1


@inner()
def _depart(E, j, now, n):
    """Take a job out of the lists of its links and GPUs, and its component apart; returns how many members wait."""
    c = m.jobs(E)[j].comp
    if c >= 0:
        if _regroups(E, c):
            n = _take_apart(E, c, now, n)
        else:
            dissolve(E, c)
    leave(E, j)
    m.jobs(E)[j].comp = -1
    m.scalars(E).budget += ALLOWANCE
    return n


@apart(void(TABLE, int64))
def retire(E, first):
    """Jobs that finished at this instant (from number `first` on) leave; the jobs they could influence regroup."""
    now = m.scalars(E).now
    n = int64(0)
    for i in range(first, m.scalars(E).n_finished):
        n = _depart(E, m.finished(E)[i], now, n)
    _put_together(E, n, now)


@inner()
def part(E, j):
    """A job that is stopped leaves; the jobs it could influence regroup."""
    now = m.scalars(E).now
    n = _depart(E, j, now, int64(0))
    m.jobs(E)[j].state = FREE
    _put_together(E, n, now)


@njit(cache=True)
def up_to_date(E, j):
    """Bring the component of a job up to date. True if it now has events before this moment, which must be simulated
    first."""
    c = m.jobs(E)[j].comp
    if c < 0 or m.comps(E)[c].parked == NOT_PARKED:
        return False
    now = m.scalars(E).now
    if m.comps(E)[c].parked == PARK_PACED and _regroups(E, c):
        settle_paced(E, c, now)
        return False
    unpark(E, c, now)
    return True
