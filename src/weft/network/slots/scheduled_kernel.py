"""Sharing "scheduled": flows that ask for rates, slot by slot; scheduled.py says the same in plain Python.

What is asked for is carried if every link has room; where one has not, its flows share it fairly (max-min, each flow
capped by what it asks for). No flow runs ahead of those that feed it.
"""

import math

import numpy as np
from numba import njit

from weft.network.state import MISSED

TIGHT = 1.0 + 1e-9  # a link that is asked for more than this part of its capacity is full
WHOLE = 1.0 - 1e-9  # of a flow: so much sent is all of it
FREE, COMPUTING, SENDING, FINISHED = 0, 1, 2, 3
leaf = njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]  # it makes no arrays and counts none


@leaf
def demand(live, path, ask, load):
    """Load of every link if all got what they ask for."""
    load[:] = 0.0
    for n in range(len(live)):
        i = live[n]
        for h in range(path.shape[1]):
            if path[i, h] < 0:
                break
            load[path[i, h]] += ask[i]


@njit(cache=True, nogil=True)
def fill(live, path, ask, capacity, got):
    """Max-min rates with demands. A link whose share is the smallest of every flow on it settles them; so many do so
    at once that a few rounds are enough."""
    links, n = len(capacity), len(live)
    room, share = capacity.copy(), np.empty(links)
    count, settles = np.zeros(links, np.int64), np.empty(links, np.bool_)
    open_ = live.copy()
    for a in range(n):
        for h in range(path.shape[1]):
            if path[open_[a], h] < 0:
                break
            count[path[open_[a], h]] += 1
    least = np.empty(n)
    while n > 0:
        for k in range(links):
            share[k] = max(room[k], 0.0) / count[k] if count[k] > 0 else np.inf
            settles[k] = True
        met = False
        for a in range(n):
            m = np.inf
            for h in range(path.shape[1]):
                if path[open_[a], h] < 0:
                    break
                m = min(m, share[path[open_[a], h]])
            least[a] = m
            met |= ask[open_[a]] <= m
        if not met:
            for a in range(n):
                for h in range(path.shape[1]):
                    k = path[open_[a], h]
                    if k < 0:
                        break
                    if share[k] > least[a]:
                        settles[k] = False
        left = 0
        for a in range(n):
            i = open_[a]
            rate = -1.0
            if met:
                if ask[i] <= least[a]:
                    rate = ask[i]
            else:
                for h in range(path.shape[1]):
                    k = path[i, h]
                    if k < 0:
                        break
                    if settles[k] and share[k] == least[a]:
                        rate = least[a]
            if rate < 0.0:
                open_[left] = i
                left += 1
                continue
            got[i] = rate
            for h in range(path.shape[1]):
                if path[i, h] < 0:
                    break
                room[path[i, h]] -= rate
                count[path[i, h]] -= 1
        n = left


@leaf
def reach(low, high, feed0, feed1, chunk, size, sent, end, start_after):
    """Lower `end`, what each flow of a job could have sent by the end of the slot, to what those that feed it allow.

    Twice round is enough: a ring closes after one round, everything else is in order.
    """
    for _ in range(2):
        for i in range(low, high):
            if feed0[i] == feed1[i]:
                continue
            least, complete = np.inf, True
            for j in range(feed0[i], feed1[i]):
                least = min(least, end[j])
                complete &= end[j] >= size[j]
            if start_after and chunk[i] == 0.0:
                least = size[i] if complete else 0.0
            elif start_after:
                least = size[i] if complete else math.floor(least / chunk[i] * TIGHT) * chunk[i]
            end[i] = max(min(end[i], least + chunk[i]), sent[i])


@leaf
def opens(now, epoch, period, tolerance, used):
    """When a gated transfer may start: now, or the next slot of its gate (as in the event engine)."""
    if period <= 0.0:
        return max(now, epoch) if used == 0 else now
    k = math.floor((now - epoch) / period)
    if now - (epoch + k * period) <= tolerance * period:
        return now
    return max(now, epoch + (k + 1.0) * period)


@leaf
def end_iteration(jobs, j, when, records, n_records):
    """An iteration ends: the next one computes, or the job is finished."""
    job = jobs[j]
    job.done += 1
    job.comm_s += when - job.ready
    records[n_records].uid, records[n_records].slot = job.uid, j
    records[n_records].duration, records[n_records].count = when - job.began, 1.0
    if job.done >= job.total:
        job.state, job.finish = FINISHED, when
        return
    job.began = when
    _begin_computing(job)


@leaf
def _begin_computing(job):
    """Compute: for a time that is known, or (it is infinite) until whoever looks after the GPUs says so."""
    job.state, job.computed, job.ready = COMPUTING, 0, job.began + job.compute_s


@leaf
def computed(job, when):
    """Computing ended then: when the job is ready to send. Asked no earlier, so that the gate it has by now counts."""
    job.computed, job.ready = 1, when
    if job.gated:
        job.ready = opens(when, job.gate_epoch, job.gate_period, job.gate_tol, job.gate_used)
        job.gate_used = 1
        job.gate_s += job.ready - when
        if job.gate_period > 0.0:
            job.adjusted += job.ready - job.gate_last > MISSED * job.gate_period
            job.gate_last = job.ready


@leaf
def begin_job(jobs, j):
    """The first iteration."""
    _begin_computing(jobs[j])


@njit(cache=True, nogil=True)
def wake(jobs, n_jobs, now, sent, active, records, n_records):
    """Jobs that have computed by now begin to send; those with nothing to send compute on. Returns the records there
    are and when the next one has computed; -1 instead if there is no more room for records."""
    soonest = np.inf
    for j in range(n_jobs):
        job = jobs[j]
        while job.state == COMPUTING and job.ready <= now:
            if job.computed == 0:
                computed(job, job.ready)
                continue
            if job.low == job.high:
                if n_records >= len(records):
                    return -1, soonest
                end_iteration(jobs, j, job.ready, records, n_records)
                n_records += 1
                continue
            job.state = SENDING
            for i in range(job.low, job.high):
                sent[i] = 0.0
                active[i] = True
        if job.state == COMPUTING:
            soonest = min(soonest, job.ready)
    return n_records, soonest


@njit(cache=True, nogil=True)
def carry(jobs, n_jobs, now, slot_s, good, start_after, path, feed0, feed1, size, chunk, sent, rate, active, got, end,
          carried, carried_bytes, busy_s, records, n_records, over):  # fmt: skip
    """One slot: bytes move, iterations end. Returns (records, jobs whose flows are over; their numbers in `over`)."""
    carried[:] = 0.0
    n_over = 0
    for j in range(n_jobs):
        job = jobs[j]
        if job.state != SENDING:
            continue
        low, high = job.low, job.high
        for i in range(low, high):
            end[i] = min(sent[i] + got[i] * slot_s * good, size[i]) if active[i] else size[i]
        reach(low, high, feed0, feed1, chunk, size, sent, end, start_after)
        last, complete = 0.0, True
        for i in range(low, high):
            if end[i] >= size[i] * WHOLE:
                end[i] = size[i]
            moved = end[i] - sent[i]
            rate[i] = moved / slot_s
            for h in range(path.shape[1]):
                if path[i, h] < 0:
                    break
                carried[path[i, h]] += rate[i]
            if active[i] and end[i] >= size[i]:
                active[i] = False
                if moved > 0.0:
                    last = max(last, moved / max(got[i] * slot_s * good, moved))
            complete &= not active[i]
            sent[i] = end[i]
        if complete:
            end_iteration(jobs, j, now + min(last, 1.0) * slot_s, records, n_records)
            n_records += 1
            over[n_over] = j
            n_over += 1
    for k in range(len(carried)):
        carried_bytes[k] += carried[k] * slot_s
        busy_s[k] += slot_s if carried[k] > 0.0 else 0.0
    return n_records, n_over
