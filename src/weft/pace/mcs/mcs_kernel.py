"""MCS for a data centre; `coflow_rates` in __init__.py does the same in plain Python."""

import numpy as np
from numba import njit

FULL = 1e-6
leaf = njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]  # it makes no arrays and counts none


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
def decide(live, path, job, sent, size, capacity, rates):
    """Rates of the live flows, in `rates`; those of a job lie side by side."""
    most = len(live)
    flow, out, into = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    left, begins = np.empty(most), np.empty(most + 1, np.int64)
    n, groups, last = 0, 0, -1
    for a in range(most):
        i = live[a]
        rates[i] = 0.0
        h = 0
        while h + 1 < path.shape[1] and path[i, h + 1] >= 0:
            h += 1
        flow[n], out[n], into[n], left[n] = i, path[i, 0], path[i, h], size[i] - sent[i]
        if job[i] != last:
            begins[groups], last = n, job[i]
            groups += 1
        n += 1
    begins[groups] = n
    load, room = np.zeros(len(capacity)), capacity.copy()
    need = np.empty(groups)
    for g in range(groups):
        need[g] = bottleneck_s(begins[g], begins[g + 1], out, into, left, capacity, capacity, load)
    for g in np.argsort(need, kind="mergesort"):
        seconds = bottleneck_s(begins[g], begins[g + 1], out, into, left, room, capacity, load)
        if not 0.0 < seconds < np.inf:
            continue
        for a in range(begins[g], begins[g + 1]):
            rate = left[a] / seconds
            rates[flow[a]] = rate
            room[out[a]] = max(room[out[a]] - rate, 0.0)
            room[into[a]] = max(room[into[a]] - rate, 0.0)
