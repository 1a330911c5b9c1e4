"""Skipping: stretches of simulated time whose outcome is known are not simulated.

A component is a set of jobs that can influence each other: through a link that they could saturate together, or a
shared GPU. Whenever its reference job ends an iteration the component's state (what every task is doing, and for how
much longer) is compared with a snapshot taken earlier (at powers of two: Brent's cycle search). If it is the same, the
component repeats itself and is *parked*: its events leave the queue, and one event wakes it shortly before a job ends.
A job alone is the simplest case. With `exact = false` a component that does not repeat is measured over a window and
parked at the measured pace of each job. Anything that touches a parked component first brings it up to date.
"""

import math

from numba import njit

from weft.network import memory_kernel as m
from weft.network.state import (
    ACTIVE,
    ADMIT_ALL,
    COMPUTE,
    F_EST_ERR,
    F_EST_TOL,
    F_EST_WEIGHT,
    F_JITTER,
    F_NOW,
    F_STRAGGLE_P,
    F_WINDOW,
    GATED,
    I_ADMIT,
    I_COMP_END,
    I_COMP_FREE,
    I_ESTIMATES,
    I_EXACT,
    I_ITERATIONS,
    I_PARKS,
    I_RECORDS,
    I_SHARING,
    KWAY,
    LATENCY,
    MAXMIN,
    NOT_PARKED,
    PARK_ESTIMATE,
    PARK_EXACT,
    PARKED,
    RUNNING,
)
from weft.sim.events_kernel import account, flush_record, remaining_bytes, turn
from weft.sim.heap_kernel import heap_drop, heap_set

MARGIN = 1e-9  # a link is never a bottleneck if all its jobs together want this much less than it has
WARM_UP = 2  # iterations before a measuring window opens


@njit(cache=True)
def update_binding(E, k):
    """Whether a link could ever be a bottleneck, given the jobs attached to it."""
    link = m.links(E)[k]
    total = 0.0
    j = -1
    of_job = 0.0
    n_jobs = 0
    f = link.shead
    while f >= 0:
        flow = m.flows(E)[f]
        node = m.nodes(E)[flow.node]
        if node.job != j:
            total += of_job
            of_job = 0.0
            j = node.job
            n_jobs += 1
        want = flow.n * node.alone
        if m.jobs(E)[j].serial != 0:
            of_job = max(of_job, want)
        else:
            of_job += want
        f = flow.snext
    total += of_job
    sharing = m.ints(E)[I_SHARING]
    counted = sharing == KWAY or (m.ints(E)[I_ADMIT] != ADMIT_ALL and link.port != 0)
    if (sharing == MAXMIN and total > link.capacity * (1.0 - MARGIN)) or (counted and n_jobs > 1):
        link.binding = 1
    else:
        link.binding = 0


@njit(cache=True)
def enter(E, j):
    """Add a job to the lists of all its links and GPUs."""
    job = m.jobs(E)[j]
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        for f in range(node.flow0, node.flow1):
            link = m.links(E)[m.flows(E)[f].link]
            m.flows(E)[f].sprev = -1
            m.flows(E)[f].snext = link.shead
            if link.shead >= 0:
                m.flows(E)[link.shead].sprev = f
            link.shead = f
        if node.gpu >= 0:
            gpu = m.gpus(E)[node.gpu]
            node.gprev = -1
            node.gnext = gpu.shead
            if gpu.shead >= 0:
                m.nodes(E)[gpu.shead].gprev = x
            gpu.shead = x
    for x in range(job.node0, job.node1):
        for f in range(m.nodes(E)[x].flow0, m.nodes(E)[x].flow1):
            update_binding(E, m.flows(E)[f].link)


@njit(cache=True)
def leave(E, j):
    """Take a job out of the lists of all its links and GPUs."""
    job = m.jobs(E)[j]
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        for f in range(node.flow0, node.flow1):
            flow = m.flows(E)[f]
            if flow.sprev >= 0:
                m.flows(E)[flow.sprev].snext = flow.snext
            else:
                m.links(E)[flow.link].shead = flow.snext
            if flow.snext >= 0:
                m.flows(E)[flow.snext].sprev = flow.sprev
        if node.gpu >= 0:
            if node.gprev >= 0:
                m.nodes(E)[node.gprev].gnext = node.gnext
            else:
                m.gpus(E)[node.gpu].shead = node.gnext
            if node.gnext >= 0:
                m.nodes(E)[node.gnext].gprev = node.gprev
    for x in range(job.node0, job.node1):
        for f in range(m.nodes(E)[x].flow0, m.nodes(E)[x].flow1):
            update_binding(E, m.flows(E)[f].link)


@njit(cache=True)
def _add(E, c, j):
    job = m.jobs(E)[j]
    job.comp = c
    job.next = m.comps(E)[c].head
    m.comps(E)[c].head = j
    m.comps(E)[c].size += 1


@njit(cache=True)
def form(E, j):
    """Gather into a new component every job that j can influence, directly or through others; j is its reference."""
    ints, jobs, nodes, flows, links, queue = m.ints(E), m.jobs(E), m.nodes(E), m.flows(E), m.links(E), m.work_stack(E)
    c = ints[I_COMP_FREE] - 1
    if c >= 0:
        ints[I_COMP_FREE] = m.comps(E)[c].ref + 1
    else:
        c = ints[I_COMP_END]
        ints[I_COMP_END] = c + 1
    comp = m.comps(E)[c]
    comp.head = -1
    comp.size = 0
    comp.parked = NOT_PARKED
    comp.ref = j
    comp.ordered = 1 if ints[I_ADMIT] != ADMIT_ALL else 0
    comp.opened = 0
    reset(E, c)
    queue[0] = j
    n = 1
    _add(E, c, j)
    i = 0
    while i < n:
        job = jobs[queue[i]]
        i += 1
        for x in range(job.node0, job.node1):
            node = nodes[x]
            if node.lead0 < node.lead1:
                comp.opened = 1
            for f in range(node.flow0, node.flow1):
                link = links[flows[f].link]
                link.comp = c
                if link.binding == 0:
                    continue
                g = link.shead
                while g >= 0:
                    y = nodes[flows[g].node].job
                    if jobs[y].comp != c:
                        _add(E, c, y)
                        queue[n] = y
                        n += 1
                    g = flows[g].snext
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


@njit(cache=True)
def dissolve(E, c):
    """Give a component up; its jobs form new ones when they next end an iteration."""
    j = m.comps(E)[c].head
    while j >= 0:
        m.jobs(E)[j].comp = -1
        j = m.jobs(E)[j].next
    m.comps(E)[c].ref = m.ints(E)[I_COMP_FREE] - 1
    m.comps(E)[c].head = -1
    m.ints(E)[I_COMP_FREE] = c + 1


@njit(cache=True)
def _disturb(E, j, now):
    """Un-park and give up the component of a job; True if it was parked."""
    c = m.jobs(E)[j].comp
    if c < 0:
        return False
    parked = m.comps(E)[c].parked != NOT_PARKED
    unpark(E, c, now)
    dissolve(E, c)
    return parked


@njit(cache=True)
def join(E, j):
    """Let a new job into the lists of its links and GPUs; those it can influence lose their components.

    True if some of them were parked: then they have events before this moment, to be simulated first.
    """
    enter(E, j)
    now = m.floats(E)[F_NOW]
    behind = False
    job = m.jobs(E)[j]
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        for f in range(node.flow0, node.flow1):
            link = m.links(E)[m.flows(E)[f].link]
            if link.binding == 0:
                continue
            g = link.shead
            while g >= 0:
                if _disturb(E, m.nodes(E)[m.flows(E)[g].node].job, now):
                    behind = True
                g = m.flows(E)[g].snext
        if node.gpu >= 0:
            y = m.gpus(E)[node.gpu].shead
            while y >= 0:
                if _disturb(E, m.nodes(E)[y].job, now):
                    behind = True
                y = m.nodes(E)[y].gnext
    return behind


@njit(cache=True)
def part(E, j):
    """Take a job out of the lists of its links and GPUs; its component is given up."""
    if m.jobs(E)[j].comp >= 0:
        dissolve(E, m.jobs(E)[j].comp)
    leave(E, j)


@njit(cache=True)
def reset(E, c):
    """Forget snapshots and windows: the component has changed."""
    comp = m.comps(E)[c]
    comp.has_snap = 0
    comp.ticks = 0
    comp.window = 0.0


@njit(cache=True)
def _clock(E, x, now):
    """How much longer a node goes on doing what it does."""
    node = m.nodes(E)[x]
    if node.kind != COMPUTE and node.state == ACTIVE:
        return remaining_bytes(E, x, now) / node.alone
    if node.state in (ACTIVE, GATED, LATENCY):
        return m.heap_key(E)[m.where(E)[2 * x]] - now
    return 0.0


@njit(cache=True)
def _gate_phase(E, j, now):
    job = m.jobs(E)[j]
    if job.gate_task < 0 or job.gate_period <= 0.0:
        return 0.0
    turns = (now - job.gate_epoch) / job.gate_period
    return turns - math.floor(turns)


@njit(cache=True)
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
                if job.gate_used == 0:
                    return False
            else:
                off = abs(_gate_phase(E, j, now) - _gate_phase(E, j, comp.snap_time))
                if min(off, 1.0 - off) * job.gate_period > tolerance:
                    return False
        j = job.next
    return True


@njit(cache=True)
def _busy(E, k, now):
    link = m.links(E)[k]
    return link.busy + (now - link.mark if link.flowing > 0 else 0.0)


@njit(cache=True)
def _book(E, j, now):
    """Write down what a job did up to now, so that what it did between two such moments can be multiplied."""
    account(E, j, now, 0, 0, 0)
    flush_record(E, j)


@njit(cache=True)
def _snapshot(E, c, now):
    comp = m.comps(E)[c]
    comp.has_snap = 1
    comp.snap_time = now
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        _book(E, j, now)
        job.snap_done = job.done
        job.snap_age = now - job.iter_start
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
    comp.snap_record = m.ints(E)[I_RECORDS]


@njit(cache=True)
def _open_window(E, c, now):
    comp = m.comps(E)[c]
    comp.window = m.floats(E)[F_WINDOW]
    comp.win_time = now
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        _book(E, j, now)
        job.win_done = job.done
        job.win_adjusted = job.adjusted
        job.win_comm = job.comm_s
        job.win_gate = job.gate_s
        job.win_gpu = job.gpu_s
        job.win_rate = 0.0
        for x in range(job.node0, job.node1):
            for f in range(m.nodes(E)[x].flow0, m.nodes(E)[x].flow1):
                k = m.flows(E)[f].link
                m.links(E)[k].win_busy = _busy(E, k, now)
        j = job.next
    comp.win_record = m.ints(E)[I_RECORDS]


@njit(cache=True)
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


@njit(cache=True)
def _park(E, c, now, kind, wake):
    """Take the component's events out of the queue, but for one that wakes it."""
    comp = m.comps(E)[c]
    comp.parked = kind
    comp.park_time = now
    comp.record1 = m.ints(E)[I_RECORDS]
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        job.state = PARKED
        for x in range(job.node0, job.node1):
            i = m.where(E)[2 * x]
            m.nodes(E)[x].snap = m.heap_key(E)[i] if i >= 0 else -1.0
            heap_drop(E, 2 * x)
        j = job.next
    heap_set(E, 2 * comp.ref + 1, wake)


@njit(cache=True)
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
        _book(E, j, now)
        j = m.jobs(E)[j].next
    comp.record0 = comp.snap_record
    comp.period = now - comp.snap_time
    comp.periods = periods
    m.ints(E)[I_PARKS] += 1
    _park(E, c, now, PARK_EXACT, now + periods * comp.period)
    return True


@njit(cache=True)
def _try_estimate(E, c, now):
    """Park at the measured pace once two looks at it agree, or the window is as long as it may get."""
    comp = m.comps(E)[c]
    j = comp.head
    while j >= 0:
        if m.jobs(E)[j].done - m.jobs(E)[j].win_done < comp.window:
            return
        j = m.jobs(E)[j].next
    span = now - comp.win_time
    worst = 0.0
    wake = math.inf
    work = 0.0
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        rate = (job.done - job.win_done) / span
        worst = max(worst, abs(job.win_rate / rate - 1.0))
        job.win_rate = rate
        wake = min(wake, (job.total - job.done - 2.0 - job.carry) / rate)
        work += rate
        j = job.next
    if worst > m.floats(E)[F_EST_TOL] and comp.window < 16.0 * m.floats(E)[F_WINDOW]:
        comp.window *= 2.0
        return
    if wake * work < 4.0 * comp.size:
        return
    j = comp.head
    while j >= 0:
        _book(E, j, now)
        m.jobs(E)[j].per = m.jobs(E)[j].win_rate
        j = m.jobs(E)[j].next
    comp.record0 = comp.win_record
    comp.period = span
    m.ints(E)[I_ESTIMATES] += 1
    m.floats(E)[F_EST_ERR] += worst * wake * work
    m.floats(E)[F_EST_WEIGHT] += wake * work
    _park(E, c, now, PARK_ESTIMATE, now + wake)


@njit(cache=True)
def tick(E, j, now):
    """A job has ended an iteration and the instant is settled: can its component skip?"""
    if m.jobs(E)[j].state != RUNNING:
        return
    if m.jobs(E)[j].comp < 0:
        form(E, j)
    c = m.jobs(E)[j].comp
    comp = m.comps(E)[c]
    if comp.ref != j or comp.parked != NOT_PARKED:
        return
    comp.ticks += 1
    if comp.opened == 0 and m.floats(E)[F_JITTER] <= 0.0 and m.floats(E)[F_STRAGGLE_P] <= 0.0:
        if comp.has_snap != 0 and _matches(E, c, now) and _try_exact(E, c, now):
            return
        if comp.ticks & (comp.ticks - 1) == 0:
            _snapshot(E, c, now)
    if m.ints(E)[I_EXACT] == 0:
        if comp.window <= 0.0:
            if comp.ticks >= WARM_UP:
                _open_window(E, c, now)
        elif comp.size < 4 or comp.ticks & 3 == 0:
            _try_estimate(E, c, now)


@njit(cache=True)
def _carry_bytes(E, j, iterations):
    """Book the bytes of skipped iterations on the links they crossed."""
    job = m.jobs(E)[j]
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        for f in range(node.flow0, node.flow1):
            m.links(E)[m.flows(E)[f].link].bytes += iterations * node.amount * m.flows(E)[f].n


@njit(cache=True)
def unpark(E, c, now):
    """Bring a parked component up to date: whole periods are added up, what is left is put back into the queue.

    Its next events may lie before `now`; they concern nobody else, and the next run handles them first.
    """
    comp = m.comps(E)[c]
    if comp.parked == NOT_PARKED:
        return
    exact = comp.parked == PARK_EXACT
    passed = now - comp.park_time
    periods = 0.0
    shift = passed
    if exact:
        periods = min(comp.periods, math.floor(passed / comp.period))
        shift = periods * comp.period
    heap_drop(E, 2 * comp.ref + 1)
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        first_done = job.snap_done if exact else job.win_done
        if exact:
            steps = periods * job.per
        else:
            steps = job.per * passed + job.carry
            whole = min(math.floor(steps), job.total - job.done - 1.0)
            job.carry = min(steps - whole, 1.0)
            steps = whole
        seen = float(job.done - first_done)
        factor = steps / seen
        job.state = RUNNING
        job.comm_s += factor * (job.comm_s - (job.snap_comm if exact else job.win_comm))
        job.gate_s += factor * (job.gate_s - (job.snap_gate if exact else job.win_gate))
        job.gpu_s += factor * (job.gpu_s - (job.snap_gpu if exact else job.win_gpu))
        job.adjusted += int(factor * (job.adjusted - (job.snap_adjusted if exact else job.win_adjusted)))
        job.done += int(steps)
        m.ints(E)[I_ITERATIONS] += int(steps)
        job.iter_start += shift
        job.mark += shift
        for x in range(job.node0, job.node1):
            node = m.nodes(E)[x]
            node.mark += shift
            node.began += shift
            if node.snap >= 0.0:
                heap_set(E, 2 * x, node.snap + shift)
        _carry_bytes(E, j, steps)
        job.snap_comm = factor  # kept for the records below
        j = job.next
    _shift_links(E, c, exact, passed, periods, shift)
    for r in range(comp.record0, comp.record1):
        j = m.records(E)[r].slot
        if m.jobs(E)[j].comp == c and m.jobs(E)[j].uid == m.records(E)[r].uid:
            m.records(E)[r].count *= 1.0 + m.jobs(E)[j].snap_comm
    comp.parked = NOT_PARKED
    reset(E, c)


@njit(cache=True)
def _shift_links(E, c, exact, passed, periods, shift):
    """Busy time of the component's links over the skipped stretch (once per link: the mark `stamp` is negative)."""
    comp = m.comps(E)[c]
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        for x in range(job.node0, job.node1):
            for f in range(m.nodes(E)[x].flow0, m.nodes(E)[x].flow1):
                link = m.links(E)[m.flows(E)[f].link]
                if link.comp != c or link.stamp == -1:
                    continue
                link.stamp = -1
                if exact:
                    at_park = link.busy + (comp.park_time - link.mark if link.flowing > 0 else 0.0)
                    link.busy += periods * (at_park - link.snap_busy)
                else:
                    at_park = link.busy + (comp.park_time - link.mark if link.flowing > 0 else 0.0)
                    link.busy += passed / comp.period * (at_park - link.win_busy)
                if link.flowing > 0:
                    link.mark += shift
        j = job.next
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        for x in range(job.node0, job.node1):
            for f in range(m.nodes(E)[x].flow0, m.nodes(E)[x].flow1):
                m.links(E)[m.flows(E)[f].link].stamp = 0
        j = job.next
