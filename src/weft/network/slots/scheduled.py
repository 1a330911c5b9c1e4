"""Sharing "scheduled", to be read: what scheduled_kernel.py does, in the same order of operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["fair_rates", "link_demand", "reach"]

TIGHT = 1.0 + 1e-9


def link_demand(paths: Sequence[Sequence[int]], ask: Sequence[float], links: int) -> list[float]:
    """Load of every link if all flows got what they ask for."""
    load = [0.0] * links
    for path, rate in zip(paths, ask, strict=True):
        for link in path:
            load[link] += rate
    return load


def fair_rates(paths: Sequence[Sequence[int]], ask: Sequence[float], capacity: Sequence[float]) -> list[float]:
    """Max-min rates: no flow gets more than it asks for, and none can have more without a smaller one having less.

    Flows that ask for no more than the smallest share on their path get it first. If there is none, each link whose
    share is the smallest of every flow on it settles those flows.
    """
    room, got = list(capacity), [0.0] * len(paths)
    open_ = list(range(len(paths)))
    while open_:
        count = [0] * len(capacity)
        for i in open_:
            for link in paths[i]:
                count[link] += 1
        share = [max(r, 0.0) / c if c else math.inf for r, c in zip(room, count, strict=True)]
        least = {i: min((share[link] for link in paths[i]), default=math.inf) for i in open_}
        settled = {i: ask[i] for i in open_ if ask[i] <= least[i]}
        if not settled:
            loose = {link for i in open_ for link in paths[i] if share[link] > least[i]}
            settled = {
                i: least[i] for i in open_ if any(k not in loose and share[k] == least[i] for k in paths[i])
            }  # fmt: skip
        for i, rate in settled.items():
            got[i] = rate
            for link in paths[i]:
                room[link] -= rate
        open_ = [i for i in open_ if i not in settled]
    return got


def reach(
    feed: Sequence[tuple[int, int]],
    chunk: Sequence[float],
    size: Sequence[float],
    sent: Sequence[float],
    end: Sequence[float],
    start_after: bool = False,
) -> list[float]:
    """What each flow of a job has sent by the end of a slot: `end`, unless those that feed it allow less.

    With `start_after` a flow without a first chunk waits until all that feed it are complete, and one with a chunk
    (a ring) sends chunk by chunk, each when the one before it has come in whole.
    """
    end = list(end)
    for _ in range(2):
        for i, (low, high) in enumerate(feed):
            if low == high:
                continue
            least = min(end[low:high])
            complete = all(end[j] >= size[j] for j in range(low, high))
            if start_after and chunk[i] == 0.0:
                least = size[i] if complete else 0.0
            elif start_after:
                least = size[i] if complete else math.floor(least / chunk[i] * TIGHT) * chunk[i]
            end[i] = max(min(end[i], least + chunk[i]), sent[i])
    return end
