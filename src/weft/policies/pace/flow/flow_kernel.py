"""Rates of all flows of a data centre for one slot; weft_live/flow/ says the same in plain Python.

Columns of tables and plans are slots modulo K; where no message is lost, `posted` and `plans` may be one array. Flows
decide one after the other: each reads the loads that were posted before (or those of `late` slots ago), plans, keeps
step with its peers, posts, and cuts back flows that would overtake it.

Functions get the flows `f` (Flows), what hosts and switches hold `s` (Tables), how they are asked `a` (Asked) and room
to work in `w` (Workspace), all of the package.
"""

import numpy as np
from numba import njit

from weft.policies.pace.flow.path_kernel import ROUNDING, commit, gather, look, none_plans, nothing, part, post, shut

ENOUGH = 1.0 - 2e-9
TIGHT = 1.0 - ROUNDING
ROUND = 1.0 - 1e-10  # what is used of a cap, so that plans that fill a link exactly do not ask for more by rounding
# These functions make no arrays. Counting references to those that they are given would cost 1.5 times as much again as
# all they do, so numba is told to leave it out; its manual does not describe the option.
leaf = njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]
NOW, NEXT = np.int64(0), np.int64(1)  # slots of the horizon; numba would compile a function once for each plain number
_ASKED, _POSTED, _CUT, _WAITS = (np.int64(i) for i in range(4))  # what a message is about
_A = np.uint64(0x9E3779B97F4A7C15)
_B = np.uint64(0xBF58476D1CE4E5B9)
_C = np.uint64(0x94D049BB133111EB)


@part
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


@part
def best_rate(reached, i, line):
    """B_i: the best rate of the last slots, line rate where none is known."""
    most = 0.0
    for c in range(reached.shape[1]):
        most = max(most, reached[i, c])
    return most if most > 0.0 else line


@part
def reach(a, f, s, j):
    """F of a flow, as the others know it: what it will have sent by the end of the slot, over the length of a slot."""
    return s.told[j] if a.late > 0 else f.sent[j] / a.slot_s + a.part * s.plans[j, a.slot % s.plans.shape[1]]


@part
def least_fed(a, f, s, w, i):
    """F of the least advanced feeder, as the host of flow i knows it. A feeder that begins in this slot and has not
    decided yet holds back no flow: when it decides, it is raised, or cuts its followers."""
    least = np.inf
    for j in range(f.feed0[i], f.feed1[i]):
        if a.late == 0 and not w.decided[j] and f.sent[j] == 0.0 and nothing(s.plans, j):
            continue
        least = min(least, reach(a, f, s, j))
    return least


@part
def cut_followers(a, f, s, w, i, now):
    """Algorithm 2, lines 13-16: followers whose plan for this slot runs ahead of their feeders are cut back."""
    fed, least = -1, 0.0
    for j in range(f.next0[i], f.next1[i]):
        if s.plans[j, now] <= 0.0:
            continue
        if f.feed0[j] != fed:  # the broadcasts of a server have the same feeders
            fed, least = f.feed0[j], least_fed(a, f, s, w, j)
        most = max(least + f.chunk[j] / a.slot_s - f.sent[j] / a.slot_s, 0.0) / a.part
        if s.plans[j, now] > most:
            if not lost(a.seed, a.slot, j, _CUT, a.loss):
                post(f, s, w, j, now, most)
            s.plans[j, now] = most
            s.caps[j] = min(s.caps[j], most * ROUND)


@part
def waits(a, s, i):
    """Whether a flow that sees others late keeps its plan: in each slot, only one in late + 1 of the flows that have a
    plan makes a new one. If all did, two flows that see each other late would get out of each other's way for ever."""
    if a.late == 0 or lost(a.seed, a.slot, i, _WAITS, 1.0 / (a.late + 1.0)):
        return False
    return not nothing(s.plans, i)


@part
def aim(a, f, s, w, i, least, done, allowed, left):
    """Lines 3-12 of Algorithm 2: plan, then keep up with the peers that are ahead. Into `rates`, the first as bytes
    over the length of a slot."""
    late_part = min(a.waiting, a.part)  # the part of the slot in which the answers are not there yet
    before = late_part * s.plans[i, a.slot % s.plans.shape[1]]  # bytes over the length of a slot, as all that follows
    if a.pauses and a.part == 1.0:  # a slot begins; in the middle of one who sends has had its answers
        before = 0.0
    w.free[0] = before + (a.part - late_part) * w.free[0]
    plan(left, w.free, w.load, w.prices, NOW, w.order, w.kept, w.rates)
    rate = w.rates[0]
    target = least
    if not least < np.inf:
        target = 0.0
        for j in range(f.next0[i], f.next1[i]):
            target = max(target, reach(a, f, s, j))
    increase = max(target - (done + rate), 0.0)
    if increase > 0.0:
        most = a.part * best_rate(s.reached, i, s.line[i])
        rate = max(rate, min(rate + increase, min(most, w.free[0])))
    rate = min(max(rate, before), min(allowed, left))
    if rate != w.rates[0]:
        plan(left - rate, w.free, w.load, w.prices, NEXT, w.order, w.kept, w.rates)
    return rate


@leaf
def decide(a, f, s, w, live):
    """Algorithm 2 for every one of these flows, from the start-th on and round; plans of this slot are the rates.

    `a.part` is what is left of the slot; `a.alike` says that `posted` and `plans` are one array. `s.caps` are the rates
    to send at: those of the plan. A flow whose last bytes fit into this slot sends and posts as much as its path
    allows, and withdraws that when it is done; where rates are quantised they are spread over the slot. A flow without
    a plan whose path has no room in any slot plans nothing; in a full data centre most do.
    """
    now = a.slot % s.table.shape[1]
    w.known[:] = -1
    w.marked[:] = -1
    w.decided[:] = False
    whose, began, gathered = -1, 0, False
    quiet = -1  # first of several neighbouring followers that have no plan for this slot; nobody has planned since
    hops = 1 if a.host_only or a.late > 0 else f.path.shape[1]
    at = a.start - 1
    for _ in range(len(live)):
        at = at + 1 if at + 1 < len(live) else 0
        i = live[at]
        w.decided[i] = True
        if f.job[i] != whose:
            whose, began, gathered = f.job[i], at, False
        deaf = lost(a.seed, a.slot, i, _ASKED, a.loss) or waits(a, s, i)
        idle = not deaf and nothing(s.plans, i) and (a.alike or nothing(s.posted, i))
        if idle and shut(s, f.path, i, hops, w.known):
            s.caps[i] = 0.0
            if f.next0[i] == quiet or f.next0[i] == f.next1[i]:
                continue
            quiet = f.next0[i] if none_plans(f.next0[i], f.next1[i], s.plans, now) else -1
            if quiet < 0:
                cut_followers(a, f, s, w, i, now)
            continue
        quiet = -1
        least = least_fed(a, f, s, w, i)
        done = f.sent[i] / a.slot_s
        allowed = max(least + f.chunk[i] / a.slot_s - done, 0.0) if least < np.inf else np.inf
        left = max((f.size[i] - f.sent[i]) / a.slot_s, 0.0)
        if deaf:  # what was planned before goes on
            rate = min(s.plans[i, now], min(allowed, left) / a.part)
            post(f, s, w, i, now, rate)
            s.plans[i, now] = rate
            s.caps[i] = rate * ROUND
            continue
        if not gathered:  # not before somebody looks: of most jobs in a full data centre nobody does
            gather(live, began, f, s.posted, w.mine, w, 2 * began)
            if a.late > 0:
                gather(live, began, f, s.seen_posted, w.seen_mine, w, 2 * began + 1)
            gathered = True
        look(a, f, s, w, i)
        rate = aim(a, f, s, w, i, least, done, allowed, left)
        w.rates[0] = rate / a.part
        if rate >= left * ENOUGH and not a.quantised:
            w.rates[0] = max(w.rates[0], w.free[0] / a.part)
        s.caps[i] = w.rates[0] * ROUND
        commit(f, s, w, i, now, not lost(a.seed, a.slot, i, _POSTED, a.loss))
        cut_followers(a, f, s, w, i, now)


@leaf
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


@leaf
def expire(column, table, posted, plans, alike):
    """A slot has passed: its column becomes the last of the horizon, with nothing planned."""
    table[:, column] = 0.0
    plans[:, column] = 0.0
    if not alike:
        posted[:, column] = 0.0
