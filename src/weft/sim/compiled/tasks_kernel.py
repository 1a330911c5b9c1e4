"""What a task does while it lasts: a computation on its GPU; a transfer that waits for admission, occupies its links
and leaves them. Readable twin: testkit/oracles/engine.py.
"""

import math

from numba import int64

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.heap_kernel import heap_set
from weft.sim.compiled.memory_kernel import inner
from weft.sim.compiled.random_kernel import slow_factor, task_factor
from weft.sim.compiled.state import (
    ACTIVE,
    ADMIT_AT_MOST,
    FOREIGN,
    KWAY,
    LATENCY,
    PARKED,
    QUEUED,
    RULE_ENDS,
    RULE_NONE,
    UNLIMITED,
)

NO_RATE, NOT_FLOWING = -1.0, -2.0  # values of node.rate before the first solve, and before the first byte
SAME = 1e-12  # iteration times closer than this (relatively) share one record


@inner()
def account(E, j, now):
    """Book the time since the last change of what a job is busy with, as exposed communication or gate wait. Returns
    the job, for whoever makes the next change."""
    job = m.jobs(E)[j]
    if job.n_comp == 0:
        if job.n_net > 0:
            job.comm_s += now - job.mark
        elif job.n_gate > 0:
            job.gate_s += now - job.mark
    job.mark = now
    return job


@inner()
def dirty_link(E, k):
    """Have the transfers on a link get new rates at the end of this instant."""
    if m.links(E)[k].dirty == 0:
        m.links(E)[k].dirty = 1
        m.dirty(E)[m.scalars(E).n_dirty] = k
        m.scalars(E).n_dirty += 1


@inner()
def fresh_node(E, x):
    """Have a transfer get a new rate at the end of this instant."""
    if m.nodes(E)[x].listed == 0:
        m.nodes(E)[x].listed = 1
        m.fresh(E)[m.scalars(E).n_fresh] = x
        m.scalars(E).n_fresh += 1


@inner()
def freshen_followers(E, x):
    """Transfers that may not overtake this one get new rates when it starts or ends."""
    for f in range(m.nodes(E)[x].fol0, m.nodes(E)[x].fol1):
        y = m.leads(E)[m.follows(E)[f]].by
        if m.nodes(E)[y].state == ACTIVE:
            fresh_node(E, y)


@inner()
def push_done(E, x):
    """Note a node as done at this instant."""
    m.finished_nodes(E)[m.scalars(E).n_done] = x
    m.scalars(E).n_done += 1


@inner()
def turn(E, j):
    """The job's key for shared GPUs and for admission: smallest first."""
    job = m.jobs(E)[j]
    return job.p0 + job.p1 * (job.total - job.done)


@inner()
def flush_record(E, j):
    """Write the pending run of equal iteration times."""
    job = m.jobs(E)[j]
    if job.last_count > 0.0:
        r = m.scalars(E).n_records
        m.records(E)[r].uid = job.uid
        m.records(E)[r].row = j
        m.records(E)[r].duration = job.last_dur
        m.records(E)[r].count = job.last_count
        m.scalars(E).n_records = r + 1
        job.last_count = 0.0


@inner()
def record(E, j, duration, count):
    """Note iterations of a job that take the same time; they share a record with those before them if these took as
    long."""
    job = m.jobs(E)[j]
    if count <= 0.0:
        return
    if job.last_count > 0.0 and abs(duration - job.last_dur) <= SAME * job.last_dur:
        job.last_count += count
        return
    flush_record(E, j)
    job.last_dur = duration
    job.last_count = count


@inner()
def varies(E):
    """Whether compute times differ from one iteration to the next."""
    return m.scalars(E).jitter > 0.0 or m.scalars(E).straggle_p > 0.0 or m.scalars(E).task_jitter > 0.0


@inner()
def start_compute(E, x, now):
    """Run a compute node on its GPU (or on its own, if GPUs are not shared)."""
    node = m.nodes(E)[x]
    seconds = node.amount
    if varies(E):
        job = m.jobs(E)[node.job]
        factor = 0.0
        for r in range(node.rank0, node.rank1):
            mine = slow_factor(
                m.scalars(E).seed, job.uid, job.base + job.done, m.ranks(E)[r],
                m.scalars(E).jitter, m.scalars(E).straggle_p, m.scalars(E).straggle_x,
            )  # fmt: skip
            if m.scalars(E).task_jitter > 0.0:
                mine *= task_factor(
                    m.scalars(E).seed, job.uid, job.base + job.done, m.ranks(E)[r], node.task,
                    m.scalars(E).task_jitter, m.scalars(E).uneven,
                )  # fmt: skip
            factor = max(factor, mine)
        seconds = seconds * factor
    node.state = ACTIVE
    node.remaining = seconds
    node.began = now
    if seconds <= 0.0:
        push_done(E, x)
    else:
        heap_set(E, 2 * x, now + seconds)


@inner()
def limit_to(E, x, units):
    """Change what a transfer may have of its links, and with it the sum of demands on them."""
    node = m.nodes(E)[x]
    for f in range(node.flow0, node.flow1):
        flow = m.flows(E)[f]
        load = m.loads(E)[flow.link]
        if node.demand_units < UNLIMITED:
            load.caps -= node.demand_units * flow.n
        else:
            load.uncapped -= flow.n
        if units < UNLIMITED:
            load.caps += units * flow.n
        else:
            load.uncapped += flow.n
    node.demand_units = units


@inner()
def _note(E, x):
    """Have the rule told of a transfer the next time it is asked."""
    if m.noted(E)[x] == 0:
        m.noted(E)[x] = 1
        m.stirs(E)[m.scalars(E).n_stirs] = x
        m.scalars(E).n_stirs += 1


@inner()
def come_under_rule(E, x, now):
    """A transfer starts where a rule sets caps. Unless it is foreign, it gets nothing until the rule has been asked."""
    node = m.nodes(E)[x]
    if node.flow0 == node.flow1:
        return
    node.demand_units = 0
    if m.jobs(E)[node.job].uid >= FOREIGN:
        limit_to(E, x, node.limit)
        return
    m.live(E)[x] = 1
    m.since(E)[x] = now
    _note(E, x)
    m.scalars(E).stirred = 1


@inner()
def leave_rule(E, x, sent):
    """A transfer ends, or is stopped, where a rule sets caps."""
    node = m.nodes(E)[x]
    if node.flow0 == node.flow1 or node.amount <= 0.0:  # it was never under the rule
        return
    limit_to(E, x, int64(0))
    if m.live(E)[x] == 0:
        return
    m.live(E)[x] = 0
    _note(E, x)
    for f in range(node.flow0, node.flow1):
        m.loads(E)[m.flows(E)[f].link].sent += sent * m.flows(E)[f].n
    if m.scalars(E).rule == RULE_ENDS:
        m.scalars(E).stirred = 1


@inner()
def occupy(E, x, now):
    """Count a transfer among those that send on its links."""
    node = m.nodes(E)[x]
    m.scalars(E).ranked += node.claim != 1 or node.level != 0
    for f in range(node.flow0, node.flow1):
        flow = m.flows(E)[f]
        link = m.links(E)[flow.link]
        link.weight += flow.n * node.claim
        if link.flowing == 0:
            link.mark = now
        link.flowing += 1


@inner()
def start_flowing(E, x, now):
    """First byte of an admitted transfer."""
    node = m.nodes(E)[x]
    node.state = ACTIVE
    node.remaining = node.amount
    node.rate = NO_RATE
    node.units = -1
    node.mark = now
    occupy(E, x, now)
    if node.amount <= 0.0 or node.alone == math.inf:
        push_done(E, x)
        return
    if m.scalars(E).rule != RULE_NONE:
        come_under_rule(E, x, now)
    fresh_node(E, x)
    freshen_followers(E, x)


@inner()
def admit(E, x, now):
    """Let a transfer that is ready start: it occupies its links; bytes flow after its latency."""
    node = m.nodes(E)[x]
    node.began = now
    node.rate = NOT_FLOWING
    node.units = -1
    take_seats(E, x)
    if node.latency > 0.0:
        node.state = LATENCY
        heap_set(E, 2 * x, now + node.latency)
    else:
        start_flowing(E, x, now)


@inner()
def take_seats(E, x):
    """Let a transfer sit beside the others on its links."""
    for f in range(m.nodes(E)[x].flow0, m.nodes(E)[x].flow1):
        flow = m.flows(E)[f]
        link = m.links(E)[flow.link]
        flow.seat = link.seat0 + link.count
        seat = m.seats(E)[flow.seat]
        seat.node = x
        seat.n = flow.n
        seat.flow = f
        link.count += 1
        if m.scalars(E).sharing == KWAY:
            dirty_link(E, flow.link)


@inner()
def unlink(E, x, now, sent):
    """Take an admitted transfer off its links and book the bytes each of its flows has sent."""
    node = m.nodes(E)[x]
    flowed = node.rate != NOT_FLOWING
    ranked = node.claim != 1 or node.level != 0
    for f in range(node.flow0, node.flow1):
        flow = m.flows(E)[f]
        link = m.links(E)[flow.link]
        link.count -= 1
        last, seat = m.seats(E)[link.seat0 + link.count], m.seats(E)[flow.seat]
        seat.node = last.node
        seat.n = last.n
        seat.flow = last.flow
        m.flows(E)[last.flow].seat = flow.seat
        if flowed:
            link.weight -= flow.n * node.claim
            link.flowing -= 1
            link.bytes += sent * flow.n
            if node.units >= 0:
                link.used -= node.units * flow.n
                link.felt = min(link.felt, node.units if not ranked else 0)
            if link.flowing == 0:
                link.busy += now - link.mark
        if link.binding != 0 or m.scalars(E).sharing == KWAY:
            dirty_link(E, flow.link)
    m.scalars(E).released = 1
    if flowed:
        m.scalars(E).ranked -= ranked
        if m.scalars(E).rule != RULE_NONE:
            leave_rule(E, x, sent)
    freshen_followers(E, x)


@inner()
def _goes_before(E, y, x):
    """Whether a transfer that waits for admission is looked at before another one."""
    a, b = m.nodes(E)[y], m.nodes(E)[x]
    uid, other = m.jobs(E)[a.job].uid, m.jobs(E)[b.job].uid
    return a.key < b.key or (a.key == b.key and (uid < other or (uid == other and y < x)))


@inner()
def _queue_up(E, x, i):
    """Move a transfer forward in the queue for admission from place i to where its turn is."""
    while i > 0 and not _goes_before(E, m.held(E)[i - 1], x):
        m.held(E)[i] = m.held(E)[i - 1]
        i -= 1
    m.held(E)[i] = x


@inner()
def hold(E, x, now):
    """Queue a ready transfer for admission, in order of its job's turn."""
    node = m.nodes(E)[x]
    node.state = QUEUED
    node.mark = now
    node.key = turn(E, node.job)
    node.event = 1  # not yet looked at
    _queue_up(E, x, m.scalars(E).n_held)
    m.scalars(E).n_held += 1
    m.scalars(E).n_new_held += 1


@inner()
def sort_held(E):
    """Sort the queue for admission again, because the turns of jobs that were skipped have changed."""
    for i in range(m.scalars(E).n_held):
        x = m.held(E)[i]
        m.nodes(E)[x].key = turn(E, m.nodes(E)[x].job)
        _queue_up(E, x, i)


@inner()
def remaining_bytes(E, x, now):
    """Bytes a transfer still has to send on each flow, without disturbing it."""
    node = m.nodes(E)[x]
    if node.state != ACTIVE or node.rate < 0.0:
        return node.amount
    return node.remaining - node.rate * (now - node.mark)


@inner()
def may_start(E, x, now):
    """The admission rule for one transfer, looking only at links that are ports of servers."""
    node = m.nodes(E)[x]
    k = m.scalars(E).admit_k
    for f in range(node.flow0, node.flow1):
        link = m.links(E)[m.flows(E)[f].link]
        if link.port == 0 or link.count == 0:
            continue
        if link.count >= k:
            return False
        if m.scalars(E).admit == ADMIT_AT_MOST:
            continue
        threshold = m.ratios(E)[link.count - 1]
        for s in range(link.seat0, link.seat0 + link.count):
            if not remaining_bytes(E, m.seats(E)[s].node, now) > threshold * node.amount:
                return False
    return True


@inner()
def admit_held(E, now):
    """Look at the waiting transfers in order; all of them if a link was released, else only the new ones."""
    every = m.scalars(E).released != 0
    m.scalars(E).released = 0
    m.scalars(E).n_new_held = 0
    kept = 0
    for i in range(m.scalars(E).n_held):
        x = m.held(E)[i]
        node = m.nodes(E)[x]
        # While a skipped component catches up, `now` lies in the past of the others. Their transfers were looked at
        # after that moment (mark), and what runs beside them had more left at that moment. What is parked is looked at
        # when it catches up.
        look = (every or node.event == 1) and node.mark <= now and m.jobs(E)[node.job].state != PARKED
        if look:
            node.event = 0
            node.mark = now
        if look and may_start(E, x, now):
            admit(E, x, now)
        else:
            m.held(E)[kept] = x
            kept += 1
    m.scalars(E).n_held = kept
