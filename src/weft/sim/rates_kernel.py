"""New rates for what an instant has touched, and when each transfer ends with them. Readable twin: reference.py."""

import math

from numba import float64, int64, void

from weft.network import memory_kernel as m
from weft.network.kway_kernel import collect_near, fill_kway
from weft.network.maxmin_kernel import settle_maxmin
from weft.network.memory_kernel import TABLE, apart, inner
from weft.network.state import (
    ACTIVE,
    DONE,
    F_B,
    F_ETA,
    F_UNIT,
    I_DIRTY,
    I_DRAWN,
    I_FRESH,
    I_OPENED,
    I_SHARING,
    KWAY,
    MAXMIN,
)
from weft.sim.heap_kernel import heap_drop, heap_set


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
            # both lines as they were last drawn, so that looking again later changes nothing
            ahead = node.amount - node.remaining - node.rate * node.mark - node.chunk
            if lead.state == ACTIVE:
                ahead -= lead.amount - lead.remaining - lead.rate * lead.mark
            catch = max(now, -ahead / (node.rate - lead_rate))
            if catch < when:
                when = catch
                node.event = g
    return when


@inner()
def schedule_opened(E, n_nodes, now):
    """Followers: loosen those whose leader has become faster, then find when each ends or catches up."""
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        node = m.nodes(E)[x]
        for g in range(node.lead0, node.lead1):
            lead = m.nodes(E)[m.leads(E)[g].node]
            if lead.state == DONE or (lead.state == ACTIVE and lead.rate > node.rate):
                m.leads(E)[g].tight = 0
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        if m.nodes(E)[x].lead0 < m.nodes(E)[x].lead1:
            when = next_event_of(E, x, now)
            if when < math.inf:
                heap_set(E, 2 * x, when)
            else:
                heap_drop(E, 2 * x)


@inner((TABLE, int64, float64, float64))
def _draw(E, x, rate, now):
    """Let a transfer go on at a new rate; when it ends follows, unless it also depends on those it may not overtake."""
    node = m.nodes(E)[x]
    if node.rate >= 0.0:
        node.remaining = max(node.remaining - node.rate * (now - node.mark), 0.0)
    node.mark = now
    node.rate = rate
    if node.lead0 == node.lead1:
        if rate > 0.0:
            heap_set(E, 2 * x, now + node.remaining / rate)
        else:
            heap_drop(E, 2 * x)


@inner()
def _solve_maxmin(E, now):
    nodes, unit = m.nodes(E), m.floats(E)[F_UNIT]
    n_nodes = settle_maxmin(E)
    for i in range(m.ints(E)[I_DRAWN]):
        x = m.drawn(E)[i]
        rate = nodes[x].units * unit
        if rate != nodes[x].rate:
            _draw(E, x, rate, now)
    return n_nodes


@inner()
def _solve_near(E, now):
    nodes, k_way = m.nodes(E), m.ints(E)[I_SHARING] == KWAY
    n_nodes = collect_near(E)
    if k_way:
        fill_kway(E, n_nodes, m.floats(E)[F_B], m.floats(E)[F_ETA])
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        rate = nodes[x].key if k_way and nodes[x].flow0 < nodes[x].flow1 else nodes[x].alone
        if rate != nodes[x].rate:
            _draw(E, x, rate, now)
    return n_nodes


@apart(void(TABLE, float64))
def solve(E, now):
    """New rates for everything that this instant touched."""
    if m.ints(E)[I_FRESH] == 0 and m.ints(E)[I_DIRTY] == 0:
        return
    if m.ints(E)[I_SHARING] == MAXMIN:
        n_nodes = _solve_maxmin(E, now)
    else:
        n_nodes = _solve_near(E, now)
    if m.ints(E)[I_OPENED] > 0:
        schedule_opened(E, n_nodes, now)
