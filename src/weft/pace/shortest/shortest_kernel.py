"""Levels and weights for a data centre; `ranks` in __init__.py does the same in plain Python."""

import numpy as np
from numba import njit

from weft.pace.rates import MOST_RANK


@njit(cache=True, nogil=True)
def ranks(live, job, path, left, capacity, fine, levels, weights):
    """Level and weight of each of these rows; `job` numbers their jobs, in the order in which they came."""
    jobs = job.max() + 1 if len(job) else 0
    by_job = np.argsort(job, kind="mergesort")
    first = np.searchsorted(job[by_job], np.arange(jobs + 1))
    flows = np.zeros(len(capacity), np.int64)
    need, count = np.zeros(len(capacity)), np.zeros(len(capacity), np.int64)  # of one job; zero before and after
    longest = np.zeros(jobs)
    for i in live:
        for link in path[i]:
            if link >= 0:
                flows[link] += 1
    for j in range(jobs):
        for a in by_job[first[j] : first[j + 1]]:
            for link in path[live[a]]:
                if link >= 0:
                    need[link] += left[live[a]] / capacity[link]
                    longest[j] = max(longest[j], need[link])
        for a in by_job[first[j] : first[j + 1]]:
            for link in path[live[a]]:
                if link >= 0:
                    need[link] = 0.0
    taken = np.zeros(len(capacity), np.int64)
    for j in np.argsort(longest, kind="mergesort"):
        mine, level, share = by_job[first[j] : first[j + 1]], 0, 1.0
        for a in mine:
            for link in path[live[a]]:
                if link >= 0:
                    level = max(level, taken[link])
                    count[link] += 1
        for a in mine:
            for link in path[live[a]]:
                if link >= 0:
                    share = max(share, flows[link] / count[link])
        for a in mine:
            levels[live[a]], weights[live[a]] = level, min(round(fine * share), MOST_RANK)
            for link in path[live[a]]:
                if link >= 0:
                    taken[link], count[link] = level + 1, 0
