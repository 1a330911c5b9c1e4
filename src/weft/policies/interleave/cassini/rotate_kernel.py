"""Best rotations of circles on one link, exactly (CASSINI Table 1); its test does the same in plain Python.

A job is pieces (start, end, level) of its period, disjoint and inside it, repeated over the perimeter. Its shift delays
all of them. Costs are excess demand integrated over the perimeter.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import config, njit

FLAT = 1e-11  # fraction of capacity x perimeter: costs closer than this are equal
SECOND = np.int64(1)  # the number of a job; numba would compile all that is called with a plain 1 once more


class Link(NamedTuple):
    """The circles on a link: pieces of all jobs, the number of each job's first piece, and how jobs repeat."""

    starts: Any
    ends: Any
    levels: Any
    first: Any  # with one entry more than there are jobs
    periods: Any
    repeats: Any
    perimeter: float
    capacity: float


@njit(cache=True, nogil=True)
def _copy(what, to):
    """Write an array over the first entries of another; a slice takes numba two seconds to compile."""
    for i in range(len(what)):
        to[i] = what[i]


@njit(cache=True, nogil=True)
def _steps(link, shifts, placed):
    """Where the summed demand of the placed jobs changes, in order, and the demand before the first change and after
    each."""
    count = 0
    for j in range(len(link.periods)):
        if placed[j]:
            count += 2 * (link.first[j + 1] - link.first[j]) * link.repeats[j]
    times = np.empty(count)
    jumps = np.empty(count)
    base = 0.0
    k = 0
    for j in range(len(link.periods)):
        if not placed[j]:
            continue
        for i in range(link.first[j], link.first[j + 1]):
            at = (link.starts[i] + shifts[j]) % link.periods[j]
            length = link.ends[i] - link.starts[i]
            for r in range(link.repeats[j]):
                begin = at + r * link.periods[j]
                end = begin + length
                if begin >= link.perimeter:
                    begin -= link.perimeter
                    end -= link.perimeter
                if end >= link.perimeter:
                    end -= link.perimeter
                    base += link.levels[i]
                times[k], jumps[k] = begin, link.levels[i]
                times[k + 1], jumps[k + 1] = end, -link.levels[i]
                k += 2
    order = np.argsort(times)
    return times[order], jumps[order], base


@njit(cache=True, nogil=True)
def excess(link, shifts, placed):
    """Demand above capacity of the placed jobs, integrated over the perimeter."""
    times, jumps, level = _steps(link, shifts, placed)
    total = 0.0
    before = 0.0
    for k in range(len(times)):
        total += max(level - link.capacity, 0.0) * (times[k] - before)
        level += jumps[k]
        before = times[k]
    return total + max(level - link.capacity, 0.0) * (link.perimeter - before)


@njit(cache=True, nogil=True)
def bend_points(link, shifts, placed, job):
    """(corners, bends, cost): how the cost of a link changes as one job moves, from its cost at shift 0.

    It is piecewise linear. Whenever an edge of the others meets an end of a piece of this job, the slope changes by as
    much as that edge changes the excess that the piece adds.
    """
    mine = placed[job]
    placed[job] = False
    times, jumps, level = _steps(link, shifts, placed)
    period = link.periods[job]
    n = len(times)
    corners = np.empty(2 * n * (link.first[job + 1] - link.first[job]))
    bends = np.empty(len(corners))
    k = 0
    for e in range(n):
        after = level + jumps[e]
        at = times[e] % period
        for i in range(link.first[job], link.first[job + 1]):
            bend = max(after + link.levels[i] - link.capacity, 0.0) - max(after - link.capacity, 0.0)
            bend -= max(level + link.levels[i] - link.capacity, 0.0) - max(level - link.capacity, 0.0)
            if bend != 0.0:
                corners[k], bends[k] = (at - link.ends[i]) % period, bend
                corners[k + 1], bends[k + 1] = (at - link.starts[i]) % period, -bend
                k += 2
        level = after
    placed[job] = True
    held = shifts[job]
    shifts[job] = 0.0
    cost = excess(link, shifts, placed)
    shifts[job] = held
    placed[job] = mine
    return corners[:k], bends[:k], cost


@njit(cache=True, nogil=True)
def lowest(corners, bends, cost, period, flat):
    """(shift, cost, slack): where a cost with these bends is lowest.

    All corners follow from the cost at 0 and the bends; the first slope from the fact that a full turn ends where it
    began. Among equal optima the middle of the widest stretch is taken; slack is half its width.
    """
    k = len(corners)
    if k == 0:
        return 0.0, cost, 0.5 * period
    order = np.argsort(corners)
    where = corners[order]
    slope = 0.0
    for e in range(k):
        slope -= bends[order[e]] * (period - where[e]) / period
    costs = np.empty(k)
    before = 0.0
    for e in range(k):
        cost += slope * (where[e] - before)
        costs[e] = cost
        before = where[e]
        slope += bends[order[e]]
    return _widest(where, costs, period, flat)


@njit(cache=True, nogil=True)
def best_shift(link, shifts, placed, job):
    """(shift, cost, slack): the best place of one job among the placed others, which stay where they are."""
    corners, bends, cost = bend_points(link, shifts, placed, job)
    return lowest(corners, bends, cost, link.periods[job], FLAT * link.capacity * link.perimeter)


@njit(cache=True, nogil=True)
def _widest(where, costs, period, flat):
    """(middle, cost, half width) of the widest stretch between corners that are all as low as the lowest."""
    k = len(where)
    lowest = np.inf
    for e in range(k):
        lowest = min(lowest, costs[e])
    high = -1
    for e in range(k):
        if costs[e] > lowest + flat:
            high = e
            break
    if high < 0:
        return 0.0, lowest, 0.5 * period
    best_from = 0.0
    best_width = -1.0
    width = -1.0  # width of the current stretch; below 0 if there is none
    begun = 0.0
    for step in range(1, k + 1):
        e = (high + step) % k
        if costs[e] > lowest + flat:
            width = -1.0
            continue
        if width < 0.0:
            width, begun = 0.0, where[e]
        else:
            gap = where[e] - where[e - 1 if e > 0 else k - 1]
            width += gap if gap >= 0.0 else gap + period
        if width > best_width:
            best_width, best_from = width, begun
    return (best_from + 0.5 * best_width) % period, lowest, 0.5 * best_width


@njit(cache=True, nogil=True)
def _descend(link, shifts, flat):
    """Move one job at a time to its best place until nobody gains; the first job stays. Returns the cost."""
    n = len(link.periods)
    placed = np.ones(n, np.bool_)
    cost = excess(link, shifts, placed)
    for _ in range(50):
        before = cost
        for j in range(1, n):
            shift, found, _ = best_shift(link, shifts, placed, j)
            if found < cost - flat:
                shifts[j], cost = shift, found
        if cost >= before - flat:
            break
    return cost


@njit(cache=True, nogil=True)
def _overload(link):
    """By how much all demand together is more than the link can carry; 0 if it is not."""
    load = -link.capacity * link.perimeter
    for j in range(len(link.repeats)):
        for i in range(link.first[j], link.first[j + 1]):
            load += link.levels[i] * (link.ends[i] - link.starts[i]) * link.repeats[j]
    return max(load, 0.0)


@njit(cache=True, nogil=True)
def lower_bound(link):
    """A cost that no shifts can go below: that of all demand together, or of disjoint pairs, each at its own best."""
    n = len(link.periods)
    load = _overload(link)
    pairs = np.zeros((n, n))
    shifts = np.zeros(n)
    for a in range(n):
        placed = np.zeros(n, np.bool_)
        placed[a] = True
        pairs[a, a] = excess(link, shifts, placed)
        for b in range(a + 1, n):
            pairs[a, b] = best_shift(link, shifts, placed, b)[1]
    disjoint = 0.0
    used = np.zeros(n, np.bool_)
    while True:
        most, x, y = 0.0, -1, -1
        for a in range(n):
            for b in range(a, n):
                if not used[a] and not used[b] and pairs[a, b] > most:
                    most, x, y = pairs[a, b], a, b
        if x < 0:
            break
        used[x] = used[y] = True
        disjoint += most
    return max(load, disjoint)


@njit(cache=True, nogil=True)
def _search(link, flat, placed, shifts, best, count):
    """Every spanning tree of edges that meet, by placing jobs one after another on an edge of one that is placed.

    `count` is (jobs placed, work left, in edges looked at); `best` is the best shifts found, and then their cost.
    """
    n = len(link.periods)
    if count[0] == n - 1:
        for j in range(n):
            if not placed[j]:
                edges = 0
                for a in range(n):
                    edges += (link.first[a + 1] - link.first[a]) * link.repeats[a]
                count[1] -= edges * (link.first[j + 1] - link.first[j])
                shift, cost, _ = best_shift(link, shifts, placed, j)
                if cost < best[n] - flat:
                    _copy(shifts, best)
                    best[j], best[n] = shift, cost
        return 0
    for j in range(n):
        if placed[j]:
            continue
        for a in range(n):
            if not placed[a]:
                continue
            copies = link.repeats[a] if count[0] > 1 else 1  # others are these, turned by the first job's period
            for p in range(2 * (link.first[a + 1] - link.first[a])):
                i = link.first[a] + p // 2
                edge = shifts[a] + (link.starts[i] if p % 2 == 0 else link.ends[i])
                for q in range(2 * (link.first[j + 1] - link.first[j])):
                    m = link.first[j] + q // 2
                    own = link.starts[m] if q % 2 == 0 else link.ends[m]
                    for r in range(copies):
                        if count[1] <= 0:
                            return 1
                        count[1] -= (link.first[a + 1] - link.first[a]) * link.repeats[a]
                        shifts[j] = (edge + r * link.periods[a] - own) % link.periods[j]
                        placed[j] = True
                        count[0] += 1
                        so_far = excess(link, shifts, placed)
                        stopped = 0
                        if so_far < best[n] - flat:  # more jobs never cost less
                            stopped = _search(link, flat, placed, shifts, best, count)
                        count[0] -= 1
                        placed[j] = False
                        if stopped:
                            return 1
    return 0


@njit(cache=True, nogil=True)
def _centre(link, shifts, cost, flat):
    """Give every job the widest room at this cost; returns the least half width."""
    n = len(link.periods)
    placed = np.ones(n, np.bool_)
    slack = 0.0
    for _ in range(12):
        slack = 0.5 * link.perimeter
        moved = 0.0
        for j in range(n):
            shift, found, room = best_shift(link, shifts, placed, j)
            slack = min(slack, room)
            if j > 0 and found <= cost + flat:
                moved = max(moved, abs(shift - shifts[j]))
                shifts[j] = shift
        if moved <= 1e-12 * link.perimeter:
            break
    return slack


@njit(cache=True, nogil=True)
def solve(link, restarts, work):
    """(shifts, cost, slack, exact, bound): the best rotations, the first job's being 0.

    Two jobs: exact. More: coordinate descent from several starts, then, unless that meets the lower bound, the exact
    search while `work` lasts. With no work at all the score is all that is wanted: jobs are not centred, slack is 0.
    """
    n = len(link.periods)
    flat = FLAT * link.capacity * link.perimeter
    shifts = np.zeros(n)
    placed = np.ones(n, np.bool_)
    if n == 1:
        cost = excess(link, shifts, placed)
        return shifts, cost, 0.5 * link.perimeter, True, cost
    if n == 2:
        shift, cost, slack = best_shift(link, shifts, placed, SECOND)
        shifts[1] = shift
        return shifts, cost, slack, True, cost
    # The bound from pairs of jobs is computed only where this one is not met.
    bound = _overload(link)
    paired = False
    best = np.zeros(n + 1)
    best[n] = np.inf
    state = np.uint64(0x9E3779B97F4A7C15)
    for attempt in range(restarts):
        trial = np.zeros(n)
        if attempt == 0:
            placed = np.zeros(n, np.bool_)
            placed[0] = True
            for j in range(1, n):
                trial[j] = best_shift(link, trial, placed, j)[0]
                placed[j] = True
        elif attempt > 1:
            for j in range(1, n):
                state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
                trial[j] = link.periods[j] * (np.float64(state >> np.uint64(11)) / 9007199254740992.0)
        cost = _descend(link, trial, flat)
        if cost < best[n] - flat:
            _copy(trial, best)
            best[n] = cost
        if best[n] > bound + flat and not paired:
            bound, paired = lower_bound(link), True
        if best[n] <= bound + flat:
            break
    exact = best[n] <= bound + flat
    if not exact and work > 0:
        placed = np.zeros(n, np.bool_)
        placed[0] = True
        count = np.array([1, work])
        stopped = _search(link, flat, placed, np.zeros(n), best, count)
        exact = stopped == 0
    cost = best[n]
    for j in range(n):
        shifts[j] = best[j]
    slack = 0.0
    if work > 0:
        slack = _centre(link, shifts, cost, flat)
    return shifts, cost, slack, exact, cost if exact else bound


if config.DISABLE_JIT:  # random numbers wrap around on purpose, and numpy would warn of it
    solve = np.errstate(over="ignore")(solve)
