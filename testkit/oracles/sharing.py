"""The sharing models, to be read: the compiled twin in maxmin_kernel.py does the same operations in the same order."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.sim.compiled.state import UNLIMITED


@dataclass
class Sharer:
    """A transfer that is sending: n flows on each link, what it may have at most, the weight of its flows, its level,
    and those that it may not overtake (and is as far as)."""

    links: Mapping[int, int]
    demand: int = UNLIMITED
    claim: int = 1
    level: int = 0
    level_with: Sequence[Sharer] = ()
    stalled: bool = False  # level with something that has not started
    rate: int = field(default=-1, compare=False)


def max_min(sharers: Sequence[Sharer], capacity: Sequence[int]) -> None:
    """Give every sharer its weighted max-min fair rate per flow, in whole units: level by level, 0 first, each on what
    those before it have left."""
    free = dict(enumerate(capacity))
    for s in sharers:
        s.rate = -1
    for level in sorted({s.level for s in sharers}):
        _fill([s for s in sharers if s.level == level], free)


def _fill(sharers: Sequence[Sharer], free: dict[int, int]) -> None:
    """One level.

    Links wait in a queue by (share, id). The first one's share is computed anew; if it has grown the link goes back,
    otherwise it is the next bottleneck: the transfers on it that have no rate yet get its share times their weight. A
    link that can give all of these what they ask for limits none of them. Shares are rounded down, so nothing is ever
    handed out twice, and sums are exact.
    """
    weight = dict.fromkeys(free, 0)
    users: dict[int, list[Sharer]] = {k: [] for k in free}
    followers: dict[int, list[Sharer]] = {}
    for s in sharers:
        for link, n in s.links.items():
            weight[link] += n * s.claim
            users[link].append(s)
        for lead in s.level_with:
            followers.setdefault(id(lead), []).append(s)

    def fix(first: Sharer, rate: int) -> None:
        todo = [first]
        while todo:
            s = todo.pop()
            if s.rate >= 0:
                continue
            s.rate = rate
            for link, n in s.links.items():
                free[link] -= rate * n
                weight[link] -= n * s.claim
            todo += followers.get(id(s), [])

    n_links = len(free)
    for s in sharers:
        if s.stalled or s.demand == 0:
            fix(s, 0)
    queue = [(s.demand // s.claim, n_links + i) for i, s in enumerate(sharers) if s.demand < UNLIMITED]
    queue += [(free[k] // weight[k], k) for k in free if weight[k] > 0]
    heapq.heapify(queue)
    while queue:
        share, k = heapq.heappop(queue)
        if k >= n_links:
            fix(sharers[k - n_links], sharers[k - n_links].demand)
        elif weight[k] > 0:
            now = free[k] // weight[k]
            waiting = [s for s in users[k] if s.rate < 0]
            if now > share:
                heapq.heappush(queue, (now, k))
            elif sum(s.demand * s.links[k] for s in waiting) > free[k]:
                for s in waiting:
                    fix(s, share * s.claim)


def k_way(k: int, b: float, eta: float) -> float:
    """Rate of a transfer on whose busiest server k transfers run: 1 / (k b + (k - 1) eta) (Ada-SRSF, Eq. 5)."""
    return 1.0 / (k * b + (k - 1) * eta)
