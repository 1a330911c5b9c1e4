"""The sharing models, to be read: the compiled twin in maxmin_kernel.py does the same operations in the same order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.network.state import UNLIMITED

__all__ = ["Sharer", "k_way", "max_min"]


@dataclass
class Sharer:
    """A transfer that is sending: n flows on each link, a demand, and those it may not overtake (already level)."""

    links: Mapping[int, int]
    demand: int = UNLIMITED
    level_with: Sequence[Sharer] = ()
    stalled: bool = False  # level with something that has not started
    rate: int = field(default=-1, compare=False)


def max_min(sharers: Sequence[Sharer], capacity: Sequence[int]) -> None:
    """Give every sharer its max-min fair rate per flow, in whole units.

    Links wait in a queue by (share, id). The first one's share is computed anew; if it has grown the link goes back,
    otherwise it is the next bottleneck: the transfers on it that have no rate yet get its share. Shares are rounded
    down, so nothing is ever handed out twice, and sums are exact.
    """
    free = dict(enumerate(capacity))
    flows = dict.fromkeys(free, 0)
    users: dict[int, list[Sharer]] = {k: [] for k in free}
    followers: dict[int, list[Sharer]] = {}
    for s in sharers:
        s.rate = -1
        for link, n in s.links.items():
            flows[link] += n
            users[link].append(s)
        for lead in s.level_with:
            followers.setdefault(id(lead), []).append(s)

    def fix(group: Iterable[Sharer], rate: int) -> None:
        todo = list(group)
        while todo:
            s = todo.pop()
            if s.rate >= 0:
                continue
            s.rate = rate
            for link, n in s.links.items():
                free[link] -= rate * n
                flows[link] -= n
            todo += followers.get(id(s), [])

    n_links = len(capacity)
    queue = [(s.demand, n_links + i) for i, s in enumerate(sharers) if s.demand < UNLIMITED]
    queue += [(free[k] // flows[k], k) for k in free if flows[k] > 0]
    fix([s for s in sharers if s.stalled], 0)
    heapq.heapify(queue)
    while queue:
        share, k = heapq.heappop(queue)
        if k >= n_links:
            fix([sharers[k - n_links]], share)
        elif flows[k] > 0:
            now = free[k] // flows[k]
            if now > share:
                heapq.heappush(queue, (now, k))
            else:
                fix(users[k], share)


def k_way(k: int, b: float, eta: float) -> float:
    """Rate of a transfer on whose busiest server k transfers run: 1 / (k b + (k - 1) eta) (Ada-SRSF, Eq. 5)."""
    return 1.0 / (k * b + (k - 1) * eta)
