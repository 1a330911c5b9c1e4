"""exact = false: components that do not repeat are measured over a window, then parked at the pace of each job.

Where jobs come and go faster than windows can be paid for, the pace is computed instead, by a *fluid* model in which a
link sees every other job for the share of the time that it sends there. By itself the model is off by several per cent,
but for any one job nearly always in the same direction, so its answer is scaled by what the last window measured. Such
a component is not simulated at all until what was left out is worth the price of a window.
"""

import math

from numba import float64, int64, void

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.components_kernel import form
from weft.sim.compiled.fluid_kernel import fluid_pace
from weft.sim.compiled.memory_kernel import TABLE, apart, inner
from weft.sim.compiled.park_kernel import book, park
from weft.sim.compiled.skip_kernel import tick_exact
from weft.sim.compiled.state import (
    COMPUTE,
    NOT_PARKED,
    PARK_PACED,
    RUNNING,
)
from weft.sim.compiled.tasks_kernel import varies

WARM_UP = 2  # iterations before a measuring window opens
LOOKS = 512.0  # length of a window where paces cannot be computed, in iterations of all jobs together
LEAST = 8.0  # every window has at least this many iterations of each job
# All windows together may cost the share budget / PLENTY of the tasks that are extrapolated. Early in a run that would
# be too little to measure anything, so windows may cost about EARLY of the budget more each time the number of
# extrapolated tasks has doubled.
PLENTY = 5e7
EARLY = 0.1
AT_ONCE = 0.25  # share of the remaining budget that one window may take
LAST = 2.0  # the last iterations of a job are simulated where paces were measured
CALIBRATION = 2.0  # a window corrects the fluid model by no more than this factor


@inner()
def _window(E, c):
    """Iterations of a component's window: what it asked for, or the longest window where no job has come or gone."""
    whole = m.scalars(E).window
    if m.comps(E)[c].want > 0.0:
        return m.comps(E)[c].want
    if m.comps(E)[c].gap == math.inf:
        return whole
    return max(LEAST, min(whole, LOOKS / m.comps(E)[c].size))


@inner()
def _open_window(E, c, now):
    comp = m.comps(E)[c]
    comp.window = _window(E, c)
    comp.win_time = now
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        book(E, j, now)
        job.win_done = job.done
        job.win_start = job.iter_start
        job.win_adjusted = job.adjusted
        job.win_comm = job.comm_s
        job.win_gate = job.gate_s
        job.win_gpu = job.gpu_s
        job.win_rate = 0.0
        j = job.next
    comp.win_record = m.scalars(E).n_records


@inner()
def _window_rate(E, j):
    """Iterations per second in the window, from the start of one iteration to the start of another, because the partial
    iterations at both ends would be a large part of a short window."""
    job = m.jobs(E)[j]
    return (job.done - job.win_done) / (job.iter_start - job.win_start)


@inner()
def measured(E, j, seen, span, comm, gate, gpu, adjusted):
    """Set a job's pace from what it did in a stretch of `span` seconds."""
    job = m.jobs(E)[j]
    job.seen = seen
    job.per = seen / span
    job.comm_per = (job.comm_s - comm) / seen
    job.gate_per = (job.gate_s - gate) / seen
    job.gpu_per = (job.gpu_s - gpu) / seen
    if not varies(E):
        job.gpu_per = 0.0  # every iteration computes the same amount, while the window cuts some iterations in two
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
        measured(E, j, _window_rate(E, j) * span, span, job.win_comm, job.win_gate, job.win_gpu, job.win_adjusted)
        job.seen = float(job.done - job.win_done)  # records are of whole iterations
        if fluid_able:
            job.calib = max(1.0 / CALIBRATION, min(CALIBRATION, job.per / job.fluid))
        job.due = 0.0
        j = job.next
    comp.record0 = comp.win_record


@inner()
def _prices(E, c):
    """What it would cost to simulate a component, in tasks: per second at its paces, and for all that was left out
    since its jobs were last measured. Also the length of its longest iteration in seconds, and the share of the
    extrapolated tasks that windows may cost now."""
    jobs = m.jobs(E)
    second, due, longest, paces = 0.0, 0.0, 0.0, 0.0
    j = m.comps(E)[c].head
    while j >= 0:
        job = jobs[j]
        each = float(job.node1 - job.node0)
        second += each * job.per
        due += each * job.due
        longest = max(longest, 1.0 / job.per)
        paces += job.per
        j = job.next
    extrapolated = max(1.0, (m.scalars(E).paced + m.scalars(E).fluid) * second / paces)
    share = m.scalars(E).budget * (1.0 / PLENTY + EARLY / extrapolated)
    return second, due, longest, share


@inner()
def _least(E, c):
    """The fewest iterations that a component's next window may have: more than the last one had, if its jobs are the
    same."""
    return min(m.scalars(E).window, max(LEAST, 2.0 * m.comps(E)[c].want))


@inner()
def ask_window(E, c, ahead, ends):
    """Iterations of the window that a component may have now, 0 if none; it is paid for.

    The error of a completion time is that of its paces times the iterations that went at them, and the error of a pace
    falls with the length of its window. For a given cost of all windows, the sum of errors is least if each window is
    in proportion to what is extrapolated from it. The part of the run that was extrapolated lately stands for the part
    that will be. `ahead` is the seconds for which the jobs are likely to stay the same, `ends` the seconds until one of
    them is done."""
    whole = m.scalars(E).window
    comp = m.comps(E)[c]
    second, due, longest, share = _prices(E, c)
    most = AT_ONCE * m.scalars(E).budget / second
    if comp.gap == math.inf:  # no job has come or gone yet, so nothing is known about how long this will last
        takes = min((whole + WARM_UP) * longest, most)
    else:
        takes = min((whole + WARM_UP) * longest, share * (due / second + ahead), most)
        if share < 1.0:  # it is simulated only for the window, which must reach its end
            takes = min(takes, ends)
    window = takes / longest - WARM_UP
    if window < _least(E, c):
        return 0.0
    m.scalars(E).budget -= int(min(takes, comp.gap, ends) * second)
    return min(window, whole)


@inner()
def next_look(E, c):
    """Seconds until a component may have a window, as far as can be told."""
    if m.comps(E)[c].want >= m.scalars(E).window:
        return math.inf
    second, due, longest, share = _prices(E, c)
    takes = (_least(E, c) + WARM_UP) * longest
    if takes * second > AT_ONCE * m.scalars(E).budget:
        return math.inf
    return max(LEAST * longest, 1.01 * takes / share - due / second)


@inner()
def _try_estimate(E, c, now):
    """Park at the measured pace once the window is long enough, and note by how much half of the window disagrees."""
    comp = m.comps(E)[c]
    half = m.jobs(E)[comp.head].win_rate == 0.0
    wanted = 0.5 * comp.window if half else comp.window
    j = comp.head
    while j >= 0:
        if m.jobs(E)[j].done - m.jobs(E)[j].win_done < wanted:
            return
        j = m.jobs(E)[j].next
    worst = 0.0
    wake = math.inf
    work = 0.0
    j = comp.head
    while j >= 0:
        job = m.jobs(E)[j]
        rate = _window_rate(E, j)
        worst = max(worst, abs(job.win_rate / rate - 1.0))
        job.win_rate = rate
        job.per = rate
        wake = min(wake, (job.total - job.done - LAST - job.carry) / rate)
        work += rate
        j = job.next
    if half:
        return
    if wake * work < 4.0 * comp.size:
        return
    _take_measures(E, c, now)
    m.scalars(E).n_estimates += 1
    m.scalars(E).est_err += worst * wake * work
    m.scalars(E).est_weight += wake * work
    comp.want = comp.window
    park(E, c, now, int64(PARK_PACED), now + min(wake, next_look(E, c)))


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
    steady = not varies(E)
    if comp.opened == 0 and steady and tick_exact(E, c, now):
        return
    if m.scalars(E).exact == 0:
        if comp.window <= 0.0:
            if comp.ticks >= WARM_UP:
                _open_window(E, c, now)
        elif comp.size < 4 or comp.ticks & 3 == 0:
            _try_estimate(E, c, now)
