"""Max-min rates of transfers, by filling bottleneck links. Readable twin: testkit/oracles/sharing.py.

Max-min counts rates in whole units, so sums are exact and the result does not depend on the order in which transfers
are listed. A link's share is (capacity - what is fixed) / (flows not fixed), rounded down; the links fill up one after
another (fill_kernel.py).

Rates are fixed in rising order, so a change leaves alone all that is slower than the level at which it is first felt:
the rate of a transfer that ended, or the rate at which a link of a new transfer now fills up. Only transfers from that
level on, and connected to the change through such transfers, are solved again.
"""

from numba import int64, void

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.fill_kernel import fill
from weft.sim.compiled.memory_kernel import TABLE, apart, inner
from weft.sim.compiled.state import (
    ACTIVE,
    RULE_NONE,
    UNLIMITED,
)

# A link's share is rounded down. When only some of its transfers are solved again, the remainder goes to them: their
# rates are larger by up to as many units as the link has flows, but mean the same level.
ROUNDED = 1 << 16


@inner(merged=True)
def loose(E, k):
    """Whether a link has room for all that its transfers may have, so that it limits none of them at any rates. Known
    only where a rule sets caps."""
    return m.scalars(E).rule != RULE_NONE and m.loads(E)[k].uncapped == 0 and m.loads(E)[k].caps <= m.links(E)[k].units


@inner()
def _fills_at(E, k):
    """The level at which a link fills up, given the rates of its transfers and that those without one have no limit."""
    nodes, seats, link = m.nodes(E), m.seats(E), m.links(E)[k]
    level = link.units // link.weight
    while True:
        fixed = 0
        weight = link.weight
        for s in range(link.seat0, link.seat0 + link.count):
            node = nodes[seats[s].node]
            if node.state == ACTIVE and 0 <= node.units < level:
                fixed += seats[s].n * node.units
                weight -= seats[s].n
        if weight == 0:  # nobody is at the level: fewer units are left than the link has flows
            return level
        higher = (link.units - fixed) // weight
        if higher <= level:
            return level
        level = higher


@inner(merged=True)
def _tighten(E, x):
    """Let the links of a transfer without a rate take part: any of them may be its bottleneck, unless it has room for
    all."""
    ruled = m.scalars(E).rule != RULE_NONE
    for f in range(m.nodes(E)[x].flow0, m.nodes(E)[x].flow1):
        if not ruled or not loose(E, m.flows(E)[f].link):
            m.links(E)[m.flows(E)[f].link].tight = 1


@inner()
def _moves_from(E, node):
    """The lowest rate that a transfer has now, or may get because of its cap or of a transfer that it may not overtake;
    one that starts is limited by links too."""
    level = UNLIMITED if node.units < 0 else min(node.units, node.demand_units)
    for g in range(node.lead0, node.lead1):
        lead = m.nodes(E)[m.leads(E)[g].node]
        if m.leads(E)[g].tight != 0 and lead.state < ACTIVE:
            return 0
        if m.leads(E)[g].tight != 0 and lead.state == ACTIVE and lead.units >= 0:
            level = min(level, lead.units)
    return level


@inner(merged=True)
def _felt_from(E):
    """The level from which the changes of this instant can be felt; below it nothing is solved again.

    Where transfers have weights or priorities of their own, rates are not fixed in rising order: then it is 0.
    """
    nodes, flows, links = m.nodes(E), m.flows(E), m.links(E)
    level = UNLIMITED if m.scalars(E).ranked == 0 else 0
    for i in range(m.scalars(E).n_dirty):
        link = links[m.dirty(E)[i]]
        if link.tight != 0 or link.binding == 0:
            level = min(level, link.felt)
        link.felt = UNLIMITED
    for i in range(m.scalars(E).n_fresh):
        node = nodes[m.fresh(E)[i]]
        if node.state != ACTIVE:
            continue
        _tighten(E, m.fresh(E)[i])
        if node.units >= 0 or node.lead0 < node.lead1:
            level = min(level, _moves_from(E, node))
        for f in range(node.flow0, node.flow1):
            if level <= 0 or node.units >= 0:
                break
            if links[flows[f].link].binding != 0 and links[flows[f].link].tight != 0:
                level = min(level, _fills_at(E, flows[f].link))
    return level if level == UNLIMITED else max(level - ROUNDED, 0)


@inner()
def take(E, x, stamp, n_nodes):
    """List a transfer among those that are looked at; returns how many there are now."""
    m.nodes(E)[x].stamp = stamp
    m.work_nodes(E)[n_nodes] = x
    return n_nodes + 1


@inner(merged=True)
def take_fresh(E, stamp):
    """List the transfers that need a first rate; returns how many there are."""
    nodes = m.nodes(E)
    n_nodes = int64(0)
    for i in range(m.scalars(E).n_fresh):
        x = m.fresh(E)[i]
        nodes[x].listed = 0
        if nodes[x].state == ACTIVE and nodes[x].stamp != stamp:
            n_nodes = take(E, x, stamp, n_nodes)
    return n_nodes


@inner(merged=True)
def _take_link(E, k, stamp, n_links):
    """Let a link take part: it starts with what the transfers that do not take part leave of it."""
    link = m.links(E)[k]
    link.stamp = stamp
    link.free = link.units - link.used
    link.weight_left = 0
    m.work_links(E)[n_links] = k
    return n_links + 1


@inner(merged=True)
def _seeds(E, stamp, level):
    """Where a change starts: fresh transfers, dirty links, and transfers on a link that has just ceased to be a
    possible bottleneck."""
    nodes, seats, links = m.nodes(E), m.seats(E), m.links(E)
    n_nodes = take_fresh(E, stamp)
    n_links = int64(0)
    for i in range(m.scalars(E).n_dirty):
        k = m.dirty(E)[i]
        links[k].dirty = 0
        if links[k].binding != 0:
            if links[k].stamp != stamp and links[k].tight != 0:
                n_links = _take_link(E, k, stamp, n_links)
            continue
        for s in range(links[k].seat0, links[k].seat0 + links[k].count):
            node = nodes[seats[s].node]
            if node.stamp != stamp and node.state == ACTIVE and node.units >= level:
                _tighten(E, seats[s].node)
                n_nodes = take(E, seats[s].node, stamp, n_nodes)
    m.scalars(E).n_fresh = 0
    m.scalars(E).n_dirty = 0
    return n_nodes, n_links


@inner()
def _take_joined(E, node, stamp, n_nodes):
    """List what moves in step with a transfer: what it may not overtake, and what may not overtake it."""
    nodes, leads = m.nodes(E), m.leads(E)
    for g in range(node.lead0, node.lead1):
        y = leads[g].node
        if leads[g].tight != 0 and nodes[y].state == ACTIVE and nodes[y].stamp != stamp:
            n_nodes = take(E, y, stamp, n_nodes)
    for f in range(node.fol0, node.fol1):
        lead = leads[m.follows(E)[f]]
        if lead.tight != 0 and nodes[lead.by].state == ACTIVE and nodes[lead.by].stamp != stamp:
            n_nodes = take(E, lead.by, stamp, n_nodes)
    return n_nodes


@inner(merged=True)
def _collect(E):
    """What must be solved again, into work_nodes and work_links: the seeds, and all that is connected with them, from
    the level on at which the change is felt."""
    nodes, flows, links, seats = m.nodes(E), m.flows(E), m.links(E), m.seats(E)
    work_nodes, work_links = m.work_nodes(E), m.work_links(E)
    level = _felt_from(E)
    stamp = m.scalars(E).stamp + 1
    m.scalars(E).stamp = stamp
    n_nodes, n_links = _seeds(E, stamp, level)
    i_node = 0
    i_link = 0
    while i_node < n_nodes or i_link < n_links:
        while i_node < n_nodes:
            node = nodes[work_nodes[i_node]]
            i_node += 1
            node.fresh = -1
            had, claim = max(node.units, 0), node.claim
            for f in range(node.flow0, node.flow1):
                flow = flows[f]
                link = links[flow.link]
                if link.stamp != stamp and link.binding != 0 and link.tight != 0:
                    n_links = _take_link(E, flow.link, stamp, n_links)
                link.free += had * flow.n
                link.weight_left += flow.n * claim
            if node.lead0 < node.lead1 or node.fol0 < node.fol1:
                n_nodes = _take_joined(E, node, stamp, n_nodes)
        while i_link < n_links:
            link = links[work_links[i_link]]
            i_link += 1
            for s in range(link.seat0, link.seat0 + link.count):
                x = seats[s].node
                node = nodes[x]
                # without a branch, because the processor could not predict it
                taken = (node.stamp != stamp) & (node.units >= level) & (node.state == ACTIVE) & (node.demand_units > 0)
                node.stamp = stamp if taken else node.stamp
                work_nodes[n_nodes] = x
                n_nodes += taken
    return n_nodes, n_links


@inner(merged=True)
def _commit(E, n_nodes, instant, n_drawn):
    """Book the new rates on the links, and note whose have changed at this instant; returns how many in all.

    Links that were left out and may be too full now are listed as dirty.
    """
    nodes, flows, links = m.nodes(E), m.flows(E), m.links(E)
    n_dirty = 0
    for i in range(n_nodes):
        x = m.work_nodes(E)[i]
        node = nodes[x]
        if node.fresh == node.units:
            continue
        more = node.fresh - max(node.units, 0)
        for f in range(node.flow0, node.flow1):
            flow = flows[f]
            link = links[flow.link]
            link.used += more * flow.n
            if link.tight == 0 and more > 0 and link.units - link.used < link.weight and link.dirty == 0:
                link.dirty = 1
                m.dirty(E)[n_dirty] = flow.link
                n_dirty += 1
        node.units = node.fresh
        if node.drawn != instant:
            node.drawn = instant
            m.drawn(E)[n_drawn] = x
            n_drawn += 1
    m.scalars(E).n_dirty = n_dirty
    return n_drawn


@inner(merged=True)
def _find_tight(E):
    """Links that were left out because they had room and have none now: they are the next changes to be felt."""
    links, dirty, stamp = m.links(E), m.dirty(E), m.scalars(E).stamp
    found = 0
    for i in range(m.scalars(E).n_dirty):
        link = links[dirty[i]]
        full = link.binding != 0 and link.units - link.used < link.weight
        if link.stamp != stamp and full and not loose(E, dirty[i]):
            link.tight = 1
            link.felt = _fills_at(E, dirty[i])
            dirty[found] = dirty[i]
            found += 1
        else:
            link.dirty = 0
    m.scalars(E).n_dirty = found
    return found > 0


@inner()
def _note_opened(E, instant):
    """List transfers that may not overtake others as drawn even if their rates stay the same, because the moment at
    which they catch up may have changed. Returns how many there are."""
    nodes, n_drawn = m.nodes(E), 0
    for i in range(m.scalars(E).n_fresh):
        x = m.fresh(E)[i]
        if nodes[x].state == ACTIVE and nodes[x].lead0 < nodes[x].lead1 and nodes[x].drawn != instant:
            nodes[x].drawn = instant
            m.drawn(E)[n_drawn] = x
            n_drawn += 1
    return n_drawn


@apart(void(TABLE))
def settle_maxmin(E):
    """Max-min rates after this instant, committed. Those whose rates have changed are in `drawn`.

    A link with at least as many units left as it carries flows is no transfer's bottleneck. It is left out, and so are
    transfers that only meet there. If it turns out to be too full for the new rates it is let in, which is one more
    change.
    """
    links = m.links(E)
    instant = m.scalars(E).stamp + 1
    n_drawn = _note_opened(E, instant) if m.scalars(E).opened > 0 else 0
    while True:
        n_nodes, n_links = _collect(E)
        fill(E, n_nodes, n_links)
        n_drawn = _commit(E, n_nodes, instant, n_drawn)
        if not _find_tight(E):
            break
    for i in range(n_links):
        link = links[m.work_links(E)[i]]
        link.tight = link.units - link.used < link.weight and not loose(E, m.work_links(E)[i])
    m.scalars(E).n_drawn = n_drawn
