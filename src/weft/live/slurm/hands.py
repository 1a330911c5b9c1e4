"""Hands: a thread that carries commands to Slurm and brings back what Slurm says, so that nobody else waits for it."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from weft.live.slurm.commands import Slurm, Unreachable
from weft.live.slurm.reconcile import Do, Pin
from weft.live.slurm.records import Memory, Node, Record, read_jobs, read_nodes
from weft.live.slurm.telling import Why
from weft.model.hostlist import compress

__all__ = ["Hands", "Order", "Snapshot"]

_SOON_S = 0.1  # before the next look while something is under way
_NODES_S = 0.9  # between looks at nodes, which change less than jobs
_ABOUT = re.compile(r"(?:\bfor job |\bJobId=|^)(\d+(?:_\d+)?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Order:
    """One command about one job."""

    do: Do
    key: str
    pin: Pin | None = None  # of an update
    go: bool = False  # of an update: release it at once if Slurm has taken the placement

    def line(self) -> str:
        """As scontrol reads it."""
        if self.do is not Do.UPDATE or self.pin is None:
            return f"{self.do.value} {self.key}"
        pin, n = self.pin, len(self.pin.nodes)
        even = f" TasksPerNode={pin.tasks // n}" if pin.tasks % n == 0 else ""
        return (
            f"update JobId={self.key} ReqNodeList={compress(sorted(pin.nodes))} NumNodes={n}-{n} "
            f"NumTasks={pin.tasks}{even} TresPerJob= TresPerTask= TresPerNode=gres:gpu:{pin.gpus_per_node} "
            f"StartTime=now AdminComment={pin.note}"
        )


@dataclass(frozen=True)
class Snapshot:
    """What Slurm said at one moment: after all orders up to a number had been carried out, or had been tried."""

    after: int
    jobs: Mapping[str, Record]
    nodes: Mapping[str, Node]
    complaints: Mapping[str, str] = field(default_factory=dict)  # by job
    trouble: str = ""  # why there is nothing new


class Hands:
    """Orders are carried out in batches, and after each batch, and every `poll_s` seconds, Slurm is looked at.

    Of a batch the stops go first and the releases last, since Slurm schedules after each release. `busy` looks again
    soon. Whoever waits for news watches `ready`, which becomes readable when there is a new snapshot.
    """

    def __init__(self, slurm: Slurm, poll_s: float, *, tied: bool = False) -> None:
        self._slurm = slurm
        self._poll_s = poll_s
        self._tied = tied  # look, and do nothing
        self._condition = threading.Condition()
        self._orders: list[Order] = []
        self._cancels: list[str] = []
        self._whys: dict[str, Why] = {}
        self._number = 0  # orders ever given
        self._busy = False
        self._looked = False
        self._closed = False
        self._latest: Snapshot | None = None
        self._memory: Memory = {}
        self._nodes: dict[str, Node] = {}
        self._nodes_at = 0.0  # when nodes are looked at again
        self._complaints: dict[str, str] = {}
        self.ready, self._waker = socket.socketpair()
        for end in (self.ready, self._waker):
            end.setblocking(False)
        self._thread = threading.Thread(target=self._work, name="slurm", daemon=True)
        self._thread.start()

    def give(self, orders: list[Order], cancels: list[str], busy: bool) -> int:
        """Take orders; returns a number that a snapshot's `after` reaches when they have been tried."""
        with self._condition:
            self._orders += orders
            self._cancels += cancels
            for key in (*cancels, *(order.key for order in orders)):  # a job that is to start has a note of its own
                self._whys.pop(key, None)
            self._number += len(orders) + len(cancels)
            self._busy = busy
            if orders or cancels:
                self._condition.notify()
            return self._number

    def tell(self, whys: list[Why]) -> None:
        """Words for users, to be passed on before the next look; an order about the job takes their place."""
        with self._condition:
            self._whys |= {why.key: why for why in whys}

    def take(self) -> Snapshot | None:
        """The newest snapshot, once."""
        with suppress(BlockingIOError):
            while self.ready.recv(4096):
                pass
        with self._condition:
            latest, self._latest = self._latest, None
        return latest

    def close(self) -> None:
        """End the thread; a command that is under way is waited for, since it is limited."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join()
        self.ready.close()
        self._waker.close()

    def _work(self) -> None:
        while True:
            with self._condition:
                if self._looked and not self._orders and not self._cancels and not self._closed:
                    self._condition.wait(_SOON_S if self._busy else self._poll_s)
                self._looked = True
                if self._closed:
                    return
                orders, self._orders = self._orders, []
                cancels, self._cancels = self._cancels, []
                whys, self._whys = self._whys, {}
                number = self._number
            began = time.monotonic()
            snapshot = self._look(number, orders, cancels, [why.line() for why in whys.values()])
            with self._condition:
                self._latest = snapshot
            with suppress(BlockingIOError):
                self._waker.send(b"!")
            if snapshot.trouble:
                time.sleep(max(0.0, min(1.0, began + 1.0 - time.monotonic())))  # not faster than it can answer

    def _look(self, number: int, orders: list[Order], cancels: list[str], whys: list[str]) -> Snapshot:
        try:
            if not self._tied:
                self._slurm.scontrol(whys)
                self._carry_out(orders, cancels)
            text = self._slurm.jobs()
            tells = '"COMPLETING"' in text or '"job_state": [' in text or '"job_state":[' in text
            records = read_jobs(text, None if tells else self._slurm.completing(), self._memory)
            if time.monotonic() >= self._nodes_at:
                self._nodes = {node.name: node for node in read_nodes(self._slurm.nodes())}
                self._nodes_at = time.monotonic() + _NODES_S
        except Unreachable as error:
            return Snapshot(number, {}, {}, trouble=str(error))
        jobs = {record.key: record for record in records}
        complaints, self._complaints = self._complaints, {}
        return Snapshot(number, jobs, self._nodes, complaints)

    def _carry_out(self, orders: list[Order], cancels: list[str]) -> None:
        if cancels:
            self._slurm.cancel(cancels)
        self._tell([order for order in orders if order.do in (Do.REQUEUE, Do.REVIVE, Do.HOLD)])
        updates = [order for order in orders if order.do is Do.UPDATE]
        self._tell(updates)
        releases = [order for order in orders if order.do is Do.RELEASE]
        waiting = {order.key: order.pin for order in updates if order.go and order.pin is not None}
        if waiting:
            for record in read_jobs(self._slurm.jobs(), memory=self._memory):
                pin = waiting.get(record.key)
                if pin is not None and record.pending and record.held and pin.holds(record):
                    releases.append(Order(Do.RELEASE, record.key))
        self._tell(releases)

    def _tell(self, batch: list[Order]) -> None:
        for line in self._slurm.scontrol([order.line() for order in batch]).splitlines():
            keys = set(_ABOUT.findall(line)) & {order.key for order in batch}
            for key in keys or ([batch[0].key] if len(batch) == 1 else []):
                self._complaints[key] = " ".join(line.split())
