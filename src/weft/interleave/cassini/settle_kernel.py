"""Shifts of jobs that meet on several links in a loop: those on which the links disagree least."""

import numpy as np
from numba import njit

from weft.interleave.cassini.rotate_kernel import FLAT, bend_points, excess, lowest

WORTH = 1e-5  # what one more sweep over all jobs must gain, in the score of one link


@njit(cache=True, nogil=True)
def _link_of(net, link, shifts, placed):
    """One link of many, as rotate_kernel's functions take it."""
    starts, ends, levels, first, periods, repeats, members, begins, perimeters, capacities, _ = net
    a, b = begins[link], begins[link + 1]
    here = members[a:b]
    return (
        starts, ends, levels, first[a + link : b + link + 1], periods[a:b], repeats[a:b], perimeters[link],
        capacities[link], shifts[here], placed[here],
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _best_on_all(net, mine, shifts, placed):
    """(shift, cost, cost as it is): where a job does the least harm to all of its links; `mine` are its entries."""
    begins, perimeters, capacities, link_of = net[7:]
    corners = [np.empty(0)]
    bends = [np.empty(0)]
    cost, now, n = 0.0, 0.0, 0
    for m in mine:
        link = link_of[m]
        whole = capacities[link] * perimeters[link]
        here = _link_of(net, link, shifts, placed)
        where, bend, lost = bend_points(*here, m - begins[link])
        corners.append(where)
        bends.append(bend / whole)
        cost += lost / whole
        now += excess(*here) / whole
        n += len(where)
    every, each = np.empty(n), np.empty(n)
    n = 0
    for i in range(len(corners)):
        for k in range(len(corners[i])):
            every[n], each[n] = corners[i][k], bends[i][k]
            n += 1
    shift, found, _ = lowest(every, each, cost, net[4][mine[0]], FLAT * len(mine))
    return shift, found, now


@njit(cache=True, nogil=True)
def settle(net, first_use, uses, shifts, placed, sweeps):
    """Shifts of least disagreement on many links; `shifts` is amended, the sum over links of 1 - score is returned.

    Entries of the net are jobs on links, link after link: link l has those from begins[l] to begins[l + 1]. The entries
    of job j are uses[first_use[j]:first_use[j + 1]]. Jobs without a place get theirs one after another; then every job
    but the first moves to its best place until nobody gains, and at last into the middle of it.
    """
    n = len(placed)
    for j in range(n):
        if not placed[j]:
            shifts[j] = _best_on_all(net, uses[first_use[j] : first_use[j + 1]], shifts, placed)[0]
            placed[j] = True
    centring = centred = False
    for _ in range(sweeps):
        gained = 0.0
        for j in range(1, n):
            mine = uses[first_use[j] : first_use[j + 1]]
            shift, found, now = _best_on_all(net, mine, shifts, placed)
            if centring or found < now - FLAT * len(mine):
                gained += now - found
                shifts[j] = shift
        if centred and gained <= WORTH:
            break
        centred = centring  # centring may have made room for others, so all jobs are tried once more
        centring = gained <= WORTH and not centring
    cost = 0.0
    for link in range(len(net[8])):
        cost += excess(*_link_of(net, link, shifts, placed)) / (net[8][link] * net[9][link])
    return cost
