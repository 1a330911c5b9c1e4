"""Shifts of jobs that meet on several links in a loop: those on which the links disagree least."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from weft.policies.interleave.cassini.rotate_kernel import FLAT, Link, bend_points, excess, lowest

WORTH = 1e-5  # what one more sweep over all jobs must gain, in the score of one link


class PackedLinks(NamedTuple):
    """The fields of `Link` for many links, each as one array: those of the first link, of the second, and so on."""

    starts: Any
    ends: Any
    levels: Any
    first: Any  # counted over the pieces of all links; each link has one entry more than jobs
    periods: Any
    repeats: Any
    perimeters: Any
    capacities: Any


class Net(NamedTuple):
    """Many links and the jobs on them. An entry is one job on one link; the entries of a link lie side by side."""

    links: PackedLinks
    members: Any  # the number of each entry's job
    begins: Any  # the first entry of each link, and at last the number of all entries
    link_of: Any  # the number of each entry's link


@njit(cache=True, nogil=True)
def _one_link(net, number, shifts, placed):
    """(link, shifts, placed): the link of a number, and for each of its jobs the shift and whether it has a place."""
    links, a, b = net.links, net.begins[number], net.begins[number + 1]
    jobs = net.members[a:b]
    link = Link(
        links.starts, links.ends, links.levels, links.first[a + number : b + number + 1], links.periods[a:b],
        links.repeats[a:b], links.perimeters[number], links.capacities[number],
    )  # fmt: skip
    return link, shifts[jobs], placed[jobs]


@njit(cache=True, nogil=True)
def _best_on_all(net, mine, shifts, placed):
    """(shift, cost, cost as it is): where a job does the least harm to all of its links; `mine` are its entries."""
    corners = [np.empty(0)]
    bends = [np.empty(0)]
    cost, now, n = 0.0, 0.0, 0
    for m in mine:
        link, its_shifts, its_placed = _one_link(net, net.link_of[m], shifts, placed)
        whole = link.capacity * link.perimeter
        where, bend, lost = bend_points(link, its_shifts, its_placed, m - net.begins[net.link_of[m]])
        corners.append(where)
        bends.append(bend / whole)
        cost += lost / whole
        now += excess(link, its_shifts, its_placed) / whole
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

    The entries of job j are uses[first_use[j]:first_use[j + 1]]. `placed` says which jobs have a place, namely their
    shift. The others get theirs one after another. Then every job but the first moves to its best place until nobody
    gains, and at last into the middle of it.
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
    for number in range(len(net.links.capacities)):
        link, its_shifts, its_placed = _one_link(net, number, shifts, placed)
        cost += excess(link, its_shifts, its_placed) / (link.perimeter * link.capacity)
    return cost
