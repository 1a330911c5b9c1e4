"""Filling: transfers that are to be solved again get their max-min rates, bottleneck by bottleneck.

Links wait in a queue by (share, id); the share of the first is computed anew, and if it has grown the link goes back;
otherwise it is the bottleneck, and all its transfers get that rate. A transfer's own demand is one more entry, after
the links. Which transfers these are is for maxmin_kernel.py to say. Readable twin: reference.py.
"""

from numba import int64

from weft.network import memory_kernel as m
from weft.network.memory_kernel import TABLE, inner
from weft.network.state import ACTIVE, UNLIMITED

SCAN = 24  # up to so many entries a linear search beats a heap


@inner()
def _before(key_a, id_a, key_b, id_b):
    return key_a < key_b or (key_a == key_b and id_a < id_b)


@inner((TABLE, int64, int64))
def _queue_down(E, n, i):
    keys, ids = m.fill_key(E), m.fill_id(E)
    key, ident = keys[i], ids[i]
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(keys[child + 1], ids[child + 1], keys[child], ids[child]):
            child += 1
        if not _before(keys[child], ids[child], key, ident):
            break
        keys[i] = keys[child]
        ids[i] = ids[child]
        i = child
    keys[i] = key
    ids[i] = ident


@inner((TABLE, int64, int64))
def _give(E, x, rate):
    """Give a transfer its rate and take it from its links."""
    flows, links, node = m.flows(E), m.links(E), m.nodes(E)[x]
    node.fresh = rate
    for f in range(node.flow0, node.flow1):
        flow = flows[f]
        link = links[flow.link]
        link.free -= rate * flow.n
        link.weight_left -= flow.n


@inner((TABLE, int64, int64))
def _give_followers(E, x, rate):
    """Followers that are level with a transfer get its rate too; returns how many."""
    nodes, stack = m.nodes(E), m.work_stack(E)
    fixed = 0
    stack[0] = x
    top = 1
    while top > 0:
        top -= 1
        y = stack[top]
        for f in range(nodes[y].fol0, nodes[y].fol1):
            z = m.follows(E)[f]
            if nodes[z].state != ACTIVE or nodes[z].fresh >= 0:
                continue
            for g in range(nodes[z].lead0, nodes[z].lead1):
                if m.leads(E)[g].node == y and m.leads(E)[g].tight != 0:
                    _give(E, z, rate)
                    stack[top] = z
                    top += 1
                    fixed += 1
                    break
    return fixed


@inner((TABLE, int64, int64))
def _fix(E, x, rate):
    """Give a transfer and its followers their rate; returns how many got theirs."""
    _give(E, x, rate)
    if m.nodes(E)[x].fol0 == m.nodes(E)[x].fol1:
        return 1
    return 1 + _give_followers(E, x, rate)


@inner()
def _fix_stalled(E, n_nodes):
    """Followers that are level with a node that has not started cannot move; returns how many."""
    nodes = m.nodes(E)
    fixed = 0
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        for g in range(nodes[x].lead0, nodes[x].lead1):
            if nodes[x].fresh < 0 and m.leads(E)[g].tight != 0 and nodes[m.leads(E)[g].node].state < ACTIVE:
                fixed += _fix(E, x, 0)
    return fixed


@inner()
def _queue_all(E, n_nodes, n_links):
    """Fill the bottleneck queue; returns its length and whether some transfers follow others."""
    nodes, links = m.nodes(E), m.links(E)
    keys, ids = m.fill_key(E), m.fill_id(E)
    opened = False
    n = 0
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        node = nodes[x]
        if node.lead0 < node.lead1:
            opened = True
        if node.demand_units < UNLIMITED:
            keys[n] = node.demand_units
            ids[n] = m.n_links(E) + x
            n += 1
    for i in range(n_links):
        k = m.work_links(E)[i]
        if links[k].weight_left > 0:
            keys[n] = links[k].free // links[k].weight_left
            ids[n] = k
            n += 1
    if n > SCAN:
        for i in range(n // 2 - 1, -1, -1):
            _queue_down(E, n, i)
    return n, opened


@inner((TABLE, int64, int64))
def fill(E, n_nodes, n_links):
    """Max-min rates of the transfers in work_nodes, limited by the links in work_links, into `fresh`."""
    nodes, seats, links = m.nodes(E), m.seats(E), m.links(E)
    keys, ids = m.fill_key(E), m.fill_id(E)
    offset = m.n_links(E)
    n, opened = _queue_all(E, n_nodes, n_links)
    heap = n > SCAN
    left = n_nodes
    if opened:
        left -= _fix_stalled(E, n_nodes)
    while left > 0:
        at = 0
        if not heap:
            for i in range(1, n):
                if _before(keys[i], ids[i], keys[at], ids[at]):
                    at = i
        ident = ids[at]
        rate = keys[at]
        if ident >= offset:
            if nodes[ident - offset].fresh < 0:
                left -= _fix(E, ident - offset, rate)
        elif links[ident].weight_left > 0:
            share = links[ident].free // links[ident].weight_left
            if share > rate:
                keys[at] = share
                if heap:
                    _queue_down(E, n, 0)
                continue
            for s in range(links[ident].seat0, links[ident].seat0 + links[ident].count):
                x = seats[s].node
                if nodes[x].fresh < 0 and nodes[x].state == ACTIVE:
                    left -= _fix(E, x, rate)
                    if links[ident].weight_left == 0:
                        break
        n -= 1
        keys[at] = keys[n]
        ids[at] = ids[n]
        if heap and n > 0:
            _queue_down(E, n, 0)
