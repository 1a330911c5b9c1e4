"""What happens to tasks: released, gated, queued for a GPU or for admission, started, done; iterations and jobs end.

One instant is handled as a whole: completions and what they release, GPU hand-over, admissions, then one solve of the
rates. Readable twin: testkit/oracles/engine.py.
"""

import math

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.heap_kernel import heap_drop, heap_set
from weft.sim.compiled.memory_kernel import inner
from weft.sim.compiled.rates_kernel import solve
from weft.sim.compiled.state import (
    ACTIVE,
    ADMIT_ALL,
    ADMIT_ASK,
    ASK,
    COMPUTE,
    CONTINUED,
    DONE,
    FINISHED,
    GATED,
    LATENCY,
    MISSED,
    PENDING,
    QUEUED,
    STIRRED,
)
from weft.sim.compiled.tasks_kernel import (
    account,
    admit,
    admit_held,
    flush_record,
    fresh_node,
    hold,
    push_done,
    record,
    start_compute,
    start_flowing,
    turn,
    unlink,
)


@inner()
def begin_iteration(E, j, now):
    """Release the first tasks of the next iteration."""
    job = m.jobs(E)[j]
    job.iter_start = now
    job.left = job.node1 - job.node0
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        node.state = PENDING
        node.left = node.preds
        if node.preds == 0:
            m.ready(E)[m.scalars(E).n_ready] = x
            m.scalars(E).n_ready += 1
    for x in range(job.node0, job.node1):
        for g in range(m.nodes(E)[x].lead0, m.nodes(E)[x].lead1):
            m.leads(E)[g].tight = 1 if m.nodes(E)[x].chunk <= 0.0 else 0


@inner()
def end_iteration(E, j, now):
    """Barrier: record the iteration, then begin the next one or end the job."""
    job = m.jobs(E)[j]
    job.done += 1
    m.scalars(E).n_iterations += 1
    record(E, j, now - job.iter_start, 1.0)
    if job.done >= job.total:
        job.state = FINISHED
        job.finish = now
        flush_record(E, j)
        m.finished(E)[m.scalars(E).n_finished] = j
        m.scalars(E).n_finished += 1
        return
    if m.scalars(E).skip != 0 and (job.comp < 0 or m.comps(E)[job.comp].ref == j):
        m.ticked(E)[m.scalars(E).n_ticked] = j
        m.scalars(E).n_ticked += 1
    begin_iteration(E, j, now)


@inner()
def gate_opens(E, j, now):
    """When the gated task of a job may start: now, or the next opening."""
    job = m.jobs(E)[j]
    if job.gate_period <= 0.0:
        return max(now, job.gate_epoch)
    opening = math.floor((now - job.gate_epoch) / job.gate_period)
    opens = now
    if now - (job.gate_epoch + opening * job.gate_period) > job.gate_tol * job.gate_period:
        opens = max(now, job.gate_epoch + (opening + 1.0) * job.gate_period)
    if opens - job.gate_last > MISSED * job.gate_period:
        job.adjusted += 1
    job.gate_last = opens
    return opens


@inner()
def begin_node(E, x, now):
    """A node whose predecessors are done and whose gate is open."""
    node = m.nodes(E)[x]
    if node.kind == COMPUTE:
        account(E, node.job, now).n_comp += 1
        if node.gpu < 0:
            start_compute(E, x, now)
            return
        gpu = m.gpus(E)[node.gpu]
        node.state = QUEUED
        node.next = gpu.head
        gpu.head = x
        if gpu.dirty == 0:
            gpu.dirty = 1
            m.dirty_gpus(E)[m.scalars(E).n_gpus] = node.gpu
            m.scalars(E).n_gpus += 1
        return
    account(E, node.job, now).n_net += 1
    if m.scalars(E).admit == ADMIT_ALL:
        admit(E, x, now)
    else:
        hold(E, x, now)


@inner()
def release(E, x, now):
    """A node whose predecessors are done: it waits for its gate, or begins."""
    node = m.nodes(E)[x]
    if m.jobs(E)[node.job].gate_task == node.task:
        opens = gate_opens(E, node.job, now)
        if opens > now:
            node.state = GATED
            account(E, node.job, now).n_gate += 1
            heap_set(E, 2 * x, opens)
            return
    begin_node(E, x, now)


@inner()
def finish_node(E, x, now):
    """A node is done: free what it held, release what waited for it, close the iteration if it was the last."""
    node = m.nodes(E)[x]
    job = m.jobs(E)[node.job]
    m.scalars(E).n_events += 1
    heap_drop(E, 2 * x)
    if m.scalars(E).n_segments < m.scalars(E).segment_max:
        segment = m.segments(E)[m.scalars(E).n_segments]
        segment.uid = job.uid
        segment.task = node.task & (CONTINUED - 1)
        segment.kind = node.kind
        segment.start = node.began
        segment.end = now
        m.scalars(E).n_segments += 1
    if node.kind == COMPUTE:
        account(E, node.job, now).n_comp -= 1
        job.gpu_s += node.weight * node.remaining
        if node.gpu >= 0:
            gpu = m.gpus(E)[node.gpu]
            gpu.running = -1
            if gpu.dirty == 0:
                gpu.dirty = 1
                m.dirty_gpus(E)[m.scalars(E).n_gpus] = node.gpu
                m.scalars(E).n_gpus += 1
    else:
        account(E, node.job, now).n_net -= 1
        node.state = ACTIVE
        unlink(E, x, now, node.amount)
    node.state = DONE
    job.left -= 1
    for s in range(node.succ0, node.succ1):
        y = m.succ(E)[s]
        m.nodes(E)[y].left -= 1
        if m.nodes(E)[y].left == 0:
            m.ready(E)[m.scalars(E).n_ready] = y
            m.scalars(E).n_ready += 1
    if job.left == 0:
        end_iteration(E, node.job, now)


@inner()
def hand_over_gpus(E, now):
    """Each idle GPU takes the waiting task whose job's turn it is (non-preemptive)."""
    for i in range(m.scalars(E).n_gpus):
        g = m.dirty_gpus(E)[i]
        gpu = m.gpus(E)[g]
        gpu.dirty = 0
        if gpu.running >= 0 or gpu.head < 0:
            continue
        best = -1
        best_before = -1
        before = -1
        x = gpu.head
        while x >= 0:
            key = turn(E, m.nodes(E)[x].job)
            if best >= 0:
                other = turn(E, m.nodes(E)[best].job)
                uid, best_uid = m.jobs(E)[m.nodes(E)[x].job].uid, m.jobs(E)[m.nodes(E)[best].job].uid
                better = key < other or (key == other and (uid < best_uid or (uid == best_uid and x < best)))
            else:
                better = True
            if better:
                best = x
                best_before = before
            before = x
            x = m.nodes(E)[x].next
        if best_before >= 0:
            m.nodes(E)[best_before].next = m.nodes(E)[best].next
        else:
            gpu.head = m.nodes(E)[best].next
        gpu.running = best
        start_compute(E, best, now)
    m.scalars(E).n_gpus = 0


@inner()
def fire(E, x, now):
    """Handle the event of a node: its gate opens, its latency is over, it catches up with a lead, or it is done."""
    node = m.nodes(E)[x]
    if node.state == GATED:
        account(E, node.job, now).n_gate -= 1
        begin_node(E, x, now)
    elif node.state == LATENCY:
        start_flowing(E, x, now)
    elif node.kind != COMPUTE and node.event >= 0 and node.lead0 < node.lead1:
        m.leads(E)[node.event].tight = 1
        fresh_node(E, x)
    else:
        push_done(E, x)


@inner()
def instant(E):
    """All that happens at this moment, until nothing more does; then one solve.

    Where a rule in Python must be asked, it returns before the solve and is called again.
    """
    now = m.scalars(E).now
    scalars = m.scalars(E)
    while True:
        i_done = 0
        i_ready = 0
        while i_done < scalars.n_done or i_ready < scalars.n_ready:
            if i_done < scalars.n_done:
                i_done += 1
                finish_node(E, m.finished_nodes(E)[i_done - 1], now)
            else:
                i_ready += 1
                release(E, m.ready(E)[i_ready - 1], now)
            if i_done == scalars.n_done:
                i_done = 0
                scalars.n_done = 0
            if i_ready == scalars.n_ready:
                i_ready = 0
                scalars.n_ready = 0
        if scalars.n_gpus > 0:
            hand_over_gpus(E, now)
            if scalars.n_done > 0:
                continue
        if scalars.n_held > 0 and (scalars.released != 0 or scalars.n_new_held > 0):
            if scalars.admit == ADMIT_ASK:
                scalars.released = 0
                scalars.n_new_held = 0
                scalars.asked = ASK
                return
            admit_held(E, now)
            if scalars.n_done > 0:
                continue
        scalars.released = 0
        break
    if scalars.stirred != 0:  # first a rule says what these transfers may have
        scalars.stirred = 0
        scalars.asked = STIRRED
        return
    solve(E, now)
