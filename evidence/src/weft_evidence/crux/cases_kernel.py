"""Jobs on links under strict priority between levels, and what many choices of paths or levels come to.

A job computes for `compute` seconds, and may send once it has computed a part `starts` of that; alone, sending takes
`comm` seconds. The next iteration begins when both are done. Its rate is a part of what it sends alone, the same on all
of its links, which `uses` has as bits. A link carries a rate of 1 in all. Levels are served one after another; within
one, rates are max-min.
"""

import numpy as np
from numba import njit

_SLACK = 1e-9


@njit(cache=True)
def _share(sends, uses, order, level, rate, left):
    """Rates of the jobs that send; `order` has the jobs by level."""
    busy, apart = np.int64(0), True
    for j in order:
        rate[j] = 1.0 if sends[j] else 0.0
        if sends[j]:
            apart = apart and not uses[j] & busy
            busy |= uses[j]
    if apart:
        return
    left[:] = 1.0
    at = 0
    while at < len(order):
        end = at + 1
        while end < len(order) and level[order[end]] == level[order[at]]:
            end += 1
        _fill(sends, uses, order[at:end], rate, left)
        at = end


@njit(cache=True)
def _fill(sends, uses, jobs, rate, left):
    """Max-min among the jobs of one level on what the levels above have left."""
    waiting = 0
    for j in jobs:
        if sends[j]:
            rate[j] = -1.0  # not known yet
            waiting += 1
    while waiting:
        tightest, least = -1, 1.0
        for e in range(len(left)):
            count = 0
            for j in jobs:
                count += rate[j] < 0.0 and uses[j] >> e & 1
            if count and left[e] / count < least - 1e-12:
                tightest, least = e, left[e] / count
        for j in jobs:
            if rate[j] < 0.0 and (tightest < 0 or uses[j] >> tightest & 1):
                rate[j] = least
                waiting -= 1
                for e in range(len(left)):
                    if uses[j] >> e & 1:
                        left[e] = max(left[e] - least, 0.0)


@njit(cache=True)
def play(compute, starts, comm, uses, level, links, horizon):
    """(seconds that each job computes, seconds of its links at full rate) within the horizon; all begin to compute at
    0."""
    jobs = len(compute)
    order = np.argsort(level)
    work, send = compute.copy(), comm.copy()
    done, sent = np.zeros(jobs), np.zeros(jobs)
    sends, rate, left = np.zeros(jobs, np.bool_), np.zeros(jobs), np.zeros(links)
    now = 0.0
    while now < horizon - _SLACK:
        for j in range(jobs):
            sends[j] = send[j] > _SLACK and compute[j] - work[j] >= starts[j] * compute[j] - _SLACK
        _share(sends, uses, order, level, rate, left)
        step = horizon - now
        for j in range(jobs):
            if work[j] > _SLACK:
                step = min(step, work[j])
                if not sends[j] and send[j] > _SLACK:
                    step = min(step, starts[j] * compute[j] - (compute[j] - work[j]))
            if sends[j] and rate[j] > _SLACK:
                step = min(step, send[j] / rate[j])
        now += step
        for j in range(jobs):
            if work[j] > _SLACK:
                work[j] -= step
                done[j] += step
            if sends[j]:
                send[j] -= step * rate[j]
                sent[j] += step * rate[j]
            if work[j] <= _SLACK and send[j] <= _SLACK:
                work[j], send[j] = compute[j], comm[j]
    return done, sent


@njit(cache=True)
def levels_tried(compute, starts, comm, gpus, uses, levels, links, horizon):
    """GPU use under each row of levels."""
    found = np.zeros(len(levels))
    for i in range(len(levels)):
        done = play(compute, starts, comm, uses, levels[i], links, horizon)[0]
        found[i] = (done * gpus).sum() / (gpus.sum() * horizon)
    return found


@njit(cache=True)
def used(job, ups, downs, chosen, jobs, links):
    """The links that each job uses, as bits, if flow i goes over switch `chosen[i]` of two."""
    uses = np.zeros(jobs, np.int64)
    for i in range(len(job)):
        uses[job[i]] |= np.int64(1) << (2 * ups[i] + chosen[i])
        uses[job[i]] |= np.int64(1) << (links // 2 + 2 * downs[i] + chosen[i])
    return uses


@njit(cache=True)
def paths_tried(compute, starts, comm, gpus, job, ups, downs, links, level, horizon):
    """GPU use under each choice of a switch for every flow. The first takes the first switch: the two are alike."""
    flows = len(job)
    found = np.zeros(2 ** max(flows - 1, 0))
    chosen = np.zeros(flows, np.int64)
    for number in range(len(found)):
        for i in range(1, flows):
            chosen[i] = number >> (i - 1) & 1
        uses = used(job, ups, downs, chosen, len(compute), links)
        done = play(compute, starts, comm, uses, level, links, horizon)[0]
        found[number] = (done * gpus).sum() / (gpus.sum() * horizon)
    return found
