"""The fluid model: a link sees every other job for the share of the time that it sends there.

How long a job's transfers take depends on the loads that the others make, and those loads on how long theirs take. Jobs
are updated one after another until nothing changes any more, starting from the last solution, because most jobs still
have the same neighbours.
"""

from numba import int64

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.memory_kernel import inner
from weft.sim.compiled.state import (
    COMPUTE,
    KWAY,
)

ROUNDS = 12  # most rounds
SETTLED = 1e-4  # no job's pace changed by more in a round


@inner()
def _path_s(E, j, sending):
    """Time of one iteration if each transfer takes `takes` (no time, if `sending` is 0): the longest path, with a
    job's own transfers one after the other."""
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
            end = max(start, net_free) + (node.takes if sending != 0 else 0.0)
            net_free = end
        last = max(last, end)
        for s in range(node.succ0, node.succ1):
            y = m.succ(E)[s]
            nodes[y].ready_s = max(nodes[y].ready_s, end)
    return last


@inner()
def _begin(E, j):
    """Start from what a job does alone, where nothing better is known from before."""
    job, nodes = m.jobs(E)[j], m.nodes(E)
    if job.fluid > 0.0:
        return
    job.bare_gpu = 0.0
    for x in range(job.node0, job.node1):
        node = nodes[x]
        if node.kind == COMPUTE:
            job.bare_gpu += node.weight * node.amount
        else:
            node.takes = node.latency + node.amount / node.alone
    job.bare_s = _path_s(E, j, int64(0))
    job.fluid = 1.0 / _path_s(E, j, int64(1))


@inner()
def _load(E, j, sign):
    """Add a job's flows to the loads of its links, each for the share of the time that it sends, or take them off."""
    job, nodes, flows, loads = m.jobs(E)[j], m.nodes(E), m.flows(E), m.loads(E)
    for x in range(job.node0, job.node1):
        node = nodes[x]
        share = sign * node.takes * job.fluid
        for f in range(node.flow0, node.flow1):
            loads[flows[f].link].mean += flows[f].n * node.claim * share


@inner()
def _among_others(E, j):
    """How long a job's transfers take under the loads of the others; its own never meet each other."""
    job, nodes, flows, links = m.jobs(E)[j], m.nodes(E), m.flows(E), m.links(E)
    k_way = m.scalars(E).sharing == KWAY
    b, eta = m.scalars(E).b, m.scalars(E).eta
    for x in range(job.node0, job.node1):
        node = nodes[x]
        if node.kind == COMPUTE:
            continue
        rate = node.alone
        for f in range(node.flow0, node.flow1):
            link = links[flows[f].link]
            if link.binding == 0:
                continue
            others = max(0.0, m.loads(E)[flows[f].link].mean)
            if k_way:
                rate = min(rate, 1.0 / ((1.0 + others) * b + others * eta))
            else:
                rate = min(rate, node.claim * link.capacity / (flows[f].n * node.claim + others))
        node.takes = node.latency + node.amount / rate
    job.fluid = 1.0 / _path_s(E, j, int64(1))


@inner()
def fluid_pace(E, c):
    """Iterations per second of each job of a component, by the fluid model, into job.fluid."""
    jobs, nodes, flows, loads = m.jobs(E), m.nodes(E), m.flows(E), m.loads(E)
    j = m.comps(E)[c].head
    while j >= 0:
        _begin(E, j)
        job = jobs[j]
        job.gpu_per = job.bare_gpu
        job.comm_per = job.bare_s  # until the pace is known
        for x in range(job.node0, job.node1):
            for f in range(nodes[x].flow0, nodes[x].flow1):
                loads[flows[f].link].mean = 0.0
        j = job.next
    j = m.comps(E)[c].head
    while j >= 0:
        _load(E, j, 1.0)
        j = jobs[j].next
    for _ in range(ROUNDS):
        change = 0.0
        j = m.comps(E)[c].head
        while j >= 0:
            before = jobs[j].fluid
            _load(E, j, -1.0)
            _among_others(E, j)
            _load(E, j, 1.0)
            change = max(change, abs(before / jobs[j].fluid - 1.0))
            j = jobs[j].next
        if change <= SETTLED:
            return
