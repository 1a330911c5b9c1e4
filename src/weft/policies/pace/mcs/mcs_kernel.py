"""MCS for a data centre; testkit/oracles/mcs.py does the same in plain Python."""

import numpy as np
from numba import njit

FULL = 1e-6  # a NIC with no more than this part of its capacity left is full
leaf = njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]  # it makes no arrays and counts none


@leaf
def match(winner, total, at):
    """Who wins between the two below `at`: the larger total, of equal ones the first; a place may be empty (-1)."""
    one, other = winner[2 * at], winner[2 * at + 1]
    return one if other < 0 or total[one] >= total[other] else other


@leaf
def play_up(winner, total, link, leaves):
    """A tournament among links, of which the one with the largest total wins and of several the first: play the matches
    of this link again, whose total has fallen. `winner` has the final at 1 and the links from `leaves` on."""
    at = (leaves + link) >> 1
    while at > 0:
        best = match(winner, total, at)
        if best != link and winner[at] == best:  # it was not the winner here, and so it is no winner above
            break
        winner[at] = best
        at >>= 1


@njit(cache=True, nogil=True)
def job_order(job, path, left, capacity):
    """The place of each job; `job` numbers the jobs of the rows from 0 on."""
    jobs, links = job.max() + 1 if len(job) else 0, len(capacity)
    need = np.zeros((2 * len(job), 3))  # job, NIC, seconds; NICs of one job may come twice
    total = np.zeros(links)
    for a in range(len(job)):
        last = 0
        while last + 1 < path.shape[1] and path[a, last + 1] >= 0:
            last += 1
        for b, link in ((2 * a, path[a, 0]), (2 * a + 1, path[a, last])):
            need[b, 0], need[b, 1], need[b, 2] = job[a], link, left[a] / capacity[link]
            total[link] += need[b, 2]
    by_link = np.argsort(need[:, 1], kind="mergesort")
    first = np.searchsorted(need[:, 1][by_link], np.arange(links + 1))
    leaves = 1
    while leaves < links:
        leaves *= 2
    winner = np.full(2 * leaves, -1, np.int64)
    winner[leaves : leaves + links] = np.arange(links)
    for at in range(leaves - 1, 0, -1):
        winner[at] = match(winner, total, at)
    weight, places = np.ones(jobs), np.full(jobs, -1, np.int64)
    by_job = np.argsort(need[:, 0], kind="mergesort")
    mine = np.searchsorted(need[:, 0][by_job], np.arange(jobs + 1))
    there = np.zeros(jobs)  # seconds of each job on the busiest NIC, zero before and after
    for place in range(jobs - 1, -1, -1):
        busiest = winner[1]
        some = False
        for b in by_link[first[busiest] : first[busiest + 1]]:
            j = int(need[b, 0])
            if places[j] < 0:
                there[j] += need[b, 2]
                some = some or need[b, 2] > 0.0
        last, least = -1, np.inf
        if some:
            for b in by_link[first[busiest] : first[busiest + 1]]:
                j = int(need[b, 0])
                if there[j] > 0.0:
                    cost = weight[j] / there[j]
                    if cost < least or (cost == least and j > last):
                        last, least = j, cost
            for b in by_link[first[busiest] : first[busiest + 1]]:
                j = int(need[b, 0])
                weight[j] -= least * there[j]
                there[j] = 0.0
        else:
            for j in range(jobs):
                if places[j] < 0 and weight[j] <= least:
                    last, least = j, weight[j]
        places[last] = place
        for b in by_job[mine[last] : mine[last + 1]]:
            total[int(need[b, 1])] -= need[b, 2]
            play_up(winner, total, int(need[b, 1]), leaves)
    return places


@njit(cache=True, nogil=True)
def rows_of_jobs(rows, uid):
    """All rows of the jobs that these rows are of: those of a job lie side by side."""
    found = np.zeros(len(uid), np.bool_)
    for a in rows:
        if not found[a]:
            low, high = a, a + 1
            while low > 0 and uid[low - 1] == uid[a]:
                low -= 1
            while high < len(uid) and uid[high] == uid[a]:
                high += 1
            found[low:high] = True
    return found


@leaf
def bottleneck_s(low, high, out, into, left, room, capacity, load):
    """Seconds that the busiest NIC of flows low:high needs for them; `load` is zero before and after."""
    for a in range(low, high):
        load[out[a]] += left[a]
        load[into[a]] += left[a]
    longest = 0.0
    for a in range(low, high):
        for link in (out[a], into[a]):
            if room[link] <= FULL * capacity[link]:
                longest = np.inf
            elif load[link] > 0.0:
                longest = max(longest, load[link] / room[link])
    for a in range(low, high):
        load[out[a]] = 0.0
        load[into[a]] = 0.0
    return longest


@njit(cache=True, nogil=True)
def decide(live, path, uid, sent, size, capacity, place, rates):
    """Rates of the live flows, in `rates`; those of a job lie side by side."""
    most = len(live)
    flow, out, into = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    left, begins, rank = np.empty(most), np.empty(most + 1, np.int64), np.empty(most, np.int64)
    n, groups, last = 0, 0, -1
    for a in range(most):
        i = live[a]
        h = 0
        while h + 1 < path.shape[1] and path[i, h + 1] >= 0:
            h += 1
        flow[n], out[n], into[n], left[n] = i, path[i, 0], path[i, h], size[i] - sent[i]
        if uid[i] != last:
            begins[groups], rank[groups], last = n, place[i], uid[i]
            groups += 1
        n += 1
    begins[groups] = n
    load, room = np.zeros(len(capacity)), capacity.copy()
    ranked = np.argsort(rank[:groups], kind="mergesort")
    for g in ranked:
        seconds = bottleneck_s(begins[g], begins[g + 1], out, into, left, room, capacity, load)
        if not 0.0 < seconds < np.inf:
            continue
        for a in range(begins[g], begins[g + 1]):
            rate = left[a] / seconds
            rates[flow[a]] = rate
            room[out[a]] = max(room[out[a]] - rate, 0.0)
            room[into[a]] = max(room[into[a]] - rate, 0.0)
    for g in ranked:
        for a in range(begins[g], begins[g + 1]):
            more = min(room[out[a]], room[into[a]])
            rates[flow[a]] += more
            room[out[a]] -= more
            room[into[a]] -= more
