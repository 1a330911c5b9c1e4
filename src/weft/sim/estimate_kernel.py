"""exact = false: components that do not repeat are measured over a window, then parked at the pace of each job.

Where membership changes faster than a window takes, the pace is computed instead: a *fluid* model in which a link sees
every other job for the share of the time that it sends there. Its answer is scaled by what the last window measured
against it. Such a component is not simulated at all until it has been left in peace for a while.
"""

import math

from numba import boolean, float64, int64, njit

from weft.network import memory_kernel as m
from weft.network.memory_kernel import TABLE, inner
from weft.network.state import (
    ACTIVE,
    ADMIT_ALL,
    COMPUTE,
    DONE,
    F_B,
    F_EST_ERR,
    F_EST_TOL,
    F_EST_WEIGHT,
    F_ETA,
    F_JITTER,
    F_NOW,
    F_STRAGGLE_P,
    F_WINDOW,
    FINISHED,
    FREE,
    FROZEN,
    I_ADMIT,
    I_BUDGET,
    I_ESTIMATES,
    I_EXACT,
    I_FINISHED,
    I_RECORDS,
    I_SHARING,
    I_SKIP,
    IDEAL,
    KWAY,
    LATENCY,
    NOT_PARKED,
    PARK_EXACT,
    PARK_PACED,
    PARKED,
    RUNNING,
)
from weft.sim.components_kernel import dissolve, enter, form, leave
from weft.sim.events_kernel import flush_record, unlink
from weft.sim.heap_kernel import heap_drop, heap_set
from weft.sim.skip_kernel import _book, freeze, park, resume, settle_paced, tick_exact, unpark

WARM_UP = 2  # iterations before a measuring window opens
PEACE = 1.5  # a component is tried again when it has been left alone for so many windows
WORTH = 2.0  # a window is lengthened if it is likely to save so many times the iterations that it costs
ALLOWANCE = 20  # what the budget of windows grows by with every job that leaves
ROUNDS = 12  # of the fluid model
CALIBRATION = 2.0  # a window corrects the fluid model by no more than this factor


@inner()
def _path_s(E, j):
    """Time of one iteration if each transfer takes `takes`: longest path, a job's own transfers one after the other."""
    job = m.jobs(E)[j]
    nodes = m.nodes(E)
    last = 0.0
    net_free = 0.0
    for x in range(job.node0, job.node1):
        nodes[x].ready_s = 0.0
    for x in range(job.node0, job.node1):
        node = nodes[x]
        start = node.ready_s
        if node.kind == COMPUTE:
            end = start + node.amount
        else:
            end = max(start, net_free) + node.takes
            net_free = end
        last = max(last, end)
        for s in range(node.succ0, node.succ1):
            y = m.succ(E)[s]
            nodes[y].ready_s = max(nodes[y].ready_s, end)
    return last


@inner()
def _fluid_round(E, c):
    """One round: loads of the links from what transfers take now, then what they take under these loads."""
    nodes, flows, links = m.nodes(E), m.flows(E), m.links(E)
    k_way = m.ints(E)[I_SHARING] == KWAY
    b, eta = m.floats(E)[F_B], m.floats(E)[F_ETA]
    for step in range(3):
        j = m.comps(E)[c].head
        while j >= 0:
            job = m.jobs(E)[j]
            for x in range(job.node0, job.node1):
                node = nodes[x]
                if node.kind == COMPUTE:
                    continue
                share = node.takes * job.fluid
                rate = node.alone
                for f in range(node.flow0, node.flow1):
                    link = links[flows[f].link]
                    if step == 0:
                        link.load = 0.0
                    elif step == 1:
                        link.load += flows[f].n * share
                    elif k_way:
                        others = max(0.0, link.load - share)
                        rate = min(rate, 1.0 / ((1.0 + others) * b + others * eta))
                    else:
                        others = max(0.0, link.load - flows[f].n * share)
                        rate = min(rate, link.capacity / (flows[f].n + others))
                if step == 2:
                    node.takes = 0.5 * (node.takes + node.latency + node.amount / rate)
            if step == 2:
                job.fluid = 1.0 / _path_s(E, j)
            j = job.next


@inner()
def fluid_pace(E, c):
    """Iterations per second of each job of a component, by the fluid model, into job.fluid."""
    nodes = m.nodes(E)
    j = m.comps(E)[c].head
    while j >= 0:
        job = m.jobs(E)[j]
        job.gpu_per = 0.0
        for x in range(job.node0, job.node1):
            node = nodes[x]
            if node.kind == COMPUTE:
                job.gpu_per += node.weight * node.amount
            else:
                node.takes = 0.0
        alone = _path_s(E, j)
        for x in range(job.node0, job.node1):
            if nodes[x].kind != COMPUTE:
                nodes[x].takes = nodes[x].latency + nodes[x].amount / nodes[x].alone
        job.fluid = 1.0 / _path_s(E, j)
        job.comm_per = alone  # compute path, until the pace is known
        j = job.next
    for _ in range(ROUNDS):
        _fluid_round(E, c)


@inner()
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
        j = job.next
    comp.win_record = m.ints(E)[I_RECORDS]


@inner()
def _measured(E, j, seen, span, comm, gate, gpu, adjusted):
    """Set a job's pace from what it did in a stretch of `span` seconds."""
    job = m.jobs(E)[j]
    job.seen = seen
    job.per = seen / span
    job.comm_per = (job.comm_s - comm) / seen
    job.gate_per = (job.gate_s - gate) / seen
    job.gpu_per = (job.gpu_s - gpu) / seen
    if m.floats(E)[F_JITTER] <= 0.0 and m.floats(E)[F_STRAGGLE_P] <= 0.0:
        job.gpu_per = 0.0  # every iteration computes as much; the window cuts some of them in two
        for x in range(job.node0, job.node1):
            if m.nodes(E)[x].kind == COMPUTE:
                job.gpu_per += m.nodes(E)[x].weight * m.nodes(E)[x].amount
    job.adjusted_per = (job.adjusted - adjusted) / seen


@inner()
def _take_measures(E, c, now):
    """Paces from the window, and how they compare with the fluid model."""
    comp = m.comps(E)[c]
    span = now - comp.win_time
    fluid_able = comp.ordered == 0 and comp.opened == 0
    if fluid_able:
        fluid_pace(E, c)
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        _book(E, j, now)
        seen = float(job.done - job.win_done)
        _measured(E, j, seen, span, job.win_comm, job.win_gate, job.win_gpu, job.win_adjusted)
        if fluid_able:
            job.calib = max(1.0 / CALIBRATION, min(CALIBRATION, job.per / job.fluid))
        j = job.next
    comp.record0 = comp.win_record


@inner()
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
        job.per = rate
        wake = min(wake, (job.total - job.done - 2.0 - job.carry) / rate)
        work += rate
        j = job.next
    again = min(comp.gap, wake) * work > WORTH * 2.0 * comp.window * comp.size and _pay(E, c, span)
    if worst > m.floats(E)[F_EST_TOL] and comp.window < 4.0 * m.floats(E)[F_WINDOW] and again:
        comp.window *= 2.0
        return
    if wake * work < 4.0 * comp.size:
        return
    _take_measures(E, c, now)
    m.ints(E)[I_ESTIMATES] += 1
    m.floats(E)[F_EST_ERR] += worst * wake * work
    m.floats(E)[F_EST_WEIGHT] += wake * work
    park(E, c, now, PARK_PACED, now + wake)


@inner()
def tick(E, j, now):
    """A job has ended an iteration and the instant is settled: can its component skip?"""
    if m.jobs(E)[j].state != RUNNING:
        return
    if m.jobs(E)[j].comp < 0:
        form(E, j)
        m.comps(E)[m.jobs(E)[j].comp].born = now
    c = m.jobs(E)[j].comp
    comp = m.comps(E)[c]
    if comp.ref != j or comp.parked != NOT_PARKED:
        return
    comp.ticks += 1
    steady = m.floats(E)[F_JITTER] <= 0.0 and m.floats(E)[F_STRAGGLE_P] <= 0.0
    if comp.opened == 0 and steady and tick_exact(E, c, now):
        return
    if m.ints(E)[I_EXACT] == 0:
        if comp.window <= 0.0:
            if comp.ticks >= WARM_UP:
                _open_window(E, c, now)
        elif comp.size < 4 or comp.ticks & 3 == 0:
            _try_estimate(E, c, now)


@inner()
def _may_compute(E):
    """Whether paces may be computed in this run at all: no admission rule, and the user does not want it exact."""
    return (
        m.ints(E)[I_EXACT] == 0
        and m.ints(E)[I_SKIP] != 0
        and m.ints(E)[I_ADMIT] == ADMIT_ALL
        and m.ints(E)[I_SHARING] != IDEAL
    )


@inner()
def _to_pace(E, c, now):
    """Stop simulating a component: whatever it was doing, it is now up to date and its events are out of the queue."""
    comp = m.comps(E)[c]
    if comp.parked == PARK_EXACT:
        j = comp.head
        while j >= 0:
            job = m.jobs(E)[j]
            seen = float(job.done - job.snap_done)
            _measured(E, j, seen, comp.period, job.snap_comm, job.snap_gate, job.snap_gpu, job.snap_adjusted)
            j = job.next
        comp.parked = PARK_PACED
        freeze(E, c)
    if comp.parked == PARK_PACED:
        settle_paced(E, c, now)
    else:
        j = comp.head
        while j >= 0:
            _book(E, j, now)
            j = m.jobs(E)[j].next
        comp.record0 = m.ints(E)[I_RECORDS]
        park(E, c, now, PARK_PACED, now)
        comp.record0 = comp.record1
    heap_drop(E, 2 * comp.ref + 1)


@inner((TABLE, int64, float64, int64))
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
def _pay(E, c, seconds):
    """Take the price of simulating a component for so long from the budget, if there is enough left."""
    price = 0.0
    j = m.comps(E)[c].head
    while j >= 0:
        job = m.jobs(E)[j]
        for x in range(job.node0, job.node1):
            price += (1 + m.nodes(E)[x].flow1 - m.nodes(E)[x].flow0) * job.per * seconds
        j = job.next
    if price > m.ints(E)[I_BUDGET]:
        return False
    m.ints(E)[I_BUDGET] -= int(price)
    return True


@inner()
def _first_end(E, c):
    """Seconds until the first job of a component is done at its pace."""
    ends = math.inf
    j = m.comps(E)[c].head
    while j >= 0:
        job = m.jobs(E)[j]
        ends = min(ends, (job.total - job.done - job.carry) / job.per)
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
    slowest = 0.0
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        job.per = job.fluid * job.calib
        job.comm_per = max(0.0, 1.0 / job.per - job.comm_per)
        job.gate_per = 0.0
        job.adjusted_per = 0.0
        job.seen = 0.0
        slowest = max(slowest, 1.0 / job.per)
        j = job.next
    comp.quiet = PEACE * (WARM_UP + m.floats(E)[F_WINDOW]) * slowest
    ends = _first_end(E, c)
    if _pay(E, c, min(comp.gap, ends, comp.quiet / PEACE)):
        resume(E, c, now)
        return
    comp.fluid = 1
    m.ints(E)[I_ESTIMATES] += 1
    comp.record0 = m.ints(E)[I_RECORDS]
    park(E, c, now, PARK_PACED, now + max(0.0, min(ends, comp.quiet)))


@inner((TABLE, int64, float64))
def _put_together(E, n, now):
    """Form components of the jobs in members, and decide for each whether to simulate it or to compute its pace."""
    for i in range(n):
        j = m.members(E)[i]
        if m.jobs(E)[j].comp < 0 and m.jobs(E)[j].state == PARKED:
            form(E, j)
            _decide(E, m.jobs(E)[j].comp, now)


@inner()
def wake(E, j, now):
    """The event that ends a parked stretch: a job ends, or the component has been left in peace long enough."""
    c = m.jobs(E)[j].comp
    comp = m.comps(E)[c]
    if comp.fluid == 0:
        unpark(E, c, now)
        return
    settle_paced(E, c, now)
    ended = False
    y = comp.head
    while y >= 0:
        job = m.jobs(E)[y]
        if job.total - job.done - job.carry <= 1e-6:
            _end_here(E, y, now)
            ended = True
        y = job.next
    if ended:
        return
    comp.gap = max(comp.gap, now - comp.born)
    ends = _first_end(E, c)
    if ends > comp.quiet and _pay(E, c, comp.quiet / PEACE):
        resume(E, c, now)
    else:
        heap_set(E, 2 * comp.ref + 1, now + max(0.0, ends))


@inner()
def _take_back(E, x):
    """Un-book a task of the iteration that was under way when its job was parked: the pace counted it anew."""
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
    m.finished(E)[m.ints(E)[I_FINISHED]] = j
    m.ints(E)[I_FINISHED] += 1


@inner((TABLE, int64, int64, float64, boolean, int64))
def _visit(E, j, y, now, computing, n):
    """A job that a newcomer j meets: its component is disturbed. Returns (members so far, or 1 if it was parked)."""
    c = m.jobs(E)[y].comp
    if y == j or c < 0:
        return n
    if computing:
        return _take_apart(E, c, now, n)
    parked = m.comps(E)[c].parked != NOT_PARKED
    unpark(E, c, now)
    dissolve(E, c)
    return 1 if parked else n


@njit(cache=True)
def join(E, j):
    """Let a new job into the lists of its links and GPUs; those it can influence lose their components.

    True if some of them have events before this moment now, to be simulated first.
    """
    enter(E, j)
    now = m.floats(E)[F_NOW]
    job = m.jobs(E)[j]
    job.gap = math.inf
    job.calib = 1.0
    computing = _may_compute(E)
    for x in range(job.node0, job.node1):
        if m.nodes(E)[x].gpu >= 0:
            computing = False
    n = 0
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        for f in range(node.flow0, node.flow1):
            link = m.links(E)[m.flows(E)[f].link]
            if link.binding == 0:
                continue
            g = link.shead
            while g >= 0:
                n = _visit(E, j, m.nodes(E)[m.flows(E)[g].node].job, now, computing, n)
                g = m.flows(E)[g].snext
        if node.gpu >= 0:
            y = m.gpus(E)[node.gpu].shead
            while y >= 0:
                n = _visit(E, j, m.nodes(E)[y].job, now, computing, n)
                y = m.nodes(E)[y].gnext
    if not computing:
        return n > 0
    if n > 0:
        job.state = PARKED
        m.members(E)[n] = j
        _put_together(E, n + 1, now)
    return False


@inner()
def _regroups(E, c):
    """Whether the others of a component stay parked, at paces computed anew, when one of it leaves."""
    comp = m.comps(E)[c]
    return _may_compute(E) and comp.ordered == 0 and comp.opened == 0 and comp.size > 1


@inner((TABLE, int64, float64, int64))
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
    m.ints(E)[I_BUDGET] += ALLOWANCE
    return n


@inner((TABLE, int64))
def retire(E, first):
    """Jobs that finished at this instant (from the first-th on) leave; those they could influence regroup."""
    now = m.floats(E)[F_NOW]
    n = 0
    for i in range(first, m.ints(E)[I_FINISHED]):
        n = _depart(E, m.finished(E)[i], now, n)
    _put_together(E, n, now)


@inner()
def part(E, j):
    """A job that is stopped leaves; those it could influence regroup."""
    now = m.floats(E)[F_NOW]
    n = _depart(E, j, now, 0)
    m.jobs(E)[j].state = FREE
    _put_together(E, n, now)


@njit(cache=True)
def up_to_date(E, j):
    """Bring the component of a job up to date; True if it has events before this moment now, to be simulated first."""
    c = m.jobs(E)[j].comp
    if c < 0 or m.comps(E)[c].parked == NOT_PARKED:
        return False
    now = m.floats(E)[F_NOW]
    if m.comps(E)[c].parked == PARK_PACED and _regroups(E, c):
        settle_paced(E, c, now)
        return False
    unpark(E, c, now)
    return True
