"""What travels: flow groups on the wire, transfers and traffic as policies see them, and sets of flows for paces.

FlowSet: the transfers of many jobs as a pace sees them, side by side in arrays, with what each of them waits for.
A flow goes from a server to a server over links. `feed0:feed1` are the flows that bring what it sends on (the pushes
that a parameter server adds up before it broadcasts; the flow before it in a ring), `next0:next1` the flows that send
on what it brings. At any time it has sent no more than its own first `chunk` plus what the least advanced of the flows
that feed it has delivered. Where a pace leaves collectives whole, a row is a lock-step group of flows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class FlowGroup:
    """Flows that advance in lock step: each carries `bytes`; link l carries an integer number of them.

    `ports` are the servers it uses (empty if it stays inside one), for admission rules and k-way sharing.
    `demand_bytes_per_s` caps each flow; `latency_s` passes before the first byte.
    """

    bytes: float
    links: tuple[tuple[int, int], ...]  # (link id, flows), sorted by link id
    ports: tuple[int, ...] = ()
    demand_bytes_per_s: float = float("inf")
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TransferView:
    """What a rule may know of a transfer; looking at it changes nothing."""

    job: str
    task: int
    bytes_left: float  # bytes that each of its flows has left
    ports: frozenset[int]  # links of its servers that it uses, by number
    turn: float  # its job's key: smaller goes first


# May this transfer start, given the transfers that have started and use one of its ports?
Ask = Callable[[TransferView, tuple[TransferView, ...]], bool]


Arcs = tuple[tuple[float, float, float], ...]  # (start, length, bytes per second) of each time of sending at one rate


@dataclass(frozen=True)
class Traffic:
    """One iteration on given GPUs, as a profile of a few iterations shows it.

    Arcs count from the start of `task`, the first transfer that goes over a link (None if there is none): that is
    where the job can be gated. It begins `offset_s` into the iteration. `iteration_s` is the mean time of an
    iteration, `spread_s` its standard deviation.
    """

    iteration_s: float
    task: int | None = None
    offset_s: float = 0.0
    spread_s: float = 0.0
    links: Mapping[int, Arcs] = field(default_factory=dict)


Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FlowRows:
    """The flows of one job; `feed` and `next` count from its own first row. A row without a path is no transfer."""

    paths: tuple[tuple[int, ...], ...]
    size: tuple[float, ...]  # bytes
    chunk: tuple[float, ...]  # bytes that it may send before anything has reached its source
    feed: tuple[tuple[int, int], ...]
    next: tuple[tuple[int, int], ...]
    compute_s: float = 0.0  # seconds of the longest chain of computing in an iteration of the job
    work_gpu_s: float = 0.0  # GPU seconds of all computing in an iteration

    def __len__(self) -> int:
        return len(self.paths)


@dataclass
class FlowSet:
    """See the module. Rows are reused; `active` ones have bytes left and are ready to send."""

    job: Ints  # its row in the engine, which another job may have later
    uid: npt.NDArray[np.int64]  # the job itself; a lower number came earlier
    path: Ints  # link ids from the sender on, then -1
    feed0: Ints
    feed1: Ints
    next0: Ints
    next1: Ints
    size: Floats
    chunk: Floats
    sent: Floats  # bytes sent in this iteration
    rate: Floats  # bytes per second in the last slot
    line: Floats  # bytes per second: capacity of the slowest link of its path
    compute_s: Floats  # seconds that an iteration of its job computes
    work_gpu_s: Floats  # GPU seconds of the same, over all workers
    active: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.job)

    def put(self, at: int, job: int, rows: FlowRows, capacity: Floats, uid: int | None = None) -> None:
        """Write the flows of a job from row `at` on."""
        here = slice(at, at + len(rows))
        if len(rows):
            self.reroute(at, rows, capacity)
            self.feed0[here], self.feed1[here] = at + np.array(rows.feed).T
            self.next0[here], self.next1[here] = at + np.array(rows.next).T
        self.job[here], self.uid[here] = job, job if uid is None else uid
        self.size[here], self.chunk[here], self.sent[here], self.rate[here] = rows.size, rows.chunk, 0.0, 0.0
        self.compute_s[here], self.work_gpu_s[here], self.active[here] = rows.compute_s, rows.work_gpu_s, False

    def reroute(self, at: int, rows: FlowRows, capacity: Floats) -> None:
        """Write the paths of a job's flows from row `at` on."""
        here, width = slice(at, at + len(rows)), self.path.shape[1]
        self.path[here] = [(*path, *[-1] * (width - len(path))) for path in rows.paths]
        self.line[here] = [min([capacity.item(link) for link in path], default=0.0) for path in rows.paths]

    def grown(self, n: int, width: int) -> FlowSet:
        """The same flows with room for n, and for paths of `width` links."""
        bigger = flow_set(n, max(width, self.path.shape[1]))
        for column in fields(self):
            old: npt.NDArray[Any] = getattr(self, column.name)
            new: npt.NDArray[Any] = getattr(bigger, column.name)
            new[tuple(slice(0, extent) for extent in old.shape)] = old
        return bigger


def flow_set(n: int, width: int) -> FlowSet:
    """Room for n flows with paths of at most `width` links; none of them active."""
    job, feed0, feed1, next0, next1 = (np.zeros(n, np.int32) for _ in range(5))
    size, chunk, sent, rate, line, compute_s, work = (np.zeros(n) for _ in range(7))
    path = np.full((n, max(width, 1)), -1, np.int32)
    uid, idle = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    return FlowSet(job, uid, path, feed0, feed1, next0, next1, size, chunk, sent, rate, line, compute_s, work, idle)
