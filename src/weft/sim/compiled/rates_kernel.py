"""New rates for what an instant has touched, and when transfers end with them. Readable twin:
testkit/oracles/engine.py."""

import math

from numba import float64, int64, void

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.heap_kernel import heap_drop, heap_set
from weft.sim.compiled.maxmin_kernel import settle_maxmin, take, take_fresh
from weft.sim.compiled.memory_kernel import TABLE, apart, inner
from weft.sim.compiled.state import (
    ACTIVE,
    DONE,
    KWAY,
    MAXMIN,
)

LATER = -2  # a value of node.event: it ends or catches up only after the rule is next asked


@inner()
def next_event_of(E, x, now):
    """When a transfer ends at its rate, or catches up with a node that it may not overtake."""
    node = m.nodes(E)[x]
    when = node.mark + node.remaining / node.rate if node.rate > 0.0 else math.inf
    node.event = -1
    for g in range(node.lead0, node.lead1):
        lead = m.nodes(E)[m.leads(E)[g].node]
        if lead.state == DONE or m.leads(E)[g].tight != 0:
            continue
        lead_rate = lead.rate if lead.state == ACTIVE else 0.0
        if node.rate > lead_rate:
            # both transfers as they were when their rates last changed, so that looking again later changes nothing
            ahead = node.amount - node.remaining - node.rate * node.mark - node.chunk
            if lead.state == ACTIVE:
                ahead -= lead.amount - lead.remaining - lead.rate * lead.mark
            catch = max(now, -ahead / (node.rate - lead_rate))
            if catch < when and (catch < m.scalars(E).horizon or m.live(E)[x] == 0):
                when = catch
                node.event = g
            elif catch < when and node.event < 0:
                node.event = LATER
    return when


@inner(merged=True)
def _put_down(E, x, when):
    """Schedule the moment at which a transfer ends or catches up, unless a rule is asked before."""
    if when > m.scalars(E).slot_end and m.live(E)[x] != 0:
        m.nodes(E)[x].event = LATER
        heap_drop(E, 2 * x)
    elif when < math.inf:
        heap_set(E, 2 * x, when)
    else:
        heap_drop(E, 2 * x)


@inner()
def _list_opened(E):
    """What has to be scheduled anew, into work_nodes: followers among those drawn, and followers of those drawn.

    On the way followers whose leader has become faster are loosened from it.
    """
    nodes, leads = m.nodes(E), m.leads(E)
    stamp = m.scalars(E).stamp + 1
    m.scalars(E).stamp = stamp
    n = int64(0)
    for i in range(m.scalars(E).n_drawn):
        node = nodes[m.drawn(E)[i]]
        if node.lead0 < node.lead1 and node.stamp != stamp:
            n = take(E, m.drawn(E)[i], stamp, n)
        for f in range(node.fol0, node.fol1):
            y = leads[m.follows(E)[f]].by
            if nodes[y].state == ACTIVE and nodes[y].stamp != stamp:
                n = take(E, y, stamp, n)
    for i in range(n):
        node = nodes[m.work_nodes(E)[i]]
        for g in range(node.lead0, node.lead1):
            lead = nodes[leads[g].node]
            if lead.state == DONE or (lead.state == ACTIVE and lead.rate > node.rate):
                leads[g].tight = 0
    return n


@inner()
def schedule(E, x, now):
    """Find and schedule the moment at which a transfer ends or catches up."""
    _put_down(E, x, next_event_of(E, x, now))


@inner()
def schedule_opened(E, now):
    """Do so for every transfer whose rate, or whose leader's rate, has changed."""
    for i in range(_list_opened(E)):
        schedule(E, m.work_nodes(E)[i], now)


@inner(merged=True)
def draw(E, x, rate, now):
    """Let a transfer go on at a new rate. Its end follows from that, unless it depends on transfers that it may not
    overtake."""
    node = m.nodes(E)[x]
    if node.rate >= 0.0:
        node.remaining = max(node.remaining - node.rate * (now - node.mark), 0.0)
    node.mark = now
    node.rate = rate
    if node.lead0 == node.lead1:
        node.event = -1
        _put_down(E, x, now + node.remaining / rate if rate > 0.0 else math.inf)


@inner(merged=True)
def _solve_maxmin(E, now):
    nodes, unit = m.nodes(E), m.scalars(E).unit
    settle_maxmin(E)
    for i in range(m.scalars(E).n_drawn):
        x = m.drawn(E)[i]
        rate = nodes[x].units * unit
        if rate != nodes[x].rate:
            draw(E, x, rate, now)
    if m.scalars(E).opened > 0:
        schedule_opened(E, now)


@inner()
def _collect_near(E):
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
def _k_way_rate(E, node):
    """Rate of a transfer with k transfers on its busiest link: 1 / (k b + (k - 1) eta) (Ada-SRSF, Eq. 5). Readable
    twin: testkit/oracles/sharing.py."""
    flows, links, b, eta = m.flows(E), m.links(E), m.scalars(E).b, m.scalars(E).eta
    k = 1
    for f in range(node.flow0, node.flow1):
        k = max(k, links[flows[f].link].count)
    return min(1.0 / (k * b + (k - 1) * eta), node.demand)


@inner()
def _solve_near(E, now):
    nodes, k_way = m.nodes(E), m.scalars(E).sharing == KWAY
    for i in range(_collect_near(E)):
        x = m.work_nodes(E)[i]
        rate = _k_way_rate(E, nodes[x]) if k_way and nodes[x].flow0 < nodes[x].flow1 else nodes[x].alone
        if rate != nodes[x].rate:
            draw(E, x, rate, now)


@apart(void(TABLE, float64))
def solve(E, now):
    """New rates for everything that this instant touched."""
    if m.scalars(E).n_fresh == 0 and m.scalars(E).n_dirty == 0:
        return
    if m.scalars(E).sharing == MAXMIN:
        _solve_maxmin(E, now)
    else:
        _solve_near(E, now)
