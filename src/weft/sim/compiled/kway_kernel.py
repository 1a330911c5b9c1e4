"""Rates of transfers under k-way sharing (Ada-SRSF, Eq. 5). Readable twin: readable/sharing.py."""

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.maxmin_kernel import take, take_fresh
from weft.sim.compiled.memory_kernel import inner
from weft.sim.compiled.state import ACTIVE


@inner()
def collect_near(E):
    """Fresh transfers and all transfers on their links or on dirty links: what k-way sharing looks at."""
    nodes, seats, links = m.nodes(E), m.seats(E), m.links(E)
    stamp = m.scalars(E).stamp + 1
    m.scalars(E).stamp = stamp
    n_nodes = take_fresh(E, stamp)
    for i in range(m.scalars(E).n_dirty):
        links[m.dirty(E)[i]].dirty = 0
        link = links[m.dirty(E)[i]]
        for s in range(link.seat0, link.seat0 + link.count):
            x = seats[s].node
            if nodes[x].stamp != stamp and nodes[x].state == ACTIVE:
                n_nodes = take(E, x, stamp, n_nodes)
    m.scalars(E).n_fresh = 0
    m.scalars(E).n_dirty = 0
    return n_nodes


@inner()
def fill_kway(E, n_nodes, b, eta):
    """Rate of each collected transfer with k transfers on its busiest link: 1 / (k b + (k - 1) eta) (Eq. 5)."""
    nodes, flows, links = m.nodes(E), m.flows(E), m.links(E)
    for i in range(n_nodes):
        node = nodes[m.work_nodes(E)[i]]
        k = 1
        for f in range(node.flow0, node.flow1):
            k = max(k, links[flows[f].link].count)
        node.key = min(1.0 / (k * b + (k - 1) * eta), node.demand)
