"""Rates of all flows of a data centre for one slot; flow_plan.py and flow_host.py say the same in plain Python.

Columns of tables and plans are slots modulo K. Flows decide one after the other: each reads the loads that were
posted before (or those of `late` slots ago), plans, keeps step with its peers, posts, and cuts back who would overtake.
"""

import numpy as np
from numba import njit

ENOUGH = 1.0 - 1e-12
_A = np.uint64(0x9E3779B97F4A7C15)
_B = np.uint64(0xBF58476D1CE4E5B9)
_C = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True)
def lost(seed, slot, flow, what, p):
    """Whether a message is lost: keyed by who sends it when, so free of the order of events."""
    if p <= 0.0:
        return False
    x = np.uint64(seed) * _A + np.uint64(slot) * _B + np.uint64(flow) * _C + np.uint64(what)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(30))) * _B
        x = (x ^ (x >> np.uint64(27))) * _C
        x = x ^ (x >> np.uint64(31))
    return np.float64(x >> np.uint64(11)) / 9007199254740992.0 < p


@njit(cache=True, nogil=True)
def plan(left, free, load, prices, order, kept, rates):
    """Algorithm 1; `order` and `kept` are room to work in."""
    k = len(free)
    best, n_best, room = np.inf, 0, 0.0
    for t in range(k):
        room += free[t]
    if room < left * ENOUGH:  # no deadline holds
        for t in range(k):
            rates[t] = free[t]
        return
    room = 0.0
    for d in range(k):
        if d + 1.0 >= best:
            break
        at = d
        while at > 0 and load[order[at - 1]] > load[d]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = d
        room += free[d]
        if room < left * ENOUGH:
            continue
        cost, rest = d + 1.0, left
        for j in range(d + 1):
            t = order[j]
            give = free[t] if free[t] < rest else rest
            cost += give * prices[t]
            rest -= give
        if cost < best:
            best, n_best = cost, d + 1
            for j in range(n_best):
                kept[j] = order[j]
    rest = left
    for t in range(k):
        rates[t] = 0.0
    for j in range(n_best):
        t = kept[j]
        rates[t] = min(free[t], rest)
        rest -= rates[t]


@njit(cache=True, nogil=True)
def post(table, posted, path, i, column, rate):
    """Replace what the switches of a flow's path (its own NIC's table included) hold for it in one slot."""
    change = rate - posted[i, column]
    if change != 0.0:
        for h in range(path.shape[1]):
            link = path[i, h]
            if link < 0:
                break
            table[link, column] += change
        posted[i, column] = rate


@njit(cache=True, nogil=True)
def post_all(table, posted, path, i, plans, work):
    """The same for all slots of the horizon."""
    k = table.shape[1]
    same = True
    for c in range(k):
        work[0, c] = plans[i, c] - posted[i, c]
        same &= work[0, c] == 0.0
        posted[i, c] = plans[i, c]
    if same:
        return
    for h in range(path.shape[1]):
        link = path[i, h]
        if link < 0:
            break
        for c in range(k):
            table[link, c] += work[0, c]


@njit(cache=True, nogil=True)
def look(i, slot, late, host_only, path, available, table, posted, seen, seen_posted, line, work, free, load, prices):
    """What is free on the path of a flow, its load and price, by slot from now on. Columns first, then in order."""
    k = table.shape[1]
    for c in range(k):
        work[0, c], work[1, c], work[2, c] = np.inf, 0.0, 0.0
    for h in range(path.shape[1]):
        link = path[i, h]
        if link < 0 or (host_only and h > 0):
            break
        room = available[link]
        inverse = 1.0 / (room * room) if room > 0.0 else 0.0
        live = h == 0 or late == 0
        for c in range(k):
            own = posted[i, c] if live else seen_posted[i, c]
            b = (table[link, c] if live else seen[link, c]) - own
            if not live and (c - slot) % k >= k - late:  # beyond what was known then
                b = 0.0
            b = b if b > 0.0 else 0.0
            work[1, c] += b
            work[2, c] += b * inverse
            rest = room - b
            if rest < own:  # more is posted than there is: everybody keeps their part
                rest = room * own / (own + b)
            work[0, c] = rest if rest < work[0, c] else work[0, c]
    c = slot % k
    for t in range(k):
        least = work[0, c] if work[0, c] > 0.0 else 0.0
        free[t] = least if least < line else line
        load[t], prices[t] = work[1, c], work[2, c]
        c = c + 1 if c + 1 < k else 0


@njit(cache=True, nogil=True)
def least_fed(i, now, late, feed0, feed1, sent, plans, told, slot_s):
    """F of the least advanced feeder, as the host of flow i knows it."""
    least = np.inf
    for j in range(feed0[i], feed1[i]):
        f = told[j] if late > 0 else sent[j] / slot_s + plans[j, now]
        least = min(least, f)
    return least


@njit(cache=True, nogil=True)
def cut_followers(i, now, late, feed0, feed1, next0, next1, sent, chunk, plans, posted, told, table, path, slot_s, p,
                  seed, slot):  # fmt: skip
    """Algorithm 2, lines 13-16: followers whose plan for this slot runs ahead of their feeders are cut back."""
    for j in range(next0[i], next1[i]):
        if plans[j, now] <= 0.0:
            continue
        least = least_fed(j, now, late, feed0, feed1, sent, plans, told, slot_s)
        most = max(least + chunk[j] / slot_s - sent[j] / slot_s, 0.0)
        if plans[j, now] > most:
            plans[j, now] = most
            if not lost(seed, slot, j, 2, p):
                post(table, posted, path, j, now, most)


@njit(cache=True, nogil=True)
def waits(i, slot, late, seed, plans):
    """Whether a flow that sees others late leaves its plan as it is: of those that have one, in a slot one in late + 1
    plans anew. If all did, two that see each other late would move out of each other's way for ever."""
    if late == 0 or lost(seed, slot, i, 3, 1.0 / (late + 1.0)):
        return False
    return (plans[i] > 0.0).any()


@njit(cache=True, nogil=True)
def decide(live, start, slot, slot_s, late, host_only, loss, seed, path, feed0, feed1, next0, next1, size, chunk, sent,
           best, line, available, table, posted, plans, seen, seen_posted, told):  # fmt: skip
    """Algorithm 2 for every live flow, from the start-th on and round; plans of this slot are the rates."""
    k = table.shape[1]
    now = slot % k
    free, load, prices, rates = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    order, kept, work = np.empty(k, np.int64), np.empty(k, np.int64), np.empty((3, k))
    for turn in range(len(live)):
        i = live[(start + turn) % len(live)]
        least = least_fed(i, now, late, feed0, feed1, sent, plans, told, slot_s)
        done = sent[i] / slot_s
        allowed = max(least + chunk[i] / slot_s - done, 0.0) if least < np.inf else np.inf
        left = max((size[i] - sent[i]) / slot_s, 0.0)
        if lost(seed, slot, i, 0, loss) or waits(i, slot, late, seed, plans):  # what was planned before goes on
            plans[i, now] = min(plans[i, now], min(allowed, left))
            post(table, posted, path, i, now, plans[i, now])
            continue
        look(i, slot, late, host_only, path, available, table, posted, seen, seen_posted, line[i], work, free, load,
             prices)  # fmt: skip
        plan(left, free, load, prices, order, kept, rates)
        rate = rates[0]
        if least < np.inf:
            target = least
        else:
            target = 0.0
            for j in range(next0[i], next1[i]):
                f = told[j] if late > 0 else sent[j] / slot_s + plans[j, now]
                target = max(target, f)
        increase = max(target - (done + rate), 0.0)
        if increase > 0.0:
            rate = max(rate, min(rate + increase, min(best[i], free[0])))
        rate = min(rate, min(allowed, left))
        if rate != rates[0]:
            plan(left - rate, free[1:], load[1:], prices[1:], order, kept, rates[1:])
            rates[0] = rate
        arrives = not lost(seed, slot, i, 1, loss)
        c = now
        for t in range(k):
            plans[i, c] = rates[t]
            c = c + 1 if c + 1 < k else 0
        if arrives:
            post_all(table, posted, path, i, plans, work)
        cut_followers(i, now, late, feed0, feed1, next0, next1, sent, chunk, plans, posted, told, table, path, slot_s,
                      loss, seed, slot)  # fmt: skip


@njit(cache=True, nogil=True)
def forget(low, high, table, posted, plans, path):
    """Take flows out of the tables: they are done, or gone."""
    for i in range(low, high):
        for c in range(table.shape[1]):
            post(table, posted, path, i, c, 0.0)
            plans[i, c] = 0.0


@njit(cache=True, nogil=True)
def expire(column, table, posted, plans):
    """A slot has passed: its column becomes the last of the horizon, with nothing planned."""
    table[:, column] = 0.0
    posted[:, column] = 0.0
    plans[:, column] = 0.0
