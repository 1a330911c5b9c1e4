"""A program that was copied into the arenas becomes an attached job."""

from numba import njit

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.membership_kernel import join
from weft.sim.compiled.state import RUNNING


@njit(cache=True)
def attach(E, j, uid, total, base, p0, p1, serial, starts, sizes):
    """Add the offsets of the arenas to what was copied, fill in the job's row and let it join. True if jobs that it
    meets now have events before this moment, which must be simulated first.

    `starts` and `sizes` are of nodes, succ, flows, ranks, leads and follows.
    """
    node0, succ0, flow0, rank0, lead0, fol0 = starts
    n_nodes, n_succ, _, _, n_leads, n_fol = sizes
    job = m.jobs(E)[j]
    job.state = RUNNING
    job.uid = uid
    job.total = total
    job.base = base
    job.node0 = node0
    job.node1 = node0 + n_nodes
    job.p0 = p0
    job.p1 = p1
    job.mark = m.scalars(E).now
    job.serial = serial
    for x in range(node0, node0 + n_nodes):
        node = m.nodes(E)[x]
        node.job = j
        node.succ0 += succ0
        node.succ1 += succ0
        node.flow0 += flow0
        node.flow1 += flow0
        for f in range(node.flow0, node.flow1):
            m.chain(E)[f].node = x
        node.rank0 += rank0
        node.rank1 += rank0
        node.lead0 += lead0
        node.lead1 += lead0
        node.fol0 += fol0
        node.fol1 += fol0
    for i in range(succ0, succ0 + n_succ):
        m.succ(E)[i] = m.succ(E)[i] + node0
    for i in range(lead0, lead0 + n_leads):
        m.leads(E)[i].node += node0
        m.leads(E)[i].by += node0
    for i in range(fol0, fol0 + n_fol):
        m.follows(E)[i] = m.follows(E)[i] + lead0
    return join(E, j)
