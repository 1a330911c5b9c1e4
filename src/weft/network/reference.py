"""The sharing models, to be read: the compiled twin in maxmin_kernel.py does the same operations in the same order."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Sharer", "k_way", "max_min"]


@dataclass
class Sharer:
    """A transfer that is sending: n flows on each link, a demand, and those it may not overtake (already level)."""

    links: Mapping[int, int]
    demand: float = math.inf
    level_with: Sequence[Sharer] = ()
    stalled: bool = False  # level with something that has not started
    rate: float = field(default=-1.0, compare=False)


def max_min(
    sharers: Sequence[Sharer], capacity: Sequence[float], counts: Callable[[int], bool] = lambda _: True
) -> None:
    """Give every sharer its max-min fair rate per flow.

    Links wait in a queue by (share, id). The first one's share is computed anew; if it has grown the link goes back,
    otherwise it is the next bottleneck: the transfers on it that have no rate yet get its share. `counts(link)` is
    False for links that can never be a bottleneck.
    """
    free: dict[int, float] = {}
    flows: dict[int, int] = {}
    users: dict[int, list[Sharer]] = {}
    for s in sharers:
        s.rate = -1.0
        for link, n in s.links.items():
            if counts(link):
                free[link] = capacity[link]
                flows[link] = flows.get(link, 0) + n
                users.setdefault(link, []).append(s)
    followers: dict[int, list[Sharer]] = {}
    for s in sharers:
        for lead in s.level_with:
            followers.setdefault(id(lead), []).append(s)

    def fix(group: Iterable[Sharer], rate: float) -> None:
        lost: dict[int, int] = {}
        todo = list(group)
        while todo:
            s = todo.pop()
            if s.rate >= 0.0:
                continue
            s.rate = rate
            for link, n in s.links.items():
                if counts(link):
                    lost[link] = lost.get(link, 0) + n
            todo += followers.get(id(s), [])
        for link, n in lost.items():
            free[link] -= rate * n
            flows[link] -= n

    fix([s for s in sharers if s.stalled], 0.0)
    n_links = len(capacity)
    queue: list[tuple[float, int]] = [(capacity[k] / _total(users[k], k), k) for k in free]
    queue += [(s.demand, n_links + i) for i, s in enumerate(sharers) if s.demand < math.inf]
    heapq.heapify(queue)
    while queue:
        share, k = heapq.heappop(queue)
        if k >= n_links:
            fix([sharers[k - n_links]], share)
        elif flows[k] > 0:
            now = free[k] / flows[k]
            if now > share:
                heapq.heappush(queue, (now, k))
            else:
                fix(users[k], max(now, 0.0))


def _total(users: Sequence[Sharer], link: int) -> int:
    return sum(s.links[link] for s in users)


def k_way(k: int, b: float, eta: float) -> float:
    """Rate of a transfer on whose busiest server k transfers run: 1 / (k b + (k - 1) eta) (Ada-SRSF, Eq. 5)."""
    return 1.0 / (k * b + (k - 1) * eta)
