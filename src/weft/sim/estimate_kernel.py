"""exact = false: components that do not repeat are measured over a window, then parked at the pace of each job.

Where membership changes faster than a window takes, the pace is computed instead: a *fluid* model in which a link sees
every other job for the share of the time that it sends there. Its answer is scaled by what the last window measured
against it. Such a component is not simulated at all until it has been left in peace for a while.
"""

import math

from numba import float64, int64, void

from weft.network import memory_kernel as m
from weft.network.memory_kernel import TABLE, apart, inner
from weft.network.state import (
    COMPUTE,
    F_EST_ERR,
    F_EST_WEIGHT,
    F_JITTER,
    F_STRAGGLE_P,
    F_WINDOW,
    I_BUDGET,
    I_ESTIMATES,
    I_EXACT,
    I_RECORDS,
    NOT_PARKED,
    PARK_PACED,
    RUNNING,
)
from weft.sim.components_kernel import form
from weft.sim.fluid_kernel import fluid_pace
from weft.sim.park_kernel import book, park
from weft.sim.skip_kernel import tick_exact

WARM_UP = 2  # iterations before a measuring window opens
WORTH = 2.0  # a window is lengthened if it is likely to save so many times the iterations that it costs ...
AGREE = 0.0005  # ... and two looks at it differ by more than this
LOOKS = 512.0  # iterations of all jobs together that a first window asks for ...
LEAST = 8.0  # ... and of each of them at least
REST = 8.0  # a pace from a short window is trusted for so many times its length
CALIBRATION = 2.0  # a window corrects the fluid model by no more than this factor


@inner()
def first_window(E, c):
    """Iterations of a component's first window; short where jobs come and go: the more jobs there are, the more of
    their meetings each one sees, and the dearer it is to watch them. Who outlasts that measures again, in full."""
    whole = m.floats(E)[F_WINDOW]
    if m.comps(E)[c].gap == math.inf or m.comps(E)[c].lasting != 0:
        return whole
    return max(LEAST, min(whole, LOOKS / m.comps(E)[c].size))


@inner()
def _open_window(E, c, now):
    comp = m.comps(E)[c]
    comp.window = first_window(E, c)
    comp.win_time = now
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        book(E, j, now)
        job.win_done = job.done
        job.win_adjusted = job.adjusted
        job.win_comm = job.comm_s
        job.win_gate = job.gate_s
        job.win_gpu = job.gpu_s
        job.win_rate = 0.0
        j = job.next
    comp.win_record = m.ints(E)[I_RECORDS]


@inner()
def measured(E, j, seen, span, comm, gate, gpu, adjusted):
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
        book(E, j, now)
        seen = float(job.done - job.win_done)
        measured(E, j, seen, span, job.win_comm, job.win_gate, job.win_gpu, job.win_adjusted)
        if fluid_able:
            job.calib = max(1.0 / CALIBRATION, min(CALIBRATION, job.per / job.fluid))
        j = job.next
    comp.record0 = comp.win_record


@inner()
def pay(E, c, seconds):
    """Take the price of simulating a component for so long from the budget, if there is enough left."""
    jobs, nodes = m.jobs(E), m.nodes(E)
    price = 0.0
    j = m.comps(E)[c].head
    while j >= 0:
        job = jobs[j]
        for x in range(job.node0, job.node1):
            price += (1 + nodes[x].flow1 - nodes[x].flow0) * job.per * seconds
        j = job.next
    if price > m.ints(E)[I_BUDGET]:
        return False
    m.ints(E)[I_BUDGET] -= int(price)
    return True


@inner()
def _try_estimate(E, c, now):
    """Park at the measured pace once two looks at it agree (the first at half the window), or it is long enough."""
    comp = m.comps(E)[c]
    half = m.jobs(E)[comp.head].win_rate == 0.0
    wanted = 0.5 * comp.window if half else comp.window
    j = comp.head
    while j >= 0:
        if m.jobs(E)[j].done - m.jobs(E)[j].win_done < wanted:
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
    if half:
        return
    whole = m.floats(E)[F_WINDOW]
    outlasts = comp.window < whole and pay(E, c, span * whole / comp.window)
    if outlasts:
        comp.lasting = 1
        if now - comp.born > comp.gap:
            comp.window = whole
            return
    again = min(comp.gap, wake) * work > WORTH * 2.0 * comp.window * comp.size and pay(E, c, span)
    if worst > AGREE and comp.window < whole and again:
        comp.window *= 2.0
        return
    if wake * work < 4.0 * comp.size:
        return
    _take_measures(E, c, now)
    m.ints(E)[I_ESTIMATES] += 1
    m.floats(E)[F_EST_ERR] += worst * wake * work
    m.floats(E)[F_EST_WEIGHT] += wake * work
    if outlasts:
        wake = min(wake, max(comp.gap, REST * span))
    park(E, c, now, PARK_PACED, now + wake)


@apart(void(TABLE, int64, float64))
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
