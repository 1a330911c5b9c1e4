"""Components: sets of jobs that can influence each other, through a link that they could saturate together or through a
shared GPU. Jobs outside a component never change what happens inside."""

import math

from numba import int64, njit, void

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.memory_kernel import TABLE, apart, inner
from weft.sim.compiled.state import (
    ADMIT_ALL,
    KWAY,
    MAXMIN,
    NOT_PARKED,
    RULE_NONE,
)

MARGIN = 1e-9  # a link is never a bottleneck if all its jobs together want less than its capacity by this share


@inner()
def update_binding(E, k):
    """Note whether a link could ever be a bottleneck, given the jobs attached to it. Where a rule sets caps, any link
    could be: the caps say more than the jobs' demands, and jobs have many flows."""
    link, jobs, nodes, flows, chain = m.links(E)[k], m.jobs(E), m.nodes(E), m.flows(E), m.chain(E)
    if m.scalars(E).rule != RULE_NONE:
        link.binding = 1
        return
    total = 0.0
    j = -1
    of_job = 0.0
    n_jobs = 0
    f = link.shead
    while f >= 0:
        node = nodes[chain[f].node]
        if node.job != j:
            total += of_job
            of_job = 0.0
            j = node.job
            n_jobs += 1
        want = flows[f].n * node.alone
        if jobs[j].serial != 0:
            of_job = max(of_job, want)
        else:
            of_job += want
        f = chain[f].next
    total += of_job
    sharing = m.scalars(E).sharing
    counted = sharing == KWAY or (m.scalars(E).admit != ADMIT_ALL and link.port != 0)
    if (sharing == MAXMIN and total > link.capacity * (1.0 - MARGIN)) or (counted and n_jobs > 1):
        link.binding = 1
    else:
        link.binding = 0


@inner()
def _more_seats(E, k):
    """Move a link's block of seats to the end of all, where it has twice the room it needs now."""
    link, seats = m.links(E)[k], m.seats(E)
    start = m.scalars(E).n_seats
    for i in range(link.count):
        old, new = seats[link.seat0 + i], seats[start + i]
        new.node = old.node
        new.n = old.n
        new.flow = old.flow
        m.flows(E)[new.flow].seat = start + i
    link.seat0 = start
    link.room = 2 * link.attached
    m.scalars(E).n_seats = start + link.room


@apart(void(TABLE, int64))
def enter(E, j):
    """Add a job to the lists of all its links and GPUs."""
    job = m.jobs(E)[j]
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        for f in range(node.flow0, node.flow1):
            flow_link = m.flows(E)[f].link
            link = m.links(E)[flow_link]
            m.chain(E)[f].prev = -1
            m.chain(E)[f].next = link.shead
            if link.shead >= 0:
                m.chain(E)[link.shead].prev = f
            link.shead = f
            link.attached += 1
            if link.attached > link.room:
                _more_seats(E, flow_link)
        if node.gpu >= 0:
            gpu = m.gpus(E)[node.gpu]
            node.gprev = -1
            node.gnext = gpu.shead
            if gpu.shead >= 0:
                m.nodes(E)[gpu.shead].gprev = x
            gpu.shead = x
    for x in range(job.node0, job.node1):
        for f in range(m.nodes(E)[x].flow0, m.nodes(E)[x].flow1):
            if m.links(E)[m.flows(E)[f].link].shead == f:  # true once per link, at the job's last flow there
                update_binding(E, m.flows(E)[f].link)


@apart(void(TABLE, int64))
def leave(E, j):
    """Take a job out of the lists of all its links and GPUs.

    A job's flows stand side by side in the list of a link and leave it from the back. So the job has left the link when
    the flow before the one that leaves belongs to another job.
    """
    job = m.jobs(E)[j]
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        for f in range(node.flow0, node.flow1):
            k, stands = m.flows(E)[f].link, m.chain(E)[f]
            m.links(E)[k].attached -= 1
            if stands.prev >= 0:
                m.chain(E)[stands.prev].next = stands.next
            else:
                m.links(E)[k].shead = stands.next
            if stands.next >= 0:
                m.chain(E)[stands.next].prev = stands.prev
            if stands.prev < 0 or m.nodes(E)[m.chain(E)[stands.prev].node].job != j:
                update_binding(E, k)
        if node.gpu >= 0:
            if node.gprev >= 0:
                m.nodes(E)[node.gprev].gnext = node.gnext
            else:
                m.gpus(E)[node.gpu].shead = node.gnext
            if node.gnext >= 0:
                m.nodes(E)[node.gnext].gprev = node.gprev


@inner()
def _add(E, c, j):
    job = m.jobs(E)[j]
    job.comp = c
    job.next = m.comps(E)[c].head
    m.comps(E)[c].head = j
    m.comps(E)[c].size += 1


@njit((TABLE, int64), cache=True)
def reset(E, c):
    """Forget snapshots and windows: the component has changed."""
    comp = m.comps(E)[c]
    comp.has_snap = 0
    comp.ticks = 0
    comp.window = 0.0


@inner()
def _new(E, j):
    """A component without jobs, to be that of j."""
    scalars = m.scalars(E)
    c = scalars.comp_free - 1
    if c >= 0:
        scalars.comp_free = m.comps(E)[c].ref + 1
    else:
        c = scalars.comp_end
        scalars.comp_end = c + 1
    comp = m.comps(E)[c]
    comp.head = -1
    comp.size = 0
    comp.parked = NOT_PARKED
    comp.ref = j
    comp.ordered = 1 if scalars.admit != ADMIT_ALL else 0
    comp.opened = 0
    comp.fluid = 0
    comp.gap = math.inf
    comp.want = 0.0
    scalars.formed = scalars.formed + 1 & 0x7FFFFFFF
    comp.mark = scalars.formed
    reset(E, c)
    return c


@apart(void(TABLE, int64))
def form(E, j):
    """Gather into a new component every job that j can influence, directly or through others; j is its reference."""
    jobs, nodes, flows, links, queue = m.jobs(E), m.nodes(E), m.flows(E), m.links(E), m.work_stack(E)
    chain = m.chain(E)
    c = _new(E, j)
    comp = m.comps(E)[c]
    queue[0] = j
    n = 1
    _add(E, c, j)
    i = 0
    while i < n:
        job = jobs[queue[i]]
        i += 1
        comp.gap = min(comp.gap, job.gap)
        if job.gate_task >= 0:
            comp.ordered = 1
        for x in range(job.node0, job.node1):
            node = nodes[x]
            if node.lead0 < node.lead1:
                comp.opened = 1
            for f in range(node.flow0, node.flow1):
                link = links[flows[f].link]
                if link.comp == comp.mark:  # the jobs on it are known already
                    continue
                link.comp = comp.mark
                if link.binding == 0:
                    continue
                g = link.shead
                while g >= 0:
                    y = nodes[chain[g].node].job
                    if jobs[y].comp != c:
                        _add(E, c, y)
                        queue[n] = y
                        n += 1
                    g = chain[g].next
            if node.gpu >= 0:
                y = m.gpus(E)[node.gpu].shead
                while y >= 0:
                    other = nodes[y].job
                    if jobs[other].comp != c:
                        comp.ordered = 1
                        _add(E, c, other)
                        queue[n] = other
                        n += 1
                    y = nodes[y].gnext


@inner()
def dissolve(E, c):
    """Give a component up; its jobs form new ones when they next end an iteration."""
    j = m.comps(E)[c].head
    while j >= 0:
        m.jobs(E)[j].comp = -1
        j = m.jobs(E)[j].next
    m.comps(E)[c].ref = m.scalars(E).comp_free - 1
    m.comps(E)[c].head = -1
    m.scalars(E).comp_free = c + 1
