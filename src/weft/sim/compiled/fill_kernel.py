"""Filling: transfers that are to be solved again get their max-min rates, bottleneck by bottleneck.

Links wait in a queue by (share, id); the share of the first is computed anew, and if it has grown the link goes back;
otherwise it is the bottleneck, and all its transfers get that share times their weight. A transfer's own demand is one
more entry, after the links. Levels of priority are filled one after the other. maxmin_kernel.py
decides which transfers are solved again. Readable twin: testkit/oracles/sharing.py.
"""

from numba import int64

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.memory_kernel import inner
from weft.sim.compiled.state import ACTIVE, RULE_NONE, UNLIMITED

THIS_LEVEL, LATER_LEVEL = -1, -2  # in node.fresh: the rate comes with the level being filled now, or with a later one
SCAN = 24  # up to this many entries a linear search beats a heap


@inner()
def _before(key_a, id_a, key_b, id_b):
    return key_a < key_b or (key_a == key_b and id_a < id_b)


@inner()
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


@inner(merged=True)
def _give(E, x, rate):
    """Give a transfer its rate and take it from its links."""
    flows, links, node = m.flows(E), m.links(E), m.nodes(E)[x]
    node.fresh = rate
    claim = node.claim
    for f in range(node.flow0, node.flow1):
        flow = flows[f]
        link = links[flow.link]
        link.free -= rate * flow.n
        link.weight_left -= flow.n * claim


@inner()
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
            lead = m.leads(E)[m.follows(E)[f]]
            z = lead.by
            if lead.tight != 0 and nodes[z].state == ACTIVE and nodes[z].fresh == THIS_LEVEL:
                _give(E, z, rate)
                stack[top] = z
                top += 1
                fixed += 1
    return fixed


@inner(merged=True)
def _fix(E, x, rate):
    """Give a transfer and its followers their rate; returns how many got theirs."""
    _give(E, x, rate)
    if m.nodes(E)[x].fol0 == m.nodes(E)[x].fol1:
        return 1
    return 1 + _give_followers(E, x, rate)


@inner()
def _fix_still(E, n_nodes):
    """Transfers that may have nothing, and followers that are level with a node that has not started, stand still."""
    nodes = m.nodes(E)
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        if nodes[x].fresh != THIS_LEVEL:
            continue
        still = nodes[x].demand_units == 0
        for g in range(nodes[x].lead0, nodes[x].lead1):
            still |= m.leads(E)[g].tight != 0 and nodes[m.leads(E)[g].node].state < ACTIVE
        if still:
            _fix(E, x, int64(0))


@inner()
def _free_of_others(E, x, stamp):
    """Whether nothing but its cap limits a transfer: no link under consideration, and no transfer that it keeps step
    with."""
    node = m.nodes(E)[x]
    if node.demand_units == UNLIMITED:
        return False
    for f in range(node.flow0, node.flow1):
        if m.links(E)[m.flows(E)[f].link].stamp == stamp:
            return False
    for g in range(node.lead0, node.lead1):
        if m.leads(E)[g].tight != 0:
            return False
    alone = True
    for f in range(node.fol0, node.fol1):
        alone &= m.leads(E)[m.follows(E)[f]].tight == 0
    return alone


@inner()
def _give_caps(E, n_nodes, stamp):
    """Give capped transfers their caps: where a rule sets caps, most transfers simply get theirs and need not queue."""
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        if _free_of_others(E, x, stamp):
            _give(E, x, m.nodes(E)[x].demand_units)


@inner(merged=True)
def _queue_all(E, n_nodes, n_links):
    """Fill the bottleneck queue with the transfers of this level that have no rate yet, and with all links.

    Returns its length, the number of these transfers, and how many of them have a cap.
    """
    nodes, links = m.nodes(E), m.links(E)
    keys, ids = m.fill_key(E), m.fill_id(E)
    left, n = 0, int64(0)
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        node = nodes[x]
        if node.fresh != THIS_LEVEL:
            continue
        left += 1
        if node.demand_units < UNLIMITED:
            keys[n] = node.demand_units if node.claim == 1 else node.demand_units // node.claim
            ids[n] = m.n_links(E) + x
            n += 1
    capped = n
    for i in range(n_links):
        k = m.work_links(E)[i]
        if links[k].weight_left > 0:
            keys[n] = links[k].free // links[k].weight_left
            ids[n] = k
            n += 1
    if n > SCAN:
        for i in range(n // 2 - 1, -1, -1):
            _queue_down(E, n, i)
    return n, left, capped


@inner()
def _has_room(E, k):
    """Whether a link can give all of its transfers that have no rate yet what they may have: then it limits none."""
    nodes, seats, link = m.nodes(E), m.seats(E), m.links(E)[k]
    asked = 0
    for s in range(link.seat0, link.seat0 + link.count):
        node = nodes[seats[s].node]
        if node.fresh == THIS_LEVEL and node.state == ACTIVE:
            if node.demand_units == UNLIMITED:
                return False
            asked += node.demand_units * seats[s].n
            if asked > link.free:
                return False
    return True


@inner(merged=True)
def _fix_bottleneck(E, k, share):
    """All transfers of this level on a link that have no rate yet get its share, by their weights; returns how many."""
    nodes, seats, link = m.nodes(E), m.seats(E), m.links(E)[k]
    fixed = 0
    for s in range(link.seat0, link.seat0 + link.count):
        x = seats[s].node
        if nodes[x].fresh == THIS_LEVEL and nodes[x].state == ACTIVE:
            fixed += _fix(E, x, share * nodes[x].claim)
            if link.weight_left == 0:
                break
    return fixed


@inner()
def _fill_level(E, n_nodes, n_links):
    """Rates of the transfers of this level, on what the levels before it have left."""
    nodes, links = m.nodes(E), m.links(E)
    keys, ids = m.fill_key(E), m.fill_id(E)
    offset = m.n_links(E)
    if m.scalars(E).opened > 0 or m.scalars(E).rule != RULE_NONE:
        _fix_still(E, n_nodes)
    n, left, capped = _queue_all(E, n_nodes, n_links)
    heap = n > SCAN
    while left > 0 and n > 0:
        at, key, ident = 0, keys[0], ids[0]
        if not heap:
            for i in range(1, n):
                if _before(keys[i], ids[i], key, ident):
                    at, key, ident = i, keys[i], ids[i]
        if ident >= offset:
            if nodes[ident - offset].fresh == THIS_LEVEL:
                left -= _fix(E, ident - offset, nodes[ident - offset].demand_units)
        elif links[ident].weight_left > 0:
            share = links[ident].free // links[ident].weight_left
            if share > key:
                keys[at] = share
                if heap:
                    _queue_down(E, n, int64(0))
                continue
            if capped == 0 or not _has_room(E, ident):
                left -= _fix_bottleneck(E, ident, share)
        n -= 1
        keys[at] = keys[n]
        ids[at] = ids[n]
        if heap and n > 0:
            _queue_down(E, n, int64(0))


@inner()
def _next_level(E, n_nodes, n_links, after):
    """Choose the first level after a given one that has transfers without a rate, or -1; the links count these."""
    nodes, links, flows = m.nodes(E), m.links(E), m.flows(E)
    level = -1
    for i in range(n_nodes):
        node = nodes[m.work_nodes(E)[i]]
        if node.fresh < 0 and node.level > after and (level < 0 or node.level < level):
            level = node.level
    for i in range(n_links):
        links[m.work_links(E)[i]].weight_left = 0
    for i in range(n_nodes):
        node = nodes[m.work_nodes(E)[i]]
        if node.fresh >= 0:
            continue
        node.fresh = THIS_LEVEL if node.level == level else LATER_LEVEL
        if node.level == level:
            for f in range(node.flow0, node.flow1):
                links[flows[f].link].weight_left += flows[f].n * node.claim
    return level


@inner()
def fill(E, n_nodes, n_links):
    """Max-min rates of the transfers in work_nodes, limited by the links in work_links, into `fresh`."""
    if m.scalars(E).rule != RULE_NONE:
        _give_caps(E, n_nodes, m.scalars(E).stamp)
    if m.scalars(E).ranked == 0:
        _fill_level(E, n_nodes, n_links)
        return
    level = _next_level(E, n_nodes, n_links, int64(-1))
    while level >= 0:
        _fill_level(E, n_nodes, n_links)
        level = _next_level(E, n_nodes, n_links, level)
