"""What a flow sees of its path, and what its host posts there; weft_live/flow/ says the same in plain Python.

Functions get the flows `f` (Flows), what hosts and switches hold `s` (Tables), how they are asked `a` (Asked) and room
to work in `w` (Room), all of the package. Columns of tables and plans are slots modulo K.
"""

import numpy as np
from numba import njit

ROUNDING = 1e-9  # loads that differ by this part are equal; they are sums and differences of rates
LOOSE = 1.0 + ROUNDING
MOST_BITS = 62  # slots that a set of them can hold
# These functions become part of their caller: passing them the arrays would take longer than most of them do. They
# make no arrays, so nobody has to count who holds one. Only kernels can call them: what Python would need for that
# takes half as long to compile as all the rest.
part = njit(  # type: ignore[call-overload]
    nogil=True, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False
)


@part
def shut(s, path, i, hops, known):
    """Whether there is no slot in which the first `hops` links of a path all have room. `known` remembers the slots in
    which a link has, one bit each (-1: not looked at)."""
    k = s.table.shape[1]
    if k > MOST_BITS:
        return False
    together = (np.int64(1) << k) - 1
    for h in range(hops):
        link = path[i, h]
        if link < 0:
            break
        if known[link] < 0:
            bits = np.int64(0)
            for c in range(k):
                if s.table[link, c] < s.available[link]:
                    bits |= np.int64(1) << c
            known[link] = bits
        together &= known[link]
        if together == 0:
            return True
    return False


@part
def nothing(rows, i):
    """Whether a flow has nothing in any slot."""
    empty = True
    for c in range(rows.shape[1]):
        empty &= rows[i, c] == 0.0
    return empty


@part
def none_plans(low, high, plans, now):
    """Whether none of these flows means to send in this slot."""
    none = True
    for j in range(low, high):
        none &= plans[j, now] <= 0.0
    return none


@part
def with_bit(bits, column, wanted):
    """A set of slots with this one, or without it."""
    bit = np.int64(1) << column
    return bits | bit if wanted else bits & ~bit


@part
def post(f, s, w, i, column, rate):
    """Replace what the switches of a flow's path (its own NIC's table included) hold for it in one slot."""
    change = rate - s.posted[i, column]
    if change != 0.0:
        for h in range(f.path.shape[1]):
            link = f.path[i, h]
            if link < 0:
                break
            s.table[link, column] += change
            w.mine[link, column] += change
            w.known[link] = -1
        s.posted[i, column] = rate


@part
def commit(f, s, w, i, now, arrives):
    """Rates from this slot on become a flow's plan, and what the switches of its path hold for it if they hear it."""
    k = s.table.shape[1]
    c, n = now, 0
    for t in range(k):
        change = w.rates[t] - s.posted[i, c]
        s.plans[i, c] = w.rates[t]
        if change != 0.0:
            w.work[0, n] = change
            w.order[n] = c
            n += 1
        c = c + 1 if c + 1 < k else 0
    if n > 0 and arrives:
        for a in range(n):
            s.posted[i, w.order[a]] = s.plans[i, w.order[a]]
        for h in range(f.path.shape[1]):
            link = f.path[i, h]
            if link < 0:
                break
            bits, room = w.known[link], s.available[link]
            for a in range(n):
                c = w.order[a]
                s.table[link, c] += w.work[0, a]
                w.mine[link, c] += w.work[0, a]
                if bits >= 0:
                    bits = with_bit(bits, c, s.table[link, c] < room)
            w.known[link] = bits


@part
def gather(live, at, f, posted, mine, w, mark):
    """What the flows of a job, of which the first is the `at`-th, have posted together on each of their links, and how
    many they are. `mark` tells links that were looked at from the others."""
    k, whose = mine.shape[1], f.job[live[at]]
    for _ in range(len(live)):
        i = live[at]
        if f.job[i] != whose:
            break
        at = at + 1 if at + 1 < len(live) else 0
        empty = nothing(posted, i)
        for h in range(f.path.shape[1]):
            link = f.path[i, h]
            if link < 0:
                break
            if w.marked[link] != mark:
                w.marked[link] = mark
                w.mates[link] = 1.0
                for c in range(k):
                    mine[link, c] = posted[i, c]
            else:
                w.mates[link] += 1.0
                if not empty:
                    for c in range(k):
                        mine[link, c] += posted[i, c]


@part
def keep_parts(i, link, room, among, s, w):
    """Where more is posted on a link than it can carry, every flow keeps its part of the capacity."""
    for c in range(s.table.shape[1]):
        own = s.posted[i, c]
        b = max(s.table[link, c] - own, 0.0)
        others = s.table[link, c] - w.mine[link, c]
        others = min(others, b) if others > ROUNDING * room else 0.0
        if own > 0.0 and own + b > room * LOOSE:
            w.work[3, c] = min(room * own / (own + b), (room - others) * among)


@part
def look_back(i, link, slot, late, room, among, inverse, s, w):
    """The load of a link as a host knows it: what was posted `late` slots ago. Slots beyond the horizon of that time
    are empty."""
    k = s.seen.shape[1]
    for c in range(k):
        own = s.seen_posted[i, c]
        b = max(s.seen[link, c] - own, 0.0)
        if (c - slot) % k >= k - late:
            b = 0.0
        others = s.seen[link, c] - w.seen_mine[link, c]
        others = min(others, b) if others > ROUNDING * room else 0.0
        w.work[1, c] += others
        w.work[2, c] += others * inverse
        rest = room - b
        if own > 0.0 and own + b > room * LOOSE:
            rest = room * own / (own + b)
        w.work[3, c] = min(rest, (room - others) * among)


@part
def look(a, f, s, w, i):
    """What is free on the path of a flow, its load and price, by slot from now on. Columns first, then in order.

    The flows of its own job share equally what other jobs leave of a link, because constraint (7) is that of a job.
    """
    k = s.table.shape[1]
    for c in range(k):
        w.work[0, c], w.work[1, c], w.work[2, c] = np.inf, 0.0, 0.0
    for h in range(f.path.shape[1]):
        link = f.path[i, h]
        if link < 0 or (a.host_only and h > 0):
            break
        room = s.available[link]
        inverse = 1.0 / (room * room) if room > 0.0 else 0.0
        among = 1.0 / w.mates[link]
        if h == 0 or a.late == 0:
            crowded = False
            for c in range(k):
                own = s.posted[i, c]
                b = max(s.table[link, c] - own, 0.0)
                others = s.table[link, c] - w.mine[link, c]
                others = min(others, b) if others > ROUNDING * room else 0.0
                w.work[1, c] += others
                w.work[2, c] += others * inverse
                w.work[3, c] = min(room - b, (room - others) * among)
                crowded |= own + b > room * LOOSE
            if crowded:
                keep_parts(i, link, room, among, s, w)
        else:
            look_back(i, link, a.slot, a.late, room, among, inverse, s, w)
        for c in range(k):
            w.work[0, c] = min(w.work[0, c], w.work[3, c])
    c = a.slot % k
    for t in range(k):
        least = w.work[0, c] if w.work[0, c] > 0.0 else 0.0
        w.free[t] = least if least < s.line[i] else s.line[i]
        w.load[t], w.prices[t] = w.work[1, c], w.work[2, c]
        c = c + 1 if c + 1 < k else 0
