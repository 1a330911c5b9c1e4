"""The compiled engine's entry points: run until something someone asked for happens; stop a job."""

import math

from numba import int64, njit

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.estimate_kernel import tick
from weft.sim.compiled.events_kernel import begin_iteration, fire, instant
from weft.sim.compiled.heap_kernel import heap_drop
from weft.sim.compiled.membership_kernel import part, retire, wake
from weft.sim.compiled.memory_kernel import TABLE, inner
from weft.sim.compiled.state import (
    ACTIVE,
    COMPUTE,
    DONE,
    FROZEN,
    JOB_FINISHED,
    LATENCY,
    PARKED,
    QUEUED,
    REACHED,
    RECORDS_FULL,
    RUNNING,
)
from weft.sim.compiled.tasks_kernel import NOT_FLOWING, account, admit, flush_record, remaining_bytes, unlink


@njit((TABLE, int64), cache=True)
def begin(E, j):
    """Release the first tasks of an attached job; the next run handles them at the current moment."""
    job = m.jobs(E)[j]
    if job.begun == 0 and job.state == RUNNING:
        job.begun = 1
        begin_iteration(E, j, m.scalars(E).now)


@inner()
def _set_out(E):
    """Start what has waited for this run: jobs that were parked from the start, and tasks released since the last."""
    scalars = m.scalars(E)
    if scalars.asked == 0:
        scalars.n_finished = 0
    scalars.asked = 0
    scalars.in_run = 1
    for i in range(scalars.n_starters):
        m.jobs(E)[m.starters(E)[i]].listed = 0
        begin(E, m.starters(E)[i])
    scalars.n_starters = 0
    instant(E)


@njit(cache=True)
def run(E, until):
    """Advance to `until`, or to the end of the first instant at which a job finishes (unless told to go on)."""
    scalars = m.scalars(E)
    _set_out(E)
    retired = 0
    while True:
        if scalars.asked != 0:
            return scalars.asked
        if retired < scalars.n_finished:
            scalars.in_run = scalars.go_on
            retire(E, retired)
            retired = scalars.n_finished
            if scalars.go_on == 0:
                scalars.n_ticked = 0
                return JOB_FINISHED
            instant(E)  # jobs that regroup go on at once
            continue
        if scalars.n_records + 6 * m.n_jobs(E) + 64 > m.n_records(E):
            return RECORDS_FULL
        for i in range(scalars.n_ticked):
            tick(E, m.ticked(E)[i], scalars.now)
        scalars.n_ticked = 0
        if scalars.n_heap == 0:
            if until < math.inf:
                scalars.now = until
            return REACHED
        now = m.heap_key(E)[0]
        if now > until:
            scalars.now = until
            return REACHED
        scalars.now = now
        n = 0
        while scalars.n_heap > 0 and m.heap_key(E)[0] == now:
            ident = m.heap_id(E)[0]
            heap_drop(E, ident)
            m.batch(E)[n] = ident
            n += 1
        if n > 1:
            order_batch(E, n)
        for i in range(n):
            ident = m.batch(E)[i]
            if ident & 1 == 0:
                fire(E, ident >> 1, now)
            elif m.jobs(E)[ident >> 1].state == PARKED:
                wake(E, ident >> 1, now)
        instant(E)


@inner()
def order_batch(E, n):
    """Sort the events of one instant by job, then task: sums come out the same whatever the queue did with ties."""
    batch, nodes, jobs = m.batch(E), m.nodes(E), m.jobs(E)
    for i in range(1, n):
        ident = batch[i]
        uid = jobs[ident >> 1].uid if ident & 1 else jobs[nodes[ident >> 1].job].uid
        k = i
        while k > 0:
            other = batch[k - 1]
            other_uid = jobs[other >> 1].uid if other & 1 else jobs[nodes[other >> 1].job].uid
            if other_uid < uid or (other_uid == uid and other < ident):
                break
            batch[k] = other
            k -= 1
        batch[k] = ident


@njit(cache=True)
def abort(E, j):
    """Take a job off its GPUs and links at once; bytes already sent and GPU seconds already used stay booked."""
    now = m.scalars(E).now
    job = m.jobs(E)[j]
    account(E, j, now)
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        heap_drop(E, 2 * x)
        if node.state == FROZEN:
            node.state = ACTIVE
        if node.kind == COMPUTE:
            if node.state == ACTIVE:
                job.gpu_s += node.weight * (now - node.began)
            if node.gpu >= 0 and node.state in (ACTIVE, QUEUED):
                leave_gpu(E, x)
        elif node.state in (ACTIVE, LATENCY):
            sent = 0.0
            if node.rate != NOT_FLOWING:
                sent = node.amount - remaining_bytes(E, x, now)
            unlink(E, x, now, sent)
        elif node.state == QUEUED:
            leave_held(E, x)
        node.state = DONE  # so that nothing finds it active any more
        heap_drop(E, 2 * j + 1)
    flush_record(E, j)
    part(E, j)


@inner()
def leave_gpu(E, x):
    """Take a compute node off its GPU or out of its queue."""
    gpu = m.gpus(E)[m.nodes(E)[x].gpu]
    if gpu.running == x:
        gpu.running = -1
        if gpu.dirty == 0:
            gpu.dirty = 1
            m.dirty_gpus(E)[m.scalars(E).n_gpus] = m.nodes(E)[x].gpu
            m.scalars(E).n_gpus += 1
        return
    before = -1
    y = gpu.head
    while y >= 0 and y != x:
        before = y
        y = m.nodes(E)[y].next
    if y == x:
        if before >= 0:
            m.nodes(E)[before].next = m.nodes(E)[x].next
        else:
            gpu.head = m.nodes(E)[x].next


@inner()
def leave_held(E, x):
    """Take a transfer out of the admission queue."""
    kept = 0
    for i in range(m.scalars(E).n_held):
        if m.held(E)[i] != x:
            m.held(E)[kept] = m.held(E)[i]
            kept += 1
    m.scalars(E).n_held = kept


@njit(cache=True)
def let(E, x):
    """Admit a transfer that waits."""
    leave_held(E, x)
    admit(E, x, m.scalars(E).now)
