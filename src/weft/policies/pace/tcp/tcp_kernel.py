"""The windows of many TCP flows on shared links; docs/baselines/tcp.md has the equations."""

import numpy as np
from numba import njit

NOWHERE, UNKNOWN = -1, -2


@njit(cache=True, nogil=True)
def shares(rows, path, window, rtt_s, capacity, rate, held):
    """Rates that windows come to in the network: `held` is the link that each flow queues at, -1 where there is none.

    All flows that queue at one link have one round trip time, and so rates in proportion to their windows. The level
    1 / RTT rises for all flows alike until a link is full, which stops those on it; at most it is 1 / (empty RTT).
    The first link of a path is the sender's own NIC, which the engine shares fairly.
    """
    weight, taken = np.zeros(len(capacity)), np.zeros(len(capacity))
    for i in rows:
        held[i] = UNKNOWN
        for link in path[i, 1:]:
            if link >= 0:
                weight[link] += window[i]
    left = len(rows)
    while left:
        level, tight = 1.0 / rtt_s, NOWHERE
        for link in range(len(capacity)):
            if weight[link] > 0.0 and (capacity[link] - taken[link]) / weight[link] < level:
                level, tight = max((capacity[link] - taken[link]) / weight[link], 1e-12), link
        for i in rows:
            if held[i] != UNKNOWN:
                continue
            stops = tight < 0
            for link in path[i, 1:]:
                stops = stops or link == tight
            if stops:
                held[i], rate[i] = tight, level * window[i]
                left -= 1
                for link in path[i, 1:]:
                    if link >= 0:
                        taken[link] += rate[i]
                        weight[link] = max(weight[link] - window[i], 0.0)
        if tight >= 0:
            weight[tight] = 0.0


@njit(cache=True, nogil=True)
def start(fresh, rows, path, window, kept, rtt_s, capacity, room, first):
    """Windows that a slow start comes to: as large as before, or twice what its links still have room for, since a
    sender hears of a loss one round trip late. Flows that start together share that room."""
    total, count = np.zeros(len(capacity)), np.zeros(len(capacity))
    for i in fresh:
        window[i] = 0.0
        for link in path[i, 1:]:
            if link >= 0:
                count[link] += 1.0
    for i in rows:
        for link in path[i, 1:]:
            if link >= 0:
                total[link] += window[i]
    for k in range(len(fresh)):
        i, free = fresh[k], np.inf
        for link in path[i, 1:]:
            if link >= 0:
                free = min(free, (capacity[link] * rtt_s + room[link] - total[link]) / count[link])
        window[i] = min(kept[k], 2.0 * max(free, first))


@njit(cache=True, nogil=True)
def grow(rows, window, rate, seconds, rtt_s, most, low, high, top):
    """Windows after that many seconds, each round trip larger by `low` bytes while they are below the last one at which
    something was lost (`top`), and by `high` above; to `most` at most."""
    for i in rows:
        if rate[i] > 0.0:
            trips = seconds / max(window[i] / rate[i], rtt_s)
            below = min(trips, max(top[i] - window[i], 0.0) / low)
            window[i] = min(window[i] + below * low + (trips - below) * high, most[i])


@njit(cache=True, nogil=True)
def cut(rows, window, threshold, held, rtt_s, capacity, room, keeps, smooth, top, lost):
    """Where a queue is longer than its link has room for, windows shrink: to the part that a variant keeps, or
    (`smooth`) as far as the queue is too long. Returns whether there was any. `lost` are the bytes that a slow start
    sent too much, to be sent again; its threshold is infinite before."""
    total = np.zeros(len(capacity))
    for i in rows:
        if held[i] >= 0:
            total[held[i]] += window[i]
    found = False
    for i in rows:
        if held[i] < 0:
            continue
        holds = capacity[held[i]] * rtt_s + room[held[i]]
        if total[held[i]] <= holds * (1.0 + 1e-9):
            continue
        found = True
        if threshold[i] == np.inf:
            lost[i] += window[i] * (1.0 - holds / total[held[i]])
        top[i] = window[i]
        window[i] *= holds / total[held[i]] if smooth else keeps
        threshold[i] = window[i]
    return found


@njit(cache=True, nogil=True)
def climb(low, high, pipe, gain, rtt_s):
    """Seconds in which the windows on a link grow from one sum to a higher one by `gain` bytes a round trip, and the
    bytes that the link carries meanwhile. Up to the pipe a round trip takes rtt_s and the link carries low / rtt_s;
    above, the link is full and a round trip takes as much longer as the windows are larger than the pipe."""
    knee = min(max(low, pipe), high)
    idle, full = (knee - low) * rtt_s / gain, (high * high - knee * knee) * rtt_s / (2.0 * gain * pipe)
    return idle + full, (knee * knee - low * low) / (2.0 * gain) + full * pipe / rtt_s


@njit(cache=True, nogil=True)
def climbed(low, pipe, gain, rtt_s, seconds):
    """The sum of windows after that many seconds of growth; the inverse of `climb`."""
    idle = max(pipe - low, 0.0) * rtt_s / gain
    if seconds <= idle:
        return low + seconds * gain / rtt_s
    knee = max(low, pipe)
    return np.sqrt(knee * knee + 2.0 * gain * pipe * (seconds - idle) / rtt_s)


@njit(cache=True, nogil=True)
def saw(total, pipe, holds, keeps, gain, rtt_s, seconds):
    """Follow windows for `seconds`. Whenever their sum reaches `holds`, it falls to the part `keeps` of it. Returns the
    bytes carried, the sum at the end, and the number of losses."""
    whole_s, whole = climb(keeps * holds, holds, pipe, gain, rtt_s)
    to_s, carried = climb(total, holds, pipe, gain, rtt_s)
    losses = 0.0
    if to_s > seconds:
        carried = 0.0
    else:
        seconds, total = seconds - to_s, keeps * holds
        teeth = np.floor(seconds / whole_s)
        seconds, carried, losses = seconds - teeth * whole_s, carried + teeth * whole, 1.0 + teeth
    after = min(climbed(total, pipe, gain, rtt_s, seconds), holds)
    return carried + climb(total, after, pipe, gain, rtt_s)[1], after, losses


@njit(cache=True, nogil=True)
def saws(rows, path, window, rtt_s, capacity, room, keeps, gain, seconds, rate, after, top, threshold):
    """Mean rates over that many seconds, and windows after them, of flows at links whose buffers are too small to keep
    them busy through a loss. A flow belongs to the link of its path that is nearest to overflowing; all that belong to
    one lose at once, and grow by `gain` bytes a round trip each."""
    total, others = np.zeros(len(capacity)), np.zeros(len(capacity))
    mine, count = np.zeros(len(capacity)), np.zeros(len(capacity))
    for i in rows:
        for link in path[i, 1:]:
            if link >= 0:
                total[link] += window[i]
    at = np.full(len(rows), NOWHERE)
    for k in range(len(rows)):
        i, most = rows[k], 0.0
        for link in path[i, 1:]:
            if link >= 0 and total[link] > most * (capacity[link] * rtt_s + room[link]):
                at[k], most = link, total[link] / (capacity[link] * rtt_s + room[link])
        for link in path[i, 1:]:
            if link >= 0 and link != at[k]:
                others[link] += rate[i]
        if at[k] >= 0:
            mine[at[k]] += window[i]
            count[at[k]] += 1.0
    carried, sums, losses = np.zeros(len(capacity)), np.zeros(len(capacity)), np.full(len(capacity), -1.0)
    for link in range(len(capacity)):
        pipe = (capacity[link] - others[link]) * rtt_s
        if count[link] and pipe > 0.0 and keeps * (pipe + room[link]) < pipe:
            holds = pipe + room[link]
            carried[link], sums[link], losses[link] = saw(
                min(mine[link], holds), pipe, holds, keeps, gain * count[link], rtt_s, seconds
            )
    for k in range(len(rows)):
        i, link = rows[k], at[k]
        if link >= 0 and losses[link] >= 0.0:
            holds = (capacity[link] - others[link]) * rtt_s + room[link]
            rate[i] = carried[link] / seconds * window[i] / mine[link]
            left = window[i] * min(holds / mine[link], 1.0) * keeps ** losses[link]
            after[i] = left + (sums[link] - min(mine[link], holds) * keeps ** losses[link]) / count[link]
            if losses[link] > 0.0:
                top[i] = after[i] * holds / sums[link]
                threshold[i] = keeps * top[i]
