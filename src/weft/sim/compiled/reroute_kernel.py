"""A job that runs is put on other links. Readable twin: testkit/oracles/engine.py."""

from numba import int64, njit

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.components_kernel import dissolve, enter, leave
from weft.sim.compiled.heap_kernel import heap_drop
from weft.sim.compiled.membership_kernel import meet
from weft.sim.compiled.memory_kernel import TABLE, inner
from weft.sim.compiled.state import ACTIVE, COMPUTE, LATENCY, RULE_NONE
from weft.sim.compiled.tasks_kernel import (
    come_under_rule,
    fresh_node,
    freshen_followers,
    occupy,
    remaining_bytes,
    take_seats,
    unlink,
)


@njit((TABLE, int64), cache=True)
def loosen(E, j):
    """Take a job that runs off its links, in the middle of whatever it sends, to put it on others. What it has sent
    stays booked."""
    job, now = m.jobs(E)[j], m.scalars(E).now
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        if node.kind != COMPUTE and node.state in (ACTIVE, LATENCY):
            sent = 0.0
            if node.state == ACTIVE:
                left = max(remaining_bytes(E, x, now), 0.0)
                sent = node.amount - left
                heap_drop(E, 2 * x)
                node.remaining = left
                node.mark = now
            unlink(E, x, now, sent)
    if job.comp >= 0:
        dissolve(E, job.comp)
    leave(E, j)
    job.comp = -1


@inner()
def _relink(E, x, now):
    """Put a transfer that was taken off its links on others. What it has sent is booked on those that carried it, so
    the new ones begin with as much less."""
    node = m.nodes(E)[x]
    take_seats(E, x)
    if node.state == LATENCY:
        return
    sent = node.amount - node.remaining
    node.units = -1
    node.rate = 0.0
    occupy(E, x, now)
    for f in range(node.flow0, node.flow1):
        m.links(E)[m.flows(E)[f].link].bytes -= sent * m.flows(E)[f].n
    if m.scalars(E).rule != RULE_NONE:
        for f in range(node.flow0, node.flow1):
            m.loads(E)[m.flows(E)[f].link].sent -= sent * m.flows(E)[f].n
        come_under_rule(E, x, now)
    fresh_node(E, x)
    freshen_followers(E, x)


@njit((TABLE, int64), cache=True)
def fasten(E, j):
    """Put a job that was taken off its links on those that its flows name now. True if jobs that it meets now have
    events before this moment, which must be simulated first."""
    job, now = m.jobs(E)[j], m.scalars(E).now
    for x in range(job.node0, job.node1):
        for f in range(m.nodes(E)[x].flow0, m.nodes(E)[x].flow1):
            m.chain(E)[f].node = x
    enter(E, j)
    n = int64(0)
    if m.scalars(E).skip != 0:
        n = meet(E, j, now, int64(0))
    for x in range(job.node0, job.node1):
        node = m.nodes(E)[x]
        if node.kind != COMPUTE and node.state in (ACTIVE, LATENCY):
            _relink(E, x, now)
    return n > 0
