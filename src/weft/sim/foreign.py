"""Traffic that is not ours: TCP flows between servers that share links fairly and that no scheduler of ours may move.

Some are given one by one (`Foreign`). `CrossTraffic` is what the flow scheduling paper injects in section VI-A: every
so often each server sends to another one, drawn anew, for a while; drawn by (seed, server, turn), so that they are the
same whatever our jobs do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.model.cluster import Cluster
from weft.pace.tcp import loss_limit
from weft.sim.spec import CrossTraffic, Foreign

__all__ = ["Others", "there_are_others"]

_KEEP = 4096  # turns of a server that are drawn at once


@dataclass(frozen=True)
class _Turn:
    path: tuple[int, ...]
    end_s: float


def there_are_others(foreign: Sequence[Foreign], cross: CrossTraffic | None) -> bool:
    """Whether anybody else sends."""
    return bool(foreign) or cross is not None


class Others:
    """All foreign flows of a run; flow k of them has the k-th row, and at most one path at a time."""

    def __init__(
        self,
        cluster: Cluster,
        foreign: Sequence[Foreign] = (),
        cross: CrossTraffic | None = None,
        seed: int = 0,
        packet_loss: float = 0.0,
    ) -> None:
        self.cluster, self.cross, self.seed = cluster, cross, seed
        number = {server.name: server.id for server in cluster.servers}
        self._given = [
            (f, cluster.topology.route(number[f.src], number[f.dst], k)) for k, f in enumerate(foreign)
        ]  # fmt: skip
        self._most = loss_limit("cubic", packet_loss)  # they are TCP flows, and lose as such
        self._turns: dict[tuple[int, int], _Turn] = {}

    def __len__(self) -> int:
        return len(self._given) + (len(self.cluster.servers) if self.cross is not None else 0)

    def at(self, now_s: float) -> Iterator[tuple[int, tuple[int, ...], float]]:
        """Those that send now: row, links, and the bytes per second they ask for."""
        for k, (flow, path) in enumerate(self._given):
            if flow.start_s <= now_s < flow.end_s:
                yield k, path, min(flow.bytes_per_s, self._most)
        if self.cross is None or len(self.cluster.servers) < 2:
            return
        turn = math.floor(now_s / self.cross.every_s)
        for server in range(len(self.cluster.servers)):
            drawn = self._turn(server, turn)
            if now_s < drawn.end_s:
                yield len(self._given) + server, drawn.path, min(self.cross.bytes_per_s, self._most)

    def _turn(self, server: int, turn: int) -> _Turn:
        """What a server sends in one turn: whereto, and until when."""
        if (server, turn) not in self._turns:
            assert self.cross is not None
            if len(self._turns) > _KEEP * len(self.cluster.servers):
                self._turns.clear()
            draw = np.random.Generator(np.random.Philox(key=[self.seed, server], counter=turn))
            other = int(draw.integers(len(self.cluster.servers) - 1))
            other += other >= server
            seconds = draw.uniform(self.cross.shortest_s, self.cross.longest_s)
            path = self.cluster.topology.route(server, other, turn)
            self._turns[server, turn] = _Turn(path, turn * self.cross.every_s + seconds)
        return self._turns[server, turn]
