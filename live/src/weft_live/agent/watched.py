"""Watched: the jobs of a host as its agent sees them, and how their sockets are read."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from weft_live.agent.diag import Diag
from weft_live.agent.phases import Phases
from weft_live.agent.sockets import Process, Reading, Remote
from weft_live.agent.wire import Message


@dataclass
class Watched:
    """A job's processes and connections on this host, and what the server said of it."""

    name: str
    phases: Phases = field(default_factory=Phases)
    processes: dict[int, Process] = field(default_factory=dict)
    sockets: dict[int, Remote] = field(default_factory=dict)
    remotes: list[Remote] = field(default_factory=list)  # the same; another list whenever they change
    readings: Sequence[Reading] = ()  # of these, at the last look
    acked: dict[int, int] = field(default_factory=dict)  # by socket, when it last changed
    total: float = 0.0  # bytes of all of them since the agent knows them
    held: float = 0.0  # bytes per second from the end of a phase until the server says go; 0: it is not held
    waits: bool = False  # where this host plans the rates: its gate has not let it go yet
    rate: float | None = None  # bytes per second for all of its sockets; None: no limit
    busy: set[int] = field(default_factory=set)  # sockets with something to send
    share_s: float = 0.0  # when its rate is shared out among them again
    told: Message = field(default_factory=dict)  # what the server was last told of it

    def take(self, sockets: dict[int, Remote]) -> None:
        """These are its sockets now."""
        self.sockets, self.remotes = sockets, list(sockets.values())
        self.acked = {inode: acked for inode, acked in self.acked.items() if inode in sockets}
        self.readings = ()

    def count(self, readings: Sequence[Reading]) -> tuple[float, int]:
        """Bytes that arrived since the agent knows the job, and bytes that wait now."""
        if readings == self.readings and not self.busy:
            return self.total, 0
        self.readings = readings
        self.busy.clear()
        waiting = 0
        for remote, (acked, waits) in zip(self.remotes, readings, strict=True):
            inode = remote.inode
            grown = acked - self.acked.get(inode, acked)
            self.acked[inode] = acked
            if grown or waits:
                self.busy.add(inode)
                self.total += grown
                waiting += waits
        return self.total, waiting

    def report(self, event: str) -> Message:
        """What the server is told of it."""
        seen = self.phases.pattern
        return {
            "job": self.name, "event": event, "talking": self.phases.talking, "sent": self.phases.sent,
            "left": self.phases.left, "volume": self.phases.volume, "sockets": len(self.sockets),
            "period_s": seen.period_s, "phase_s": seen.phase_s, "phases": seen.phases, "total": self.total,
            "rdma": any(process.rdma for process in self.processes.values()),
        }  # fmt: skip


class Reader:
    """Reads the sockets of jobs: all in one go where the kernel can do it (diag), else one by one."""

    def __init__(self, netns: str = "") -> None:
        self._diag: Diag | None = None
        with contextlib.suppress(OSError):
            self._diag = Diag(netns)
        self._lists: list[list[Remote]] = []
        self._all: list[Remote] = []

    def read(self, jobs: Collection[Watched]) -> list[Sequence[Reading]]:
        """By job; sockets that are gone are taken from it."""
        if self._diag is None:
            return [self._one_by_one(job) for job in jobs]
        lists = [job.remotes for job in jobs]
        if len(lists) != len(self._lists) or any(a is not b for a, b in zip(lists, self._lists, strict=True)):
            self._lists, self._all = lists, [remote for remotes in lists for remote in remotes]
        told, found, first = self._diag.read(self._all), list[Sequence[Reading]](), 0
        readings = [reading for reading in told if reading is not None]
        if len(readings) == len(told):
            for remotes in lists:
                found.append(readings[first : first + len(remotes)])
                first += len(remotes)
            return found
        found = [self._one_by_one(job) for job in jobs]
        if all(job.remotes is remotes for job, remotes in zip(jobs, lists, strict=True)):
            self.close()  # the kernel is silent about sockets that are all there: it cannot be asked
        return found

    def _one_by_one(self, job: Watched) -> list[Reading]:
        found = {remote.inode: remote.read() for remote in job.remotes}
        there = {inode: reading for inode, reading in found.items() if reading is not None}
        if len(there) < len(found):
            job.take({inode: job.sockets[inode] for inode in there})
        return list(there.values())

    def close(self) -> None:
        """Sockets are read one by one from now on."""
        if self._diag is not None:
            self._diag.close()
            self._diag = None
