"""What foreign flows are owed and what jobs get, for a data centre; `owed` and `rates` in __init__.py do the same in
plain Python."""

import numpy as np
from numba import njit


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
def owed(begins, link_of, n_of, others, most, theirs, capacity, weight, rounds):
    """Bytes per second that are each foreign flow's own; `theirs` is what each weighs."""
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
                asked[link] += theirs[k]
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
            rate[k] = min(theirs[k] / (cost * cost), most[k])
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
def patient(begins, link_of, seconds, others, stays, patience, links):
    """What each foreign flow weighs, by how long it will still be there and what the jobs that it meets need."""
    least, weighs = np.full(links, np.inf), np.ones(len(others))
    for j in range(len(seconds)):
        for e in range(begins[j], begins[j + 1]):
            least[link_of[e]] = min(least[link_of[e]], seconds[j])
    for k in range(len(others)):
        need = np.inf
        for link in others[k]:
            if link >= 0:
                need = min(need, least[link])
        if 0.0 < need < np.inf and stays[k] > 0.0:
            weighs[k] = min(max((patience * need / stays[k]) ** 2, 1e-4), 1e4)
    return weighs


@njit(cache=True, nogil=True)
def decide(live, job, path, left, capacity, others, most, stays, patience, weight, rounds, caps):
    """Rates of the rows in `live`, in `caps`; `job` numbers their jobs, in the order in which they came. `stays` has
    the seconds for which each foreign flow will still be there, or 0 where that is not known."""
    jobs = job.max() + 1 if len(job) else 0
    by_job = np.argsort(job, kind="mergesort")
    first = np.searchsorted(job[by_job], np.arange(jobs + 1))
    begins, link_of, n_of = counts(live, by_job, first, path, len(capacity))
    room, seconds = capacity.copy(), seconds_left(live, by_job, first, path, left, capacity)
    if len(others):
        theirs = patient(begins, link_of, seconds, others, stays, patience, len(capacity))
        kept = owed(begins, link_of, n_of, others, most, theirs, capacity, weight, rounds)
        for k in range(len(others)):
            for link in others[k]:
                if link >= 0:
                    room[link] = max(room[link] - kept[k], 0.0)
    order = np.argsort(seconds, kind="mergesort")
    for j in order:
        rate = np.inf if begins[j] < begins[j + 1] else 0.0
        for e in range(begins[j], begins[j + 1]):
            rate = min(rate, room[link_of[e]] / n_of[e])
        for e in range(begins[j], begins[j + 1]):
            room[link_of[e]] = max(room[link_of[e]] - rate * n_of[e], 0.0)
        for a in by_job[first[j] : first[j + 1]]:
            caps[live[a]] = rate
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
