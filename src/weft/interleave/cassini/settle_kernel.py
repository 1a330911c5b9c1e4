"""Shifts of jobs that meet on several links in a loop: those on which the links disagree least."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from weft.interleave.cassini.rotate_kernel import FLAT, Link, bend_points, excess, lowest

WORTH = 1e-5  # what one more sweep over all jobs must gain, in the score of one link


class Net(NamedTuple):
    """Many links: each field of `links` has those of one link after another. Entries are jobs on links."""

    links: Link
    members: Any  # the job of each entry
    begins: Any  # the first entry of each link, and the number of entries
    link_of: Any  # the link of each entry


@njit(cache=True, nogil=True)
def _link_of(net, at, shifts, placed):
    """One link of many, and the shifts and places of its jobs."""
    links, a, b = net.links, net.begins[at], net.begins[at + 1]
    here = net.members[a:b]
    link = Link(
        links.starts, links.ends, links.levels, links.first[a + at : b + at + 1], links.periods[a:b],
        links.repeats[a:b], links.perimeter[at], links.capacity[at],
    )  # fmt: skip
    return link, shifts[here], placed[here]


@njit(cache=True, nogil=True)
def _best_on_all(net, mine, shifts, placed):
    """(shift, cost, cost as it is): where a job does the least harm to all of its links; `mine` are its entries."""
    corners = [np.empty(0)]
    bends = [np.empty(0)]
    cost, now, n = 0.0, 0.0, 0
    for m in mine:
        here = _link_of(net, net.link_of[m], shifts, placed)
        whole = here[0].capacity * here[0].perimeter
        where, bend, lost = bend_points(*here, m - net.begins[net.link_of[m]])
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
    shift, found, _ = lowest(every, each, cost, net.links.periods[mine[0]], FLAT * len(mine))
    return shift, found, now


@njit(cache=True, nogil=True)
def settle(net, first_use, uses, shifts, placed, sweeps):
    """Shifts of least disagreement on many links; `shifts` is amended, the sum over links of 1 - score is returned.

    The entries of job j are uses[first_use[j]:first_use[j + 1]]. Jobs without a place get theirs one after
    another; then every job but the first moves to its best place until nobody gains, and at last into the middle of it.
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
    for at in range(len(net.links.capacity)):
        here = _link_of(net, at, shifts, placed)
        cost += excess(*here) / (here[0].perimeter * here[0].capacity)
    return cost
