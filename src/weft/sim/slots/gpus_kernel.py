"""Computing beside slots: tasks of jobs take turns on GPUs, event by event, from one slot to the next.

Events: a task is done; a job begins an iteration; the gate of a job that sends nothing opens; a GPU is free that a
stopped job had. One instant is handled as a whole, completions and what they release first, then GPUs are handed over,
as in the event engine. Readable twin: sim/reference.py.
"""

import numpy as np
from numba import njit

from weft.network.slots.scheduled_kernel import FINISHED, computed, end_iteration
from weft.network.state import ACTIVE, DONE, PENDING, QUEUED
from weft.sim.random_kernel import slow_factor

TASK_DONE, BEGINS, OPENS, FREED = 0, 1, 2, 3  # what happens: 4 x (task, job, job, GPU) + this
IDLE, LEFT = -1, -2  # of a GPU: nothing runs; a stopped job had it up to an event that is to come
N_EVENTS, N_DIRTY = 0, 1
leaf = njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]  # it makes no arrays and counts none


@leaf
def _push(q, when, what):
    i = q.sizes[N_EVENTS]
    q.sizes[N_EVENTS] = i + 1
    while i > 0:
        parent = (i - 1) >> 1
        if q.when[parent] < when or (q.when[parent] == when and q.what[parent] <= what):
            break
        q.when[i], q.what[i] = q.when[parent], q.what[parent]
        i = parent
    q.when[i], q.what[i] = when, what


@leaf
def _pop(q):
    """Take the first event out; returns what happens."""
    first = q.what[0]
    n = q.sizes[N_EVENTS] - 1
    q.sizes[N_EVENTS] = n
    when, what = q.when[n], q.what[n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and (
            q.when[child + 1] < q.when[child]
            or (q.when[child + 1] == q.when[child] and q.what[child + 1] < q.what[child])
        ):
            child += 1
        if when < q.when[child] or (when == q.when[child] and what <= q.what[child]):
            break
        q.when[i], q.what[i] = q.when[child], q.what[child]
        i = child
    q.when[i], q.what[i] = when, what
    return first


@leaf
def _look_at(q, g):
    """Have a GPU handed over at the end of this instant."""
    if q.gpus[g].dirty == 0:
        q.gpus[g].dirty = 1
        q.dirty[q.sizes[N_DIRTY]] = g
        q.sizes[N_DIRTY] += 1


@leaf
def _start(q, jobs, noise, x, now):
    """Run a task on its GPU, or on its job's own."""
    node = q.nodes[x]
    seconds = node.amount
    if noise.jitter > 0.0 or noise.straggle_p > 0.0:
        job, factor = jobs[node.job], 0.0
        for r in range(node.rank0, node.rank1):
            factor = max(
                factor,
                slow_factor(
                    noise.seed, job.uid, q.work[node.job].base + job.done, q.ranks[r],
                    noise.jitter, noise.straggle_p, noise.straggle_x,
                ),
            )  # fmt: skip
        seconds = seconds * factor
    node.state, node.remaining, node.began = ACTIVE, seconds, now
    _push(q, now + max(seconds, 0.0), 4 * x + TASK_DONE)


@leaf
def _release(q, jobs, noise, x, now):
    """A task whose predecessors are done: it queues for its GPU."""
    node = q.nodes[x]
    if node.gpu < 0:
        _start(q, jobs, noise, x, now)
        return
    node.state, node.next = QUEUED, q.gpus[node.gpu].head
    q.gpus[node.gpu].head = x
    _look_at(q, node.gpu)


@leaf
def _compute(q, jobs, noise, j, now):
    """An iteration begins: release its first tasks. Whether there are any."""
    work = q.work[j]
    work.left = work.task1 - work.task0
    for x in range(work.task0, work.task1):
        q.nodes[x].state, q.nodes[x].left = PENDING, q.nodes[x].preds
    for x in range(work.task0, work.task1):
        if q.nodes[x].preds == 0:
            _release(q, jobs, noise, x, now)
    return work.left > 0


@leaf
def _task_done(q, jobs, noise, x, now):
    """Release what waited for a task; whether it was the last of its iteration."""
    node = q.nodes[x]
    work = q.work[node.job]
    node.state = DONE
    work.gpu_s += node.weight * node.remaining
    if node.gpu >= 0:
        q.gpus[node.gpu].running = IDLE
        _look_at(q, node.gpu)
    for s in range(node.succ0, node.succ1):
        y = q.succ[s]
        q.nodes[y].left -= 1
        if q.nodes[y].left == 0:
            _release(q, jobs, noise, y, now)
    work.left -= 1
    return work.left == 0


@leaf
def _first(q, jobs, a, b):
    """Whether task a goes before task b: by their jobs' turns, then by job, then by task."""
    ja, jb = q.nodes[a].job, q.nodes[b].job
    ka = q.work[ja].p0 + q.work[ja].p1 * (jobs[ja].total - jobs[ja].done)
    kb = q.work[jb].p0 + q.work[jb].p1 * (jobs[jb].total - jobs[jb].done)
    if ka != kb:
        return ka < kb
    return jobs[ja].uid < jobs[jb].uid or (ja == jb and a < b)


@leaf
def _unqueue(q, x):
    gpu = q.gpus[q.nodes[x].gpu]
    if gpu.head == x:
        gpu.head = q.nodes[x].next
        return
    y = gpu.head
    while q.nodes[y].next != x:
        y = q.nodes[y].next
    q.nodes[y].next = q.nodes[x].next


@leaf
def _hand_over(q, jobs, noise, now):
    """Each idle GPU takes the waiting task whose job's turn it is (non-preemptive)."""
    for i in range(q.sizes[N_DIRTY]):
        gpu = q.gpus[q.dirty[i]]
        gpu.dirty = 0
        if gpu.running != IDLE or gpu.head < 0:
            continue
        best, x = gpu.head, q.nodes[gpu.head].next
        while x >= 0:
            if _first(q, jobs, x, best):
                best = x
            x = q.nodes[x].next
        _unqueue(q, best)
        gpu.running = best
        _start(q, jobs, noise, best, now)
    q.sizes[N_DIRTY] = 0


@leaf
def _end(q, jobs, j, records, n_records):
    """A job that sends nothing ends its iteration."""
    end_iteration(jobs, j, jobs[j].ready, records, n_records)
    if jobs[j].state != FINISHED:
        _push(q, jobs[j].began, 4 * j + BEGINS)
    return n_records + 1


@leaf
def advance(q, jobs, noise, until, records, n_records):
    """All that happens up to `until`: jobs that have computed know when they are ready to send, and those with nothing
    to send compute on. Returns the records there are and when the next thing happens; -1 instead if there is no more
    room for records."""
    while q.sizes[N_EVENTS] > 0 and q.when[0] <= until:
        now = max(q.when[0], q.clock[0])  # rounding may put the end of a transfer a hair before the slot it began in
        q.clock[0] = now
        while q.sizes[N_EVENTS] > 0 and q.when[0] <= now:
            if n_records >= len(records):
                return -1, now
            what = _pop(q)
            i, kind = what >> 2, what & 3
            if kind == FREED:
                q.gpus[i].running = IDLE
                _look_at(q, i)
            elif kind == OPENS:
                n_records = _end(q, jobs, i, records, n_records)
            else:
                j = i if kind == BEGINS else q.nodes[i].job
                over = not _compute(q, jobs, noise, j, now) if kind == BEGINS else _task_done(q, jobs, noise, i, now)
                if over:
                    computed(jobs[j], now)
                    if jobs[j].low == jobs[j].high and jobs[j].ready <= now:
                        n_records = _end(q, jobs, j, records, n_records)
                    elif jobs[j].low == jobs[j].high:
                        _push(q, jobs[j].ready, 4 * j + OPENS)
        _hand_over(q, jobs, noise, now)
    return n_records, q.when[0] if q.sizes[N_EVENTS] > 0 else np.inf


@leaf
def put(q, j, succ0, rank0):
    """Tasks of a job have been copied in: add the offsets of what they refer to."""
    work = q.work[j]
    for x in range(work.task0, work.task1):
        node = q.nodes[x]
        node.job, node.state = j, PENDING
        node.succ0 += succ0
        node.succ1 += succ0
        node.rank0 += rank0
        node.rank1 += rank0
        for s in range(node.succ0, node.succ1):
            q.succ[s] += work.task0


@leaf
def begin(q, jobs, which):
    """These jobs are about to begin an iteration, unless they are finished."""
    for n in range(len(which)):
        if jobs[which[n]].state != FINISHED:
            _push(q, jobs[which[n]].began, 4 * which[n] + BEGINS)


@leaf
def stop(q, j, now):
    """A job goes: what it runs ends now, what it waits for is dropped. What a slot that is under way would have had
    it begin does not happen."""
    _forget(q, j)
    work = q.work[j]
    for x in range(work.task0, work.task1):
        node = q.nodes[x]
        if node.state == ACTIVE:
            end = max(min(now, node.began + node.remaining), node.began)
            work.gpu_s += node.weight * (end - node.began)
            if node.gpu >= 0:
                q.gpus[node.gpu].running = LEFT
                _push(q, end, 4 * node.gpu + FREED)
        elif node.state == QUEUED:
            _unqueue(q, x)
        node.state = DONE


@leaf
def _forget(q, j):
    """Drop a job's events."""
    n = q.sizes[N_EVENTS]
    q.sizes[N_EVENTS] = 0
    for i in range(n):  # what is put back is never behind what is looked at
        when, what = q.when[i], q.what[i]
        kind = what & 3
        mine = q.nodes[what >> 2].job == j if kind == TASK_DONE else kind != FREED and what >> 2 == j
        if not mine:
            _push(q, when, what)
