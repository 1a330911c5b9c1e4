"""Rates of transfers: max-min by filling bottleneck links, k-way, ideal. Readable twin: reference.py.

Both do the same float operations in the same order. A link's share is (capacity - what is fixed) / (flows not fixed).
Links wait in a queue by (share, id); the share of the first is computed anew, and if it has grown the link goes back;
otherwise it is the bottleneck, and all its transfers get that rate. A transfer's own demand is one more entry, after
the links. What a link loses in one step is subtracted at once (rate x number of flows), so the order in which its
transfers are listed does not matter, nor which other components are solved with it.
"""

from numba import njit

from weft.network import memory_kernel as m
from weft.network.state import ACTIVE, I_DIRTY, I_FRESH, I_STAMP

SCAN = 24  # up to so many entries a linear search beats a heap


@njit(cache=True)
def collect(E):
    """The connected component of all fresh transfers and dirty links, into work_nodes and work_links."""
    nodes, flows, links = m.nodes(E), m.flows(E), m.links(E)
    stamp = m.ints(E)[I_STAMP] + 1
    m.ints(E)[I_STAMP] = stamp
    n_nodes = 0
    n_links = 0
    for i in range(m.ints(E)[I_FRESH]):
        x = m.fresh(E)[i]
        nodes[x].listed = 0
        if nodes[x].state == ACTIVE and nodes[x].stamp != stamp:
            nodes[x].stamp = stamp
            m.work_nodes(E)[n_nodes] = x
            n_nodes += 1
    for i in range(m.ints(E)[I_DIRTY]):
        k = m.dirty(E)[i]
        links[k].fill = 0
        if links[k].binding != 0:
            if links[k].stamp != stamp:
                links[k].stamp = stamp
                m.work_links(E)[n_links] = k
                n_links += 1
            continue
        f = links[k].head  # it has just ceased to be a possible bottleneck: its transfers may go faster
        while f >= 0:
            x = flows[f].node
            if nodes[x].stamp != stamp and nodes[x].state == ACTIVE:
                nodes[x].stamp = stamp
                m.work_nodes(E)[n_nodes] = x
                n_nodes += 1
            f = flows[f].next
    m.ints(E)[I_FRESH] = 0
    m.ints(E)[I_DIRTY] = 0
    i_node = 0
    i_link = 0
    while i_node < n_nodes or i_link < n_links:
        while i_node < n_nodes:
            x = m.work_nodes(E)[i_node]
            i_node += 1
            for f in range(nodes[x].flow0, nodes[x].flow1):
                k = flows[f].link
                if links[k].binding != 0 and links[k].stamp != stamp:
                    links[k].stamp = stamp
                    m.work_links(E)[n_links] = k
                    n_links += 1
            for f in range(nodes[x].lead0, nodes[x].lead1):
                y = m.leads(E)[f].node
                if nodes[y].state == ACTIVE and nodes[y].stamp != stamp:
                    nodes[y].stamp = stamp
                    m.work_nodes(E)[n_nodes] = y
                    n_nodes += 1
            for f in range(nodes[x].fol0, nodes[x].fol1):
                y = m.follows(E)[f]
                if nodes[y].state == ACTIVE and nodes[y].stamp != stamp:
                    nodes[y].stamp = stamp
                    m.work_nodes(E)[n_nodes] = y
                    n_nodes += 1
        while i_link < n_links:
            k = m.work_links(E)[i_link]
            i_link += 1
            f = links[k].head
            while f >= 0:
                x = flows[f].node
                if nodes[x].stamp != stamp and nodes[x].state == ACTIVE:
                    nodes[x].stamp = stamp
                    m.work_nodes(E)[n_nodes] = x
                    n_nodes += 1
                f = flows[f].next
    return n_nodes, n_links


@njit(cache=True)
def _before(key_a, id_a, key_b, id_b):
    return key_a < key_b or (key_a == key_b and id_a < id_b)


@njit(cache=True)
def _queue_down(keys, ids, n, i):
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


@njit(cache=True)
def _fix(E, x, rate, n_touched):
    """Give a transfer its rate, and its followers that are level with it; count what its links lose."""
    nodes, flows, links, stack = m.nodes(E), m.flows(E), m.links(E), m.work_stack(E)
    stack[0] = x
    nodes[x].fresh = rate
    top = 1
    while top > 0:
        top -= 1
        y = stack[top]
        for f in range(nodes[y].flow0, nodes[y].flow1):
            k = flows[f].link
            if links[k].binding != 0:
                if links[k].cnt == 0:
                    m.dirty(E)[n_touched] = k
                    n_touched += 1
                links[k].cnt += flows[f].n
        for f in range(nodes[y].fol0, nodes[y].fol1):
            z = m.follows(E)[f]
            if nodes[z].state == ACTIVE and nodes[z].fresh < 0.0:
                for g in range(nodes[z].lead0, nodes[z].lead1):
                    if m.leads(E)[g].node == y and m.leads(E)[g].tight != 0:
                        nodes[z].fresh = rate
                        stack[top] = z
                        top += 1
                        break
    return n_touched


@njit(cache=True)
def _subtract(E, rate, n_touched):
    links = m.links(E)
    for i in range(n_touched):
        k = m.dirty(E)[i]
        links[k].free -= rate * links[k].cnt
        links[k].weight_left -= links[k].cnt
        links[k].cnt = 0


@njit(cache=True)
def _fix_stalled(E, n_nodes):
    """Followers that are level with a node that has not started cannot move."""
    nodes = m.nodes(E)
    n_touched = 0
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        if nodes[x].fresh >= 0.0:
            continue
        for g in range(nodes[x].lead0, nodes[x].lead1):
            if m.leads(E)[g].tight != 0 and nodes[m.leads(E)[g].node].state < ACTIVE:
                n_touched = _fix(E, x, 0.0, n_touched)
                break
    _subtract(E, 0.0, n_touched)


@njit(cache=True)
def fill_maxmin(E, n_nodes, n_links):
    """Max-min rates of the collected component, into nodes.fresh."""
    nodes, flows, links = m.nodes(E), m.flows(E), m.links(E)
    if n_nodes == 1 and nodes[m.work_nodes(E)[0]].lead0 == nodes[m.work_nodes(E)[0]].lead1:
        x = m.work_nodes(E)[0]
        nodes[x].fresh = nodes[x].alone
        return
    keys, ids = m.fill_key(E), m.fill_id(E)
    n = 0
    opened = False
    for i in range(n_links):
        k = m.work_links(E)[i]
        links[k].free = links[k].capacity
        links[k].weight_left = links[k].weight
        if links[k].weight > 0:
            keys[n] = links[k].capacity / links[k].weight
            ids[n] = k
            n += 1
    offset = len(links)
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        nodes[x].fresh = -1.0
        if nodes[x].lead0 < nodes[x].lead1:
            opened = True
        if nodes[x].demand < 1e300:
            keys[n] = nodes[x].demand
            ids[n] = offset + x
            n += 1
    if opened:
        _fix_stalled(E, n_nodes)
    heap = n > SCAN
    if heap:
        for i in range(n // 2 - 1, -1, -1):
            _queue_down(keys, ids, n, i)
    while n > 0:
        at = 0
        if not heap:
            for i in range(1, n):
                if _before(keys[i], ids[i], keys[at], ids[at]):
                    at = i
        ident = ids[at]
        n_touched = 0
        rate = keys[at]
        again = False
        if ident >= offset:
            if nodes[ident - offset].fresh < 0.0:
                n_touched = _fix(E, ident - offset, rate, 0)
        elif links[ident].weight_left > 0:
            now = links[ident].free / links[ident].weight_left
            if now > rate:
                keys[at] = now
                again = True
            else:
                rate = max(now, 0.0)
                f = links[ident].head
                while f >= 0:
                    x = flows[f].node
                    if nodes[x].state == ACTIVE and nodes[x].fresh < 0.0:
                        n_touched = _fix(E, x, rate, n_touched)
                    f = flows[f].next
        if not again:
            n -= 1
            keys[at] = keys[n]
            ids[at] = ids[n]
            if n_touched > 0:
                _subtract(E, rate, n_touched)
        if heap and n > 0:
            _queue_down(keys, ids, n, 0)


@njit(cache=True)
def fill_kway(E, n_nodes, b, eta):
    """Rate of each collected transfer with k transfers on its busiest link: 1 / (k b + (k - 1) eta) (Eq. 5)."""
    nodes, flows, links = m.nodes(E), m.flows(E), m.links(E)
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        k = 1
        for f in range(nodes[x].flow0, nodes[x].flow1):
            k = max(k, links[flows[f].link].count)
        rate = 1.0 / (k * b + (k - 1) * eta)
        if nodes[x].flow0 == nodes[x].flow1:
            rate = nodes[x].alone
        nodes[x].fresh = min(rate, nodes[x].demand)


@njit(cache=True)
def collect_near(E):
    """Fresh transfers and all transfers on their links or on dirty links: what k-way sharing looks at."""
    nodes, flows, links = m.nodes(E), m.flows(E), m.links(E)
    stamp = m.ints(E)[I_STAMP] + 1
    m.ints(E)[I_STAMP] = stamp
    n_nodes = 0
    for i in range(m.ints(E)[I_FRESH]):
        x = m.fresh(E)[i]
        nodes[x].listed = 0
        if nodes[x].state == ACTIVE and nodes[x].stamp != stamp:
            nodes[x].stamp = stamp
            m.work_nodes(E)[n_nodes] = x
            n_nodes += 1
    for i in range(m.ints(E)[I_DIRTY]):
        links[m.dirty(E)[i]].fill = 0
        f = links[m.dirty(E)[i]].head
        while f >= 0:
            x = flows[f].node
            if nodes[x].stamp != stamp and nodes[x].state == ACTIVE:
                nodes[x].stamp = stamp
                m.work_nodes(E)[n_nodes] = x
                n_nodes += 1
            f = flows[f].next
    m.ints(E)[I_FRESH] = 0
    m.ints(E)[I_DIRTY] = 0
    return n_nodes
