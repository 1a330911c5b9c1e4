"""The fluid model: a link sees every other job for the share of the time that it sends there."""

from weft.network import memory_kernel as m
from weft.network.memory_kernel import inner
from weft.network.state import (
    COMPUTE,
    F_B,
    F_ETA,
    I_SHARING,
    KWAY,
)

ROUNDS = 12  # of the fluid model


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
