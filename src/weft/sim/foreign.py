"""Foreign traffic: TCP flows between servers that no scheduler may move.

Some are given one by one (`Foreign`). `CrossTraffic` is what the flow scheduling paper injects in section VI-A: in
every round each server sends to another one for a while. The receiver is drawn by (seed, server, round), so that the
traffic is the same whatever our jobs do. In the engine each flow is a job of its own, with one transfer. Beside senders
that slow down for loss it gets its fair share of a link; beside senders that do not, it gets what they leave, as if it
were on a lower level.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.policies.pace.rates import MOST_RANK, Transport
from weft.policies.pace.tcp import loss_limit
from weft.sim.compiled.state import FOREIGN
from weft.sim.engine import Engine
from weft.sim.engine.program import LinkUnits, make_program, transfer_node
from weft.sim.spec import NetworkSpec

_LONG_S = 1000.0  # a flow without an end sends this many seconds' worth of line rate again and again
_FOR_EVER = 1 << 40  # iterations


def there_are_others(network: NetworkSpec) -> bool:
    """Whether anybody else sends."""
    return bool(network.foreign) or network.cross_traffic is not None


def refuse_without_links(network: NetworkSpec, pace: str, opened: bool) -> None:
    """Refuse, with the reason, what needs single flows on a network that has none."""
    known = network.sharing == "max-min" and network.cost is None
    what = f'network.sharing "{network.sharing}"' if network.cost is None else f'network.cost "{network.cost.name}"'
    if opened and not known:
        raise StackError(f"pace {pace} needs single flows on links, and {what} has none; leave one of them out")
    if there_are_others(network) and not known:
        raise StackError(f"foreign traffic goes over links, and {what} has none; leave one of them out")
    if network.packet_loss > 0.0 and network.cost is not None:
        raise StackError(f"network.packet_loss is a property of links, and {what} has none; leave one of them out")


def refuse_unequal(network: NetworkSpec, pace: str, ruled: bool, jobs: Iterable[Job]) -> None:
    """Refuse, with the reason, weights and caps of jobs where something else says what a flow may have."""
    for job in jobs:
        weighs, capped = job.profile.link_weight != 1, job.profile.nic_bytes_per_s is not None
        if not (weighs or capped):
            continue
        by = f'network.sharing "{network.sharing}"' if network.cost is None else f'network.cost "{network.cost.name}"'
        if ruled:
            by = f"pace {pace}, which sets the rates of single flows,"
        elif network.cost is None and (network.sharing == "max-min" or (network.sharing == "ideal" and not weighs)):
            continue
        what = "link_weight" if weighs else "max_rate_gbps"
        raise StackError(f"job {job.id}: {by} does not carry out its {what}; leave one of them out")


@dataclass(frozen=True, order=True)
class _Change:
    """A flow starts or ends; at one moment ends come before starts."""

    when_s: float
    starts: bool
    k: int
    path: tuple[int, ...] = ()
    end_s: float = math.inf
    bytes_per_s: float = math.inf


class Others:
    """All foreign flows of a run; flow k of them has at most one path at a time. `bytes` is what each has delivered."""

    def __init__(self, cluster: Cluster, network: NetworkSpec, seed: int, beside: Transport) -> None:
        self.cluster, self.cross, self.seed = cluster, network.cross_traffic, seed
        self._level, self._claim = 0 if beside.reacts else MOST_RANK + 1, beside.foreign_weight  # below all of ours
        self._loss = network.packet_loss
        self._most = loss_limit("cubic", network.packet_loss)  # they are TCP flows, and lose as such
        self._job_rows: dict[int, int] = {}
        number = {server.name: server.id for server in cluster.servers}
        self._changes = [
            _Change(f.start_s, True, k, cluster.route(number[f.src], number[f.dst], k), f.end_s, f.bytes_per_s)
            for k, f in enumerate(network.foreign)
        ]
        self._given = len(self._changes)
        heapq.heapify(self._changes)
        self._turn = 0
        servers = len(cluster.servers) if self.cross is not None and len(cluster.servers) > 1 else 0
        self.bytes = np.zeros(self._given + servers)

    @property
    def next_s(self) -> float:
        """When a flow starts or ends next."""
        turn_s = self._turn * self.cross.every_s if self.cross is not None else math.inf
        return min(turn_s, self._changes[0].when_s if self._changes else math.inf)

    def change(self, engine: Engine) -> None:
        """Start and end the flows whose time has come."""
        now = engine.now
        if self.cross is not None and self._turn * self.cross.every_s <= now:
            for server in range(len(self.bytes) - self._given):
                heapq.heappush(self._changes, self.drawn(server, self._turn))
            self._turn += 1
        while self._changes and self._changes[0].when_s <= now:
            change = heapq.heappop(self._changes)
            self._end(engine, change.k)
            if change.starts:
                self._start(engine, change)

    def end_all(self, engine: Engine) -> None:
        """Stop them, at the end of a run."""
        for k in list(self._job_rows):
            self._end(engine, k)

    def so_far(self, engine: Engine) -> float:
        """Bytes that all of them have delivered by now."""
        running = sum(engine.sent_bytes(row) for row in self._job_rows.values())
        return float(self.bytes.sum()) + running * (1.0 - self._loss)

    def _start(self, engine: Engine, flow: _Change) -> None:
        line = min(float(engine.spec.capacity[link]) for link in flow.path)
        lasts = flow.end_s - flow.when_s
        endless = lasts > _LONG_S
        size = line * (_LONG_S if endless else 1.01 * lasts)  # more than it can send
        node = transfer_node(
            0, size, [(link, engine.spec.finest) for link in flow.path], demand=min(flow.bytes_per_s, self._most),
            claim=self._claim, level=self._level,
        )  # fmt: skip
        units = LinkUnits.of(engine.spec.capacity, engine.spec.finest)
        program = make_program([node], engine.spec.capacity, link_units=units)
        self._job_rows[flow.k] = engine.attach(FOREIGN + flow.k, program, _FOR_EVER if endless else 1)
        if flow.end_s < math.inf:
            heapq.heappush(self._changes, _Change(flow.end_s, False, flow.k))

    def _end(self, engine: Engine, k: int) -> None:
        row = self._job_rows.pop(k, None)
        if row is not None:
            self.bytes[k] += engine.sent_bytes(row) * (1.0 - self._loss)
            engine.detach(row)

    def drawn(self, server: int, round_: int) -> _Change:
        """Where a server sends in one round, and until when (at most until the next round)."""
        assert self.cross is not None
        draw = np.random.Generator(np.random.Philox(key=[self.seed, server], counter=round_))
        other = int(draw.integers(len(self.cluster.servers) - 1))
        other += other >= server
        start = round_ * self.cross.every_s
        end = start + draw.uniform(self.cross.shortest_s, self.cross.longest_s)
        path = self.cluster.route(server, other, round_)
        end = min(end, (round_ + 1) * self.cross.every_s)  # exactly when the next round begins, to the last bit
        return _Change(start, True, self._given + server, path, end, self.cross.bytes_per_s)
