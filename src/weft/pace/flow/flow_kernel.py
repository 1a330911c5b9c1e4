"""Rates of all flows of a data centre for one slot; plan.py and host.py say the same in plain Python.

Columns of tables and plans are slots modulo K; where no message is lost, `posted` and `plans` may be one array. Flows
decide one after the other: each reads the loads that were posted before (or those of `late` slots ago), plans, keeps
step with its peers, posts, and cuts back who would overtake.
"""

import numpy as np
from numba import njit

ENOUGH = 1.0 - 2e-9
ROUNDING = 1e-9  # loads that differ by this part are equal; they are sums and differences of rates
TIGHT, LOOSE = 1.0 - ROUNDING, 1.0 + ROUNDING
ROUND = 1.0 - 1e-10  # of a cap: plans that fill a link exactly must not, by their rounding, ask for more than it has
MOST_BITS = 62  # slots that a set of them can hold
# A leaf makes no arrays; counting those that it is handed would take most of its time.
leaf = njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]
_A = np.uint64(0x9E3779B97F4A7C15)
_B = np.uint64(0xBF58476D1CE4E5B9)
_C = np.uint64(0x94D049BB133111EB)


@leaf
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


@leaf
def plan(left, free, load, prices, first, order, kept, rates):
    """Algorithm 1 from slot `first` of the horizon on; `order` and `kept` are room to work in."""
    k = len(free)
    best, n_best, room = np.inf, 0, 0.0
    for t in range(first, k):
        room += free[t]
    if room < left * ENOUGH:  # no deadline holds
        for t in range(first, k):
            rates[t] = free[t]
        return
    room = 0.0
    for d in range(k - first):
        if d + 1.0 >= best:
            break
        at = d
        while at > 0 and load[order[at - 1]] * TIGHT > load[first + d]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = first + d
        room += free[first + d]
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
    for t in range(first, k):
        rates[t] = 0.0
    for j in range(n_best):
        t = kept[j]
        rates[t] = min(free[t], rest)
        rest -= rates[t]


@leaf
def shut(i, hops, path, available, table, known):
    """Whether the first `hops` links of a path have in no slot room together. `known` remembers the slots in which a
    link has, one bit each, until somebody posts there (-1: not looked at)."""
    k = table.shape[1]
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
                if table[link, c] < available[link]:
                    bits |= np.int64(1) << c
            known[link] = bits
        together &= known[link]
        if together == 0:
            return True
    return False


@leaf
def nothing(rows, i):
    """Whether a flow has nothing in any slot."""
    empty = True
    for c in range(rows.shape[1]):
        empty &= rows[i, c] == 0.0
    return empty


@leaf
def none_plans(low, high, plans, now):
    """Whether none of these flows means to send in this slot."""
    none = True
    for j in range(low, high):
        none &= plans[j, now] <= 0.0
    return none


@leaf
def post(table, mine, posted, path, i, column, rate, known):
    """Replace what the switches of a flow's path (its own NIC's table included) hold for it in one slot."""
    change = rate - posted[i, column]
    if change != 0.0:
        for h in range(path.shape[1]):
            link = path[i, h]
            if link < 0:
                break
            table[link, column] += change
            mine[link, column] += change
            known[link] = -1
        posted[i, column] = rate


@leaf
def commit(table, mine, posted, path, i, now, rates, plans, arrives, work, known, columns):
    """Rates from this slot on become a flow's plan, and what the switches of its path hold for it if they hear it."""
    k = table.shape[1]
    c, n = now, 0
    for t in range(k):
        change = rates[t] - posted[i, c]
        plans[i, c] = rates[t]
        if change != 0.0:
            work[0, n] = change
            columns[n] = c
            n += 1
        c = c + 1 if c + 1 < k else 0
    if n == 0 or not arrives:
        return
    for a in range(n):
        posted[i, columns[a]] = plans[i, columns[a]]
    for h in range(path.shape[1]):
        link = path[i, h]
        if link < 0:
            break
        known[link] = -1
        for a in range(n):
            table[link, columns[a]] += work[0, a]
            mine[link, columns[a]] += work[0, a]


@leaf
def best_rate(reached, i, line):
    """B_i: the best rate of the last slots, line rate where none is known."""
    most = 0.0
    for c in range(reached.shape[1]):
        most = max(most, reached[i, c])
    return most if most > 0.0 else line


@leaf
def gather(live, start, turn, job, path, posted, mine, count):
    """What the flows of the job that is next have posted together on each of their links, and how many they are."""
    n, k = len(live), mine.shape[1]
    first = job[live[(start + turn) % n]]
    for what in range(2):
        for t in range(turn, n):
            i = live[(start + t) % n]
            if job[i] != first:
                break
            empty = what == 1 and nothing(posted, i)
            for h in range(path.shape[1]):
                link = path[i, h]
                if link < 0:
                    break
                count[link] = count[link] + 1.0 if what else 0.0
                if what == 0:
                    for c in range(k):
                        mine[link, c] = 0.0
                elif not empty:
                    for c in range(k):
                        mine[link, c] += posted[i, c]


@leaf
def keep_parts(i, link, room, among, posted, table, mine, work):
    """Where more is posted on a link than there is, everybody keeps their part of it."""
    for c in range(table.shape[1]):
        own = posted[i, c]
        b = max(table[link, c] - own, 0.0)
        others = table[link, c] - mine[link, c]
        others = min(others, b) if others > ROUNDING * room else 0.0
        if own > 0.0 and own + b > room * LOOSE:
            work[3, c] = min(room * own / (own + b), (room - others) * among)


@leaf
def look_back(i, link, slot, late, room, among, inverse, seen, seen_posted, seen_mine, work):
    """A link of which a host knows what was posted `late` slots ago; beyond what was known then it is empty."""
    k = seen.shape[1]
    for c in range(k):
        own = seen_posted[i, c]
        b = max(seen[link, c] - own, 0.0)
        if (c - slot) % k >= k - late:
            b = 0.0
        others = seen[link, c] - seen_mine[link, c]
        others = min(others, b) if others > ROUNDING * room else 0.0
        work[1, c] += others
        work[2, c] += others * inverse
        rest = room - b
        if own > 0.0 and own + b > room * LOOSE:
            rest = room * own / (own + b)
        work[3, c] = min(rest, (room - others) * among)


@leaf
def look(i, slot, late, host_only, path, available, table, posted, seen, seen_posted, mine, seen_mine, count, line,
         work, free, load, prices):  # fmt: skip
    """What is free on the path of a flow, its load and price, by slot from now on. Columns first, then in order.

    Of what other jobs leave of a link its own job's flows have equal parts: constraint (7) is that of a job.
    """
    k = table.shape[1]
    for c in range(k):
        work[0, c], work[1, c], work[2, c] = np.inf, 0.0, 0.0
    for h in range(path.shape[1]):
        link = path[i, h]
        if link < 0 or (host_only and h > 0):
            break
        room = available[link]
        inverse = 1.0 / (room * room) if room > 0.0 else 0.0
        among = 1.0 / count[link]
        if h == 0 or late == 0:
            crowded = False
            for c in range(k):
                own = posted[i, c]
                b = max(table[link, c] - own, 0.0)
                others = table[link, c] - mine[link, c]
                others = min(others, b) if others > ROUNDING * room else 0.0
                work[1, c] += others
                work[2, c] += others * inverse
                work[3, c] = min(room - b, (room - others) * among)
                crowded |= own + b > room * LOOSE
            if crowded:
                keep_parts(i, link, room, among, posted, table, mine, work)
        else:
            look_back(i, link, slot, late, room, among, inverse, seen, seen_posted, seen_mine, work)
        for c in range(k):
            work[0, c] = min(work[0, c], work[3, c])
    c = slot % k
    for t in range(k):
        least = work[0, c] if work[0, c] > 0.0 else 0.0
        free[t] = least if least < line else line
        load[t], prices[t] = work[1, c], work[2, c]
        c = c + 1 if c + 1 < k else 0


@leaf
def least_fed(i, now, late, feed0, feed1, sent, plans, told, slot_s, part, decided):
    """F of the least advanced feeder, as the host of flow i knows it. One that begins in this slot and has not decided
    yet holds nobody back: it will be raised, or cuts its followers, when it does."""
    least = np.inf
    for j in range(feed0[i], feed1[i]):
        if late == 0 and not decided[j] and sent[j] == 0.0 and nothing(plans, j):
            continue
        f = told[j] if late > 0 else sent[j] / slot_s + part * plans[j, now]
        least = min(least, f)
    return least


@leaf
def cut_followers(i, now, late, feed0, feed1, next0, next1, sent, chunk, plans, posted, told, table, mine, path,
                  slot_s, part, p, seed, slot, known, decided, caps):  # fmt: skip
    """Algorithm 2, lines 13-16: followers whose plan for this slot runs ahead of their feeders are cut back."""
    fed, least = -1, 0.0
    for j in range(next0[i], next1[i]):
        if plans[j, now] <= 0.0:
            continue
        if feed0[j] != fed:  # the broadcasts of a server have the same feeders
            fed, least = feed0[j], least_fed(j, now, late, feed0, feed1, sent, plans, told, slot_s, part, decided)
        most = max(least + chunk[j] / slot_s - sent[j] / slot_s, 0.0) / part
        if plans[j, now] > most:
            if not lost(seed, slot, j, 2, p):
                post(table, mine, posted, path, j, now, most, known)
            plans[j, now] = most
            caps[j] = min(caps[j], most * ROUND)


@leaf
def waits(i, slot, late, seed, plans):
    """Whether a flow that sees others late leaves its plan as it is: of those that have one, in a slot one in late + 1
    plans anew. If all did, two that see each other late would move out of each other's way for ever."""
    if late == 0 or lost(seed, slot, i, 3, 1.0 / (late + 1.0)):
        return False
    return not nothing(plans, i)


@njit(cache=True, nogil=True)
def decide(live, start, slot, slot_s, late, host_only, loss, seed, path, feed0, feed1, next0, next1, size, chunk, sent,
           reached, line, available, table, posted, plans, seen, seen_posted, told, waiting, job, part,
           quantised, alike, caps):  # fmt: skip
    """Algorithm 2 for every one of these flows, from the start-th on and round; plans of this slot are the rates.

    `part` is what is left of the slot; `alike` says that `posted` and `plans` are one array. `caps` are the rates to
    send at: those of the plan. A flow whose last bytes fit into this slot sends and posts as much as its path allows,
    and withdraws that when it is done; where rates are quantised they are spread over the slot. A flow without a plan
    whose path has no room in any slot plans nothing; in a full data centre most do.
    """
    k = table.shape[1]
    now = slot % k
    free, load, prices, rates = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    order, kept, work = np.empty(k, np.int64), np.empty(k, np.int64), np.empty((4, k))
    known = np.full(len(table), -1, np.int64)
    decided = np.zeros(len(plans), np.bool_)
    mine, count, whose = np.empty_like(table), np.empty(len(table)), -1
    began, gathered = 0, False
    quiet = -1  # the first of a row of followers of which none has a plan for now, as nobody has planned since
    seen_mine = np.empty_like(table) if late > 0 else mine
    hops = 1 if host_only or late > 0 else path.shape[1]
    for turn in range(len(live)):
        i = live[(start + turn) % len(live)]
        decided[i] = True
        if job[i] != whose:
            whose, began, gathered = job[i], turn, False
        deaf = lost(seed, slot, i, 0, loss) or waits(i, slot, late, seed, plans)
        idle = not deaf and nothing(plans, i) and (alike or nothing(posted, i))
        if idle and shut(i, hops, path, available, table, known):
            caps[i] = 0.0
            if next0[i] == quiet or next0[i] == next1[i]:
                continue
            quiet = next0[i] if none_plans(next0[i], next1[i], plans, now) else -1
            if quiet >= 0:
                continue
            cut_followers(i, now, late, feed0, feed1, next0, next1, sent, chunk, plans, posted, told, table, mine, path,
                          slot_s, part, loss, seed, slot, known, decided, caps)  # fmt: skip
            continue
        quiet = -1
        least = least_fed(i, now, late, feed0, feed1, sent, plans, told, slot_s, part, decided)
        done = sent[i] / slot_s
        allowed = max(least + chunk[i] / slot_s - done, 0.0) if least < np.inf else np.inf
        left = max((size[i] - sent[i]) / slot_s, 0.0)
        if deaf:  # what was planned before goes on
            rate = min(plans[i, now], min(allowed, left) / part)
            post(table, mine, posted, path, i, now, rate, known)
            plans[i, now] = rate
            caps[i] = rate * ROUND
            continue
        if not gathered:  # not before somebody looks: of most jobs in a full data centre nobody does
            gather(live, start, began, job, path, posted, mine, count)
            if late > 0:
                gather(live, start, began, job, path, seen_posted, seen_mine, count)
            gathered = True
        look(i, slot, late, host_only, path, available, table, posted, seen, seen_posted, mine, seen_mine, count,
             line[i], work, free, load, prices)  # fmt: skip
        late_part = min(waiting, part)  # of the slot, in which the answers are not there yet
        before = late_part * plans[i, now]  # bytes over the length of a slot, as all that follows
        free[0] = before + (part - late_part) * free[0]
        plan(left, free, load, prices, 0, order, kept, rates)
        rate = rates[0]
        if least < np.inf:
            target = least
        else:
            target = 0.0
            for j in range(next0[i], next1[i]):
                f = told[j] if late > 0 else sent[j] / slot_s + part * plans[j, now]
                target = max(target, f)
        increase = max(target - (done + rate), 0.0)
        if increase > 0.0:
            rate = max(rate, min(rate + increase, min(part * best_rate(reached, i, line[i]), free[0])))
        rate = min(max(rate, before), min(allowed, left))
        if rate != rates[0]:
            plan(left - rate, free, load, prices, 1, order, kept, rates)
        rates[0] = rate / part
        if rate >= left * ENOUGH and not quantised:
            rates[0] = max(rates[0], free[0] / part)
        caps[i] = rates[0] * ROUND
        arrives = not lost(seed, slot, i, 1, loss)
        commit(table, mine, posted, path, i, now, rates, plans, arrives, work, known, order)
        cut_followers(i, now, late, feed0, feed1, next0, next1, sent, chunk, plans, posted, told, table, mine, path,
                      slot_s, part, loss, seed, slot, known, decided, caps)  # fmt: skip


@njit(cache=True, nogil=True)
def forget(rows, table, posted, plans, path):
    """Take flows out of the tables: they are done, or gone."""
    for n in range(len(rows)):
        i = rows[n]
        for c in range(table.shape[1]):
            if posted[i, c] != 0.0:
                for h in range(path.shape[1]):
                    if path[i, h] < 0:
                        break
                    table[path[i, h], c] -= posted[i, c]
                posted[i, c] = 0.0
            plans[i, c] = 0.0


@njit(cache=True, nogil=True)
def expire(column, table, posted, plans, alike):
    """A slot has passed: its column becomes the last of the horizon, with nothing planned."""
    table[:, column] = 0.0
    plans[:, column] = 0.0
    if not alike:
        posted[:, column] = 0.0
