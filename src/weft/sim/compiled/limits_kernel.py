"""What a rule that sets caps sees of the compiled engine's transfers, and how its answers reach them.

Readable twin: testkit/oracles/engine.py.
"""

import numpy as np
from numba import njit

from weft.sim.compiled import memory_kernel as m
from weft.sim.compiled.maxmin_kernel import loose
from weft.sim.compiled.memory_kernel import inner
from weft.sim.compiled.rates_kernel import LATER, draw, schedule, schedule_opened
from weft.sim.compiled.state import ACTIVE, DONE
from weft.sim.compiled.tasks_kernel import dirty_link, fresh_node, limit_to, remaining_bytes


@njit(cache=True)
def sent(E, rows, out):
    """Bytes that each flow of these transfers has sent."""
    now = m.scalars(E).now
    for i in range(len(rows)):
        out[i] = m.nodes(E)[rows[i]].amount - remaining_bytes(E, rows[i], now)


@njit(cache=True)
def carried(E, rows, sent, out):
    """Bytes that transfers under the rule have sent over each link, `rows` being under way with `sent` bytes each."""
    for k in range(len(out)):
        out[k] = m.loads(E)[k].sent
    for i in range(len(rows)):
        node = m.nodes(E)[rows[i]]
        for f in range(node.flow0, node.flow1):
            out[m.flows(E)[f].link] += sent[i] * m.flows(E)[f].n


@njit(cache=True)
def note_rates(rows, sent, slot_s, before, rate, caps, going):
    """A slot has passed: note the rate of each row in it, and whether the row may send in the next slot without being
    told. Returns whether any byte has moved. `before` is what each row had sent when the slot began, and is updated."""
    moved = False
    for i in rows:
        rate[i] = (sent[i] - before[i]) / slot_s
        before[i] = sent[i]
        going[i] = rate[i] > 0.0 or caps[i] > 0.0
        moved |= rate[i] != 0.0
    return moved


@njit(cache=True)
def note_caps(rows, caps, told, going):
    """The rows whose cap differs from what they were told last, which is noted. Also the first row whose cap is not a
    rate, or -1."""
    changed, n = np.empty(len(rows), np.int64), 0
    for i in rows:
        if caps[i] != told[i]:
            if not caps[i] >= 0.0:  # written so that NaN is refused as well
                return changed[:0], i
            told[i] = caps[i]
            going[i] |= caps[i] > 0.0
            changed[n] = i
            n += 1
    return changed[:n], -1


@njit(cache=True)
def differ(rows, ranks, active, feed0, feed1):
    """Whether a row has another weight or level than one that feeds it and is still sending."""
    for i in rows:
        for k in range(feed0[i], feed1[i]):
            if active[k] and ranks[k] != ranks[i]:
                return True
    return False


@njit(cache=True)
def full(E, rows, out):
    """Full links on the paths of transfers that have less than they may have."""
    for i in range(len(rows)):
        node = m.nodes(E)[rows[i]]
        if node.units < 0 or node.units >= node.demand_units:  # it starts at this moment, or has what it may have
            continue
        for f in range(node.flow0, node.flow1):
            link = m.links(E)[m.flows(E)[f].link]
            if link.units - link.used < link.weight:
                out[m.flows(E)[f].link] = True


@inner()
def _in_step(E, node):
    """Whether a transfer moves in step with another: it is as far as one that it may not overtake, or the reverse."""
    nodes, leads = m.nodes(E), m.leads(E)
    for g in range(node.lead0, node.lead1):
        if leads[g].tight != 0 and nodes[leads[g].node].state != DONE:
            return True
    for f in range(node.fol0, node.fol1):
        lead = leads[m.follows(E)[f]]
        if lead.tight != 0 and nodes[lead.by].state == ACTIVE:
            return True
    return False


@inner()
def _can_move(E, x):
    """Whether a transfer can go to its new cap without affecting others: none of its links limits a transfer now or
    would then."""
    node = m.nodes(E)[x]
    if node.listed != 0 or node.units < 0 or _in_step(E, node):
        return False
    more = node.demand_units - node.units
    for f in range(node.flow0, node.flow1):
        flow = m.flows(E)[f]
        link = m.links(E)[flow.link]
        room = more <= 0 or link.units - link.used - more * flow.n >= link.weight
        if link.tight != 0 or not (room or loose(E, flow.link)):
            return False
    return True


@inner()
def _move(E, x):
    """Let a transfer have its cap as its rate."""
    node = m.nodes(E)[x]
    for f in range(node.flow0, node.flow1):
        m.links(E)[m.flows(E)[f].link].used += (node.demand_units - node.units) * m.flows(E)[f].n
    node.units = node.demand_units
    draw(E, x, node.units * m.scalars(E).unit, m.scalars(E).now)
    n = m.scalars(E).n_drawn
    m.drawn(E)[n] = x
    m.scalars(E).n_drawn = n + 1


@njit(cache=True)
def cap(E, rows, caps, changed):
    """Transfers may have no more than this from now on; one that keeps its cap is left alone.

    Those that can go to their new cap without affecting others do so, those that get less first; only the others are
    solved again. `changed` is scratch space with one entry per row.
    """
    unit = m.scalars(E).unit
    n = 0
    for i in range(len(rows)):
        node = m.nodes(E)[rows[i]]
        units = node.limit
        if caps[i] / unit < node.limit:
            units = int(caps[i] / unit)
        if units != node.demand_units:
            limit_to(E, rows[i], units)
            changed[n] = rows[i]
            n += 1
    m.scalars(E).n_drawn = 0
    for less in range(2):
        for i in range(n):
            node = m.nodes(E)[changed[i]]
            if (node.units > node.demand_units) != (less == 0) or node.units == node.demand_units:
                continue
            if _can_move(E, changed[i]):
                _move(E, changed[i])
            else:
                fresh_node(E, changed[i])
    if m.scalars(E).opened > 0 and m.scalars(E).n_drawn > 0:
        schedule_opened(E, m.scalars(E).now)


@njit(cache=True)
def look_again(E, rows):
    """A slot begins: schedule the transfers that were not due to end or catch up within the last slot, but may be
    within this one."""
    now = m.scalars(E).now
    for i in range(len(rows)):
        if m.nodes(E)[rows[i]].event == LATER:
            schedule(E, rows[i], now)


@inner()
def _rank(E, x, claim, level):
    node = m.nodes(E)[x]
    if node.claim == claim and node.level == level:
        return
    if node.state == ACTIVE:
        m.scalars(E).ranked += int(claim != 1 or level != 0) - int(node.claim != 1 or node.level != 0)
        for f in range(node.flow0, node.flow1):
            link = m.links(E)[m.flows(E)[f].link]
            link.weight += m.flows(E)[f].n * (claim - node.claim)
            link.felt = 0
            dirty_link(E, m.flows(E)[f].link)
        fresh_node(E, x)
    node.claim = claim
    node.level = level


@njit(cache=True)
def rank(E, rows, claims, levels):
    """Transfers have these weights and levels from now on."""
    for i in range(len(rows)):
        _rank(E, rows[i], claims[i], levels[i])
