"""Servers that are lost for a while: at given times, or at random when one of their GPUs, or what belongs to it, fails.

Each server fails as a Poisson process with a rate in proportion to its GPUs, so all of them together do so with the sum
of the rates, and a failure hits each server in proportion to its GPUs. The times depend on the seed and the cluster
alone, so that every stack meets the same failures."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.model.cluster import Cluster
from weft.workload.streams import Stream

HOUR_S = 3600.0
_AT_ONCE = 64


@dataclass(frozen=True)
class FailureSpec:
    """How often GPUs fail, and how long their server is away then."""

    per_gpu_hour: float
    repair_s: float = 0.0


# Published rates of interruptions of jobs.
FAILURES = {
    # Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 H100 (Grattafiori et al. 2024, section 3.3.4).
    "llama-3": FailureSpec(419 / (54 * 24 * 16_384)),
    # Meta's research clusters with 8 A100 each: 6.50 and 2.34 failures per 1,000 node days (Kokolis et al., HPCA 2025).
    "rsc-1": FailureSpec(6.50 / (1000 * 24 * 8)),
    "rsc-2": FailureSpec(2.34 / (1000 * 24 * 8)),
}


class Losses:
    """Which servers are lost and come back, in the order of time."""

    def __init__(
        self, cluster: Cluster, outages: Sequence[tuple[str, float, float]], spec: FailureSpec | None, seed: int
    ) -> None:
        place = {server.name: i for i, server in enumerate(cluster.servers)}
        self._known: list[tuple[float, int, bool]] = []  # when, server, whether it is lost then
        for name, at_s, for_s in outages:
            self._known += [(at_s, place[name], True), (at_s + for_s, place[name], False)]
        heapq.heapify(self._known)
        self._away = Counter[int]()
        self._drawn = None if spec is None else _Draws(spec, cluster, seed)

    @property
    def known_s(self) -> float:
        """When the next server is lost or comes back by what is known already."""
        return self._known[0][0] if self._known else math.inf

    @property
    def next_s(self) -> float:
        """The same with the next failure, after which there is always another."""
        return self.known_s if self._drawn is None else min(self.known_s, self._drawn.next_s)

    def due(self, now: float) -> Iterator[tuple[int, bool]]:
        """Servers, and whether they are lost now or come back. One that is away cannot fail."""
        while self.next_s <= now:
            if self.known_s <= self.next_s:
                _, server, lost = heapq.heappop(self._known)
            elif self._drawn is not None:
                at_s, server = self._drawn.next_s, self._drawn.server
                self._drawn.advance()
                if self._away[server]:
                    continue
                lost = True
                heapq.heappush(self._known, (at_s + self._drawn.spec.repair_s, server, False))
            self._away[server] += 1 if lost else -1
            yield server, lost


class _Draws:
    """When the next server fails, and which."""

    def __init__(self, spec: FailureSpec, cluster: Cluster, seed: int) -> None:
        self.spec = spec
        self._bounds = np.cumsum([len(server.gpus) for server in cluster.servers], dtype=np.float64)
        self._mean_s = HOUR_S / (spec.per_gpu_hour * self._bounds[-1])
        self._gaps, self._where = Stream(seed, "failures"), Stream(seed, "failing servers")
        self._drawn: list[tuple[float, int]] = []
        self.next_s, self.server = 0.0, 0
        self.advance()

    def advance(self) -> None:
        """Go on to the next failure."""
        if not self._drawn:
            gaps = np.rint(self._gaps.exponential(_AT_ONCE, self._mean_s) * 1e6) / 1e6
            servers = np.searchsorted(self._bounds, self._where.uniform(_AT_ONCE) * self._bounds[-1], side="right")
            self._drawn = list(zip(gaps.tolist(), servers.tolist(), strict=True))[::-1]
        gap_s, self.server = self._drawn.pop()
        self.next_s += gap_s
