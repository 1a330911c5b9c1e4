"""The engine's memory: flat arrays that the compiled kernel and the Python around it share.

Events are nodes (a task of a job on one lane of workers, once per iteration) and jobs (the end of a skipped stretch).
Everything static about a job arrives as a `Program`; attaching it copies the program into the arenas.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.model import units

# kinds of node
COMPUTE, TRANSFER = 0, 1
# states of a node within its iteration
PENDING, GATED, QUEUED, LATENCY, ACTIVE, DONE, FROZEN = 0, 1, 2, 3, 4, 5, 6  # frozen: active, in a job parked at a pace
# states of a row of jobs
FREE, RUNNING, PARKED, FINISHED = 0, 1, 2, 3
# sharing models
IDEAL, MAXMIN, KWAY = 0, 1, 2
# admission rules
ADMIT_ALL, ADMIT_AT_MOST, ADMIT_RATIO, ADMIT_ASK = 0, 1, 2, 3
# why the kernel came back
REACHED, JOB_FINISHED, RECORDS_FULL, ASK, STIRRED = 0, 1, 2, 3, 4

UNLIMITED = 1 << 62  # units of rate
CONTINUED = 1 << 24  # in the number of a node's task: a later stage of it
MISSED = 1.5  # periods: if a gate opens longer than this after it last did, an opening in between was missed

JOB = np.dtype(
    [
        ("state", "i4"), ("node0", "i4"), ("node1", "i4"), ("left", "i4"),  # nodes not done in this iteration
        ("uid", "i8"), ("total", "i8"), ("done", "i8"), ("base", "i8"),  # base: iterations done in earlier assignments
        ("iter_start", "f8"), ("finish", "f8"),
        ("gate_task", "i4"), ("n_comp", "i4"), ("n_net", "i4"), ("n_gate", "i4"),
        ("gate_epoch", "f8"), ("gate_period", "f8"), ("gate_tol", "f8"), ("serial", "i8"),
        ("gate_last", "f8"), ("snap_gate_last", "f8"),  # when its gate opened last; how long ago at the snapshot
        ("p0", "f8"), ("p1", "f8"), ("mark", "f8"), ("comm_s", "f8"), ("gate_s", "f8"), ("gpu_s", "f8"),
        ("last_dur", "f8"), ("last_count", "f8"),
        ("comp", "i4"), ("next", "i4"),  # its component, and the next job in it
        # at the last snapshot of its component, and at the start of its measuring window
        ("snap_done", "i8"), ("snap_comm", "f8"), ("snap_gate", "f8"), ("snap_gpu", "f8"),
        ("win_done", "i8"), ("win_comm", "f8"), ("win_gate", "f8"), ("win_gpu", "f8"), ("win_rate", "f8"),
        ("win_start", "f8"), ("due", "f8"),  # due: iterations at a pace since it was measured
        ("per", "f8"), ("carry", "f8"), ("adjusted", "i8"), ("snap_adjusted", "i8"), ("win_adjusted", "i8"),
        ("snap_age", "f8"),
        # while parked at a pace: per iteration, and what the pace came from
        ("comm_per", "f8"), ("gate_per", "f8"), ("gpu_per", "f8"), ("adjusted_per", "f8"), ("seen", "f8"),
        ("fluid", "f8"), ("calib", "f8"), ("gap", "f8"), ("begun", "i4"), ("listed", "i4"),
        ("bare_s", "f8"), ("bare_gpu", "f8"),  # an iteration without communication: seconds, GPU seconds
    ]
)  # fmt: skip

# What the max-min solver touches comes first, in one cache line; it works in whole units of rate, so that sums are
# exact and their order does not matter. A row has 256 bytes: four cache lines. `claim` is the weight of each of a
# transfer's flows and `level` its priority, 0 first. `limit` is what it demands in units, `demand_units` what it may
# have now, which a pace may have lowered.
NODE = np.dtype(
    [
        ("stamp", "i4"), ("state", "i4"), ("units", "i8"), ("fresh", "i8"), ("flow0", "i4"), ("flow1", "i4"),
        ("fol0", "i4"), ("fol1", "i4"), ("lead0", "i4"), ("lead1", "i4"), ("demand_units", "i8"), ("claim", "i4"),
        ("level", "i4"), ("rate", "f8"), ("remaining", "f8"), ("mark", "f8"), ("amount", "f8"), ("job", "i4"),
        ("kind", "i4"), ("task", "i4"), ("listed", "i4"), ("preds", "i4"), ("left", "i4"), ("event", "i4"),
        ("gpu", "i4"), ("succ0", "i4"), ("succ1", "i4"), ("rank0", "i4"), ("rank1", "i4"), ("next", "i4"),
        ("gnext", "i4"), ("gprev", "i4"), ("snap_state", "i4"), ("demand", "f8"), ("alone", "f8"), ("latency", "f8"),
        ("weight", "f8"), ("chunk", "f8"), ("began", "f8"), ("key", "f8"), ("snap", "f8"), ("takes", "f8"),
        ("ready_s", "f8"), ("drawn", "i8"), ("limit", "i8"),
    ]
)  # fmt: skip

# A transfer on a link: `n` of its flows cross it (parts of its flows, where flows are split). Transfers that are
# admitted sit side by side in `seats`, where the max-min solver walks along them. All attached ones are chained in
# CHAIN, row by row, which the solver does not read.
FLOW = np.dtype([("link", "i4"), ("seat", "i4"), ("n", "i8")])
CHAIN = np.dtype([("node", "i4"), ("next", "i4"), ("prev", "i4")])
SEAT = np.dtype([("node", "i4"), ("flow", "i4"), ("n", "i8")])
# binding: could be a bottleneck, given the jobs attached to it; tight: is, or nearly, given the rates.
LINK = np.dtype(
    [
        ("stamp", "i4"), ("binding", "i1"), ("tight", "i1"), ("dirty", "i1"), ("port", "i1"), ("seat0", "i4"),
        ("count", "i4"), ("free", "i8"), ("units", "i8"), ("used", "i8"), ("felt", "i8"), ("weight_left", "i8"),
        ("weight", "i8"),
        ("room", "i4"), ("flowing", "i4"), ("shead", "i4"), ("comp", "i4"), ("attached", "i4"), ("pad", "i4"),
        ("capacity", "f8"), ("bytes", "f8"), ("busy", "f8"), ("mark", "f8"), ("snap_busy", "f8"),
    ]
)  # fmt: skip
GPU = np.dtype([("running", "i4"), ("head", "i4"), ("dirty", "i4"), ("shead", "i4")])
# `by` may never be ahead of `node`; `tight` while it is as far as it may be.
LEAD = np.dtype([("node", "i4"), ("by", "i4"), ("tight", "i4"), ("pad", "i4")])
# What a pace that sets caps needs to know of a link: the sum of the caps on it, its flows without one, and bytes that
# transfers under caps have sent over it. `mean`: how many flows the fluid model finds on it on average, each
# counted by its weight.
LOAD = np.dtype([("caps", "i8"), ("uncapped", "i8"), ("sent", "f8"), ("mean", "f8")])
# Run-length iteration times: `count` iterations of `duration` of a job.
RECORD = np.dtype([("uid", "i8"), ("row", "i8"), ("duration", "f8"), ("count", "f8")])
SEGMENT = np.dtype([("uid", "i8"), ("task", "i4"), ("kind", "i4"), ("start", "f8"), ("end", "f8")])
# A component: jobs that can influence each other, and how far it is skipped.
COMP = np.dtype(
    [
        ("head", "i4"), ("size", "i4"), ("parked", "i4"), ("ref", "i4"), ("ordered", "i4"), ("opened", "i4"),
        ("fluid", "i4"), ("has_snap", "i4"), ("ticks", "i8"), ("snap_record", "i8"), ("win_record", "i8"),
        ("record0", "i8"), ("record1", "i8"), ("snap_time", "f8"), ("win_time", "f8"), ("window", "f8"),
        ("park_time", "f8"), ("period", "f8"), ("periods", "f8"), ("born", "f8"), ("gap", "f8"),
        # want: iterations of its window, 0 if it asked for none; mark: its number among all components ever formed,
        # which its links carry
        ("want", "f8"), ("mark", "i8"),
    ]
)  # fmt: skip
NOT_PARKED, PARK_EXACT, PARK_PACED = 0, 1, 2

# What the engine has exactly one of. n_...: how much of the array of that name is in use, or how many there have been.
SCALARS = np.dtype(
    [
        ("n_heap", "i8"), ("stamp", "i8"), ("n_ready", "i8"), ("n_done", "i8"), ("n_dirty", "i8"), ("n_fresh", "i8"),
        ("n_held", "i8"), ("released", "i8"), ("n_gpus", "i8"), ("n_events", "i8"), ("n_records", "i8"),
        ("n_segments", "i8"), ("n_finished", "i8"), ("sharing", "i8"), ("admit", "i8"), ("admit_k", "i8"),
        ("skip", "i8"), ("exact", "i8"), ("seed", "i8"), ("n_iterations", "i8"), ("comp_free", "i8"),
        ("comp_end", "i8"), ("n_estimates", "i8"), ("n_new_held", "i8"), ("segment_max", "i8"),
        ("go_on", "i8"), ("n_ticked", "i8"), ("budget", "i8"), ("n_seats", "i8"), ("opened", "i8"), ("n_drawn", "i8"),
        ("in_run", "i8"), ("n_starters", "i8"), ("asked", "i8"), ("formed", "i8"),
        ("ranked", "i8"),  # number of transfers with a weight or a level of their own
        ("rule", "i8"),  # whether a rule sets caps, and asks to be told
        ("stirred", "i8"), ("n_stirs", "i8"), ("uneven", "i8"),
        ("now", "f8"), ("b", "f8"), ("eta", "f8"), ("jitter", "f8"), ("straggle_p", "f8"), ("straggle_x", "f8"),
        ("task_jitter", "f8"),
        ("est_err", "f8"), ("est_weight", "f8"), ("window", "f8"), ("unit", "f8"),
        ("paced", "f8"), ("fluid", "f8"),  # iterations that were not simulated: at a measured, at a computed pace
        ("horizon", "f8"),  # the rule is asked again by then, so transfers that catch up later are not looked for yet
        ("slot_end", "f8"),  # transfers that would end later are not scheduled before the rule is asked again
    ]
)  # fmt: skip
RULE_NONE, RULE_STARTS, RULE_ENDS = 0, 1, 2  # nothing; that transfers start; that they start or end
FOREIGN = 1 << 40  # from this uid on, transfers are not ours: no rule sets their caps


class Arrays(NamedTuple):
    """All the engine's memory, as the kernel receives it."""

    jobs: npt.NDArray[Any]
    nodes: npt.NDArray[Any]
    succ: npt.NDArray[np.int32]
    flows: npt.NDArray[Any]
    ranks: npt.NDArray[np.int32]
    leads: npt.NDArray[Any]
    follows: npt.NDArray[np.int32]
    links: npt.NDArray[Any]
    gpus: npt.NDArray[Any]
    comps: npt.NDArray[Any]
    heap_key: npt.NDArray[np.float64]
    heap_id: npt.NDArray[np.int32]
    where: npt.NDArray[np.int32]  # position in the heap of event id (2 x node, 2 x job + 1), -1 if absent
    ready: npt.NDArray[np.int32]  # nodes whose predecessors are done
    finished_nodes: npt.NDArray[np.int32]
    fresh: npt.NDArray[np.int32]  # transfers that need a first rate
    dirty: npt.NDArray[np.int32]  # links whose transfers need new rates
    held: npt.NDArray[np.int32]  # transfers that wait for admission, in order of their job's turn
    dirty_gpus: npt.NDArray[np.int32]
    batch: npt.NDArray[np.int32]
    members: npt.NDArray[np.int32]  # jobs of a component that is being taken apart
    ticked: npt.NDArray[np.int32]  # jobs that ended an iteration at this instant and may let us skip
    work_nodes: npt.NDArray[np.int32]  # one longer than there are nodes: the solver writes first and counts then
    work_links: npt.NDArray[np.int32]
    work_stack: npt.NDArray[np.int32]
    fill_key: npt.NDArray[np.int64]  # the bottleneck queue of the max-min solver
    fill_id: npt.NDArray[np.int32]
    ratios: npt.NDArray[np.float64]
    records: npt.NDArray[Any]
    segments: npt.NDArray[Any]
    finished: npt.NDArray[np.int32]  # rows of the jobs that finished at this instant
    scalars: npt.NDArray[Any]  # without dimensions: one record
    seats: npt.NDArray[Any]  # each link has a block of `room` from `seat0` on, of which the first `count` are taken
    drawn: npt.NDArray[np.int32]  # transfers whose rate the solver changed at this instant
    starters: npt.NDArray[np.int32]  # jobs that the next run lets begin
    loads: npt.NDArray[Any]  # by link: its load, where a rule sets caps or paces are computed
    live: npt.NDArray[np.uint8]  # by node: whether it is a transfer under the rule that has bytes left
    since: npt.NDArray[np.float64]  # by node: when it last became live
    stirs: npt.NDArray[np.int32]  # nodes that came under the rule or left it since it was last asked, each once
    noted: npt.NDArray[np.uint8]  # by node: whether it is among these
    chain: npt.NDArray[Any]  # by row of flows: its transfer, and those beside it on the link


def aligned(size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Zeros that begin at a cache line."""
    kind = np.dtype(dtype)
    raw = np.zeros(size * kind.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size * kind.itemsize].view(kind)


def allocate(n_links: int, n_gpus: int, *, jobs: int = 64, nodes: int = 512) -> Arrays:
    """Empty arenas."""
    i4, f8 = np.int32, np.float64
    arrays = Arrays(
        jobs=np.zeros(jobs, JOB), nodes=aligned(nodes, NODE), succ=np.zeros(nodes * 2, i4),
        flows=np.zeros(nodes * 4, FLOW), ranks=np.zeros(nodes * 2, i4), leads=np.zeros(16, LEAD),
        follows=np.zeros(16, i4), links=aligned(max(1, n_links), LINK), gpus=np.zeros(max(1, n_gpus), GPU),
        comps=np.zeros(jobs + 1, COMP), heap_key=np.zeros(nodes + jobs, f8), heap_id=np.zeros(nodes + jobs, i4),
        where=np.full(2 * max(nodes, jobs), -1, i4), ready=np.zeros(nodes, i4), finished_nodes=np.zeros(nodes, i4),
        fresh=np.zeros(nodes, i4), dirty=np.zeros(max(1, n_links), i4), held=np.zeros(nodes, i4),
        dirty_gpus=np.zeros(max(1, n_gpus), i4), batch=np.zeros(nodes + jobs, i4),
        members=np.zeros(jobs, i4), ticked=np.zeros(jobs + 1, i4), work_nodes=np.zeros(nodes + 1, i4),
        work_links=np.zeros(max(1, n_links), i4), work_stack=np.zeros(nodes, i4),
        fill_key=np.zeros(max(1, n_links) + nodes, np.int64), fill_id=np.zeros(max(1, n_links) + nodes, i4),
        ratios=np.zeros(1, f8), records=np.zeros(1 << 14, RECORD), segments=np.zeros(1, SEGMENT),
        finished=np.zeros(jobs, i4), scalars=np.zeros((), SCALARS),
        seats=np.zeros(4 * max(1, n_links), SEAT), drawn=np.zeros(nodes, i4), starters=np.zeros(jobs, i4),
        loads=aligned(max(1, n_links), LOAD), live=np.zeros(nodes, np.uint8), since=np.zeros(nodes, f8),
        stirs=np.zeros(nodes, i4), noted=np.zeros(nodes, np.uint8), chain=np.zeros(nodes * 4, CHAIN),
    )  # fmt: skip
    arrays.links["shead"] = -1
    arrays.gpus["running"] = arrays.gpus["head"] = arrays.gpus["shead"] = -1
    arrays.links["comp"] = -1
    arrays.jobs["comp"] = -1
    return arrays


def rate_unit(capacity: npt.NDArray[np.float64], finest: int = 1) -> float:
    """The unit in which max-min counts rates on links of these capacities, where a flow has so many parts: coarse
    enough for what all parts of a link have together to stay below UNLIMITED."""
    coarser = max(0, (finest - 1).bit_length() - 11)
    return units.rate_unit(float(capacity.max()) if len(capacity) else 1.0) * 2.0**coarser


def address_table(arrays: Arrays) -> npt.NDArray[np.int64]:
    """Address and length of every array, as memory_kernel reads them; the arrays must outlive it."""
    return np.array([x for array in arrays for x in (array.ctypes.data, array.size)], dtype=np.int64)


def grown(array: npt.NDArray[Any], size: int, fill: int = 0) -> npt.NDArray[Any]:
    """A longer copy of an array; the new part is `fill`."""
    bigger = aligned(size, array.dtype) if fill == 0 else np.full(size, fill, array.dtype)
    bigger[: len(array)] = array
    return bigger


def seated_anew(arrays: Arrays, more: int) -> npt.NDArray[Any]:
    """Seats of all links, packed: each link has twice the room it needs now, and `more` seats are free at the end."""
    links = arrays.links
    room = 2 * links["attached"]
    start = np.cumsum(room) - room
    seats = np.zeros(2 * (int(room.sum()) + more), SEAT)
    taken = links["count"]
    within = np.arange(int(taken.sum())) - np.repeat(np.cumsum(taken) - taken, taken)
    new = np.repeat(start, taken) + within
    seats[new] = arrays.seats[np.repeat(links["seat0"], taken) + within]
    arrays.flows["seat"][seats["flow"][new]] = new
    links["seat0"], links["room"] = start, room
    arrays.scalars["n_seats"] = int(room.sum())
    return seats
