"""What foreign flows are owed, who pushes them aside and what jobs get, for a data centre.
testkit/oracles/shortest.py does the same in plain Python."""

import numpy as np
from numba import njit

BUSY = 1e-6  # a job that can have no more than this part of its full rate waits; so small a loss to others is none
NEARLY = 1.0 + 1e-12  # rates that differ by less are the same


@njit(cache=True, nogil=True)
def counts(live, by_job, first, path, links):
    """Flows of each job on each of its links: three arrays (where each job begins, link, flows)."""
    jobs = len(first) - 1
    begins = np.zeros(jobs + 1, np.int64)
    link_of, n_of = np.empty(len(live) * path.shape[1], np.int64), np.empty(len(live) * path.shape[1], np.int64)
    at, n = np.full(links, -1, np.int64), 0
    for j in range(jobs):
        begins[j] = n
        for a in by_job[first[j] : first[j + 1]]:
            for link in path[live[a]]:
                if link >= 0:
                    if at[link] < begins[j]:
                        at[link], link_of[n], n_of[n] = n, link, 0
                        n += 1
                    n_of[at[link]] += 1
    begins[jobs] = n
    return begins, link_of[:n], n_of[:n]


@njit(cache=True, nogil=True)
def owed(begins, link_of, n_of, others, most, capacity, weight, rounds):
    """Bytes per second that are each foreign flow's own."""
    met, asked, price = np.zeros(len(capacity), np.bool_), np.zeros(len(capacity)), np.zeros(len(capacity))
    rate = np.zeros(len(others))
    for k in range(len(others)):
        for link in others[k]:
            if link >= 0:
                met[link] = True
    links = np.flatnonzero(met)
    mine = np.flatnonzero(met[link_of])  # what jobs have on links where others are, job by job
    upto = np.searchsorted(mine, begins)
    for j in range(len(begins) - 1):
        for e in mine[upto[j] : upto[j + 1]]:
            asked[link_of[e]] += weight[j] / n_of[e]
    for k in range(len(others)):
        for link in others[k]:
            if link >= 0:
                asked[link] += 1.0
    for link in links:
        price[link] = np.sqrt(asked[link] / capacity[link])
    for _ in range(rounds):
        asked[links] = 0.0
        for j in range(len(begins) - 1):
            cost = 0.0
            for e in mine[upto[j] : upto[j + 1]]:
                cost += n_of[e] * price[link_of[e]]
            for e in mine[upto[j] : upto[j + 1]]:
                asked[link_of[e]] += n_of[e] * weight[j] / (cost * cost)
        for k in range(len(others)):
            cost = 0.0
            for link in others[k]:
                if link >= 0:
                    cost += price[link]
            rate[k] = min(1.0 / (cost * cost), most[k])
            for link in others[k]:
                if link >= 0:
                    asked[link] += rate[k]
        for link in links:
            price[link] *= np.sqrt(np.sqrt(asked[link] / capacity[link]))
    for k in range(len(others)):
        crowded = 1.0
        for link in others[k]:
            if link >= 0:
                crowded = max(crowded, asked[link] / capacity[link])
        rate[k] /= crowded
    return rate


@njit(cache=True, nogil=True)
def seconds_left(live, by_job, first, path, left, capacity):
    """The most seconds that any link still has to do for each job."""
    need, longest = np.zeros(len(capacity)), np.zeros(len(first) - 1)
    for j in range(len(longest)):
        for a in by_job[first[j] : first[j + 1]]:
            for link in path[live[a]]:
                if link >= 0:
                    need[link] += left[live[a]] / capacity[link]
                    longest[j] = max(longest[j], need[link])
        for a in by_job[first[j] : first[j + 1]]:
            for link in path[live[a]]:
                if link >= 0:
                    need[link] = 0.0
    return longest


@njit(cache=True, nogil=True)
def rate_of(j, begins, link_of, n_of, room):
    """The rate that all flows of a job can have at once."""
    rate = np.inf if begins[j] < begins[j + 1] else 0.0
    for e in range(begins[j], begins[j + 1]):
        rate = min(rate, room[link_of[e]] / n_of[e])
    return rate


@njit(cache=True, nogil=True)
def serve(j, rate, begins, link_of, n_of, live, by_job, first, room, caps):
    """All flows of a job get this rate."""
    for e in range(begins[j], begins[j + 1]):
        room[link_of[e]] = max(room[link_of[e]] - rate * n_of[e], 0.0)
    for a in by_job[first[j] : first[j + 1]]:
        caps[live[a]] = rate


@njit(cache=True, nogil=True)
def give_rest(order, live, by_job, first, path, room, caps):
    """What is left of links goes to single flows."""
    for j in order:
        for a in by_job[first[j] : first[j + 1]]:
            more = np.inf
            for link in path[live[a]]:
                if link >= 0:
                    more = min(more, room[link])
            if more < np.inf:
                caps[live[a]] += more
                for link in path[live[a]]:
                    if link >= 0:
                        room[link] -= more


@njit(cache=True, nogil=True)
def leave(others, kept, room):
    """Take from links what foreign flows keep."""
    for k in range(len(others)):
        for link in others[k]:
            if link >= 0:
                room[link] = max(room[link] - kept[k], 0.0)


@njit(cache=True, nogil=True)
def by_jobs(job):
    """Rows by job, in the order in which jobs came, and where each job begins."""
    by_job = np.argsort(job, kind="mergesort")
    return by_job, np.searchsorted(job[by_job], np.arange((job.max() + 1 if len(job) else 0) + 1))


@njit(cache=True, nogil=True)
def decide(live, job, path, left, capacity, others, most, weight, rounds, caps):
    """Rates of the rows in `live`, in `caps`; `job` numbers their jobs, in the order in which they came."""
    by_job, first = by_jobs(job)
    begins, link_of, n_of = counts(live, by_job, first, path, len(capacity))
    room, seconds = capacity.copy(), seconds_left(live, by_job, first, path, left, capacity)
    if len(others):
        leave(others, owed(begins, link_of, n_of, others, most, capacity, weight, rounds), room)
    order = np.argsort(seconds, kind="mergesort")
    for j in order:
        rate = rate_of(j, begins, link_of, n_of, room)
        serve(j, rate, begins, link_of, n_of, live, by_job, first, room, caps)
    give_rest(order, live, by_job, first, path, room, caps)


@njit(cache=True, nogil=True)
def shares(some, others, most, room, users, rate):
    """Max-min rates of the foreign flows `some`, in `rate`. `room` is what the links have for them, and is used up;
    `users` is zero before and after."""
    for k in some:
        rate[k] = -1.0
        for link in others[k]:
            if link >= 0:
                users[link] += 1
    left = len(some)
    while left > 0:
        least = np.inf
        for k in some:
            if rate[k] < 0.0:
                least = min(least, most[k])
                for link in others[k]:
                    if link >= 0:
                        least = min(least, room[link] / users[link])
        for k in some:
            if rate[k] < 0.0:
                full = most[k] <= least * NEARLY
                for link in others[k]:
                    full = full or (link >= 0 and room[link] / users[link] <= least * NEARLY)
                if full:
                    rate[k] = -2.0
        for k in some:
            if rate[k] == -2.0:
                rate[k] = least
                left -= 1
                for link in others[k]:
                    if link >= 0:
                        room[link] = max(room[link] - least, 0.0)
                        users[link] -= 1


@njit(cache=True, nogil=True)
def on_links(others, links):
    """Foreign flows by link: where each link begins, and the flows."""
    begins = np.zeros(links + 1, np.int64)
    for k in range(len(others)):
        for link in others[k]:
            if link >= 0:
                begins[link + 1] += 1
    begins = np.cumsum(begins)
    flows, at = np.empty(begins[-1], np.int64), begins.copy()
    for k in range(len(others)):
        for link in others[k]:
            if link >= 0:
                flows[at[link]] = k
                at[link] += 1
    return begins, flows


@njit(cache=True, nogil=True)
def mark_near(links, others, lies, flow_of, seen):
    """Foreign flows on these links, then those that share a link with one of them, and how many the former are. They
    are marked in `seen`."""
    found, n = np.empty(len(others), np.int64), 0
    for link in links:
        for k in flow_of[lies[link] : lies[link + 1]]:
            if not seen[k]:
                seen[k], found[n] = True, k
                n += 1
    met = n
    for i in range(met):
        for link in others[found[i]]:
            if link >= 0:
                for k in flow_of[lies[link] : lies[link + 1]]:
                    if not seen[k]:
                        seen[k], found[n] = True, k
                        n += 1
    return found[:n], met


@njit(cache=True, nogil=True)
def push(live, job, path, left, capacity, others, most, stays, usual, price, late, whole, caps):
    """Rates of the rows in `live`, in `caps`, and who pushes. `stays` has the seconds for which each foreign flow is
    expected to stay, and `usual` is half of their mean lifetime. `late` has the seconds since each job began to send,
    and `whole` those that it needed then; where that is negative the job begins now, and it is set."""
    by_job, first = by_jobs(job)
    begins, link_of, n_of = counts(live, by_job, first, path, len(capacity))
    room, seconds = capacity.copy(), seconds_left(live, by_job, first, path, left, capacity)
    order, pushes = np.argsort(seconds, kind="mergesort"), np.zeros(len(seconds), np.bool_)
    lies, flow_of = on_links(others, len(capacity))
    seen, users = np.zeros(len(others), np.bool_), np.zeros(len(capacity), np.int64)
    theirs, then, free = np.zeros(len(others)), np.zeros(len(others)), capacity.copy()
    shares(np.arange(len(others)), others, most, free, users, theirs)
    for j in order:
        if whole[j] < 0.0:
            whole[j] = seconds[j]
        alone, rate = rate_of(j, begins, link_of, n_of, capacity), rate_of(j, begins, link_of, n_of, room)
        if rate <= BUSY * alone:
            continue
        some, met = mark_near(link_of[begins[j] : begins[j + 1]], others, lies, flow_of, seen)
        for k in some:
            for link in others[k]:
                if link >= 0:
                    free[link] = room[link]
                    for other in flow_of[lies[link] : lies[link + 1]]:
                        if not seen[other]:
                            free[link] = max(free[link] - theirs[other], 0.0)  # rounding can take it below 0
        line = np.inf
        for e in range(begins[j], begins[j + 1]):
            free[link_of[e]] = max(free[link_of[e]] - rate * n_of[e], 0.0)
            line = min(line, capacity[link_of[e]])
        shares(some, others, most, free, users, then)
        lost, stay = 0.0, 0.0
        for i, k in enumerate(some):
            seen[k] = False
            lost += (theirs[k] - then[k]) / line
            if i < met:
                stay = max(stay, stays[k])
        waited = max(late[j] - (whole[j] - seconds[j]), 0.0)
        if lost <= BUSY or price * lost * seconds[j] * alone / rate < usual + stay + 0.5 * waited:
            pushes[j] = True
            serve(j, rate, begins, link_of, n_of, live, by_job, first, room, caps)
            for k in some:
                theirs[k] = then[k]
    leave(others, theirs, room)
    for j in order:
        if not pushes[j]:
            rate = rate_of(j, begins, link_of, n_of, room)
            serve(j, rate, begins, link_of, n_of, live, by_job, first, room, caps)
    give_rest(order, live, by_job, first, path, room, caps)
    return pushes
