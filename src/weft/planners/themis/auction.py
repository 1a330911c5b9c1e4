"""Partial allocation: the auction of Themis (Mahajan et al. 2020, section 5; after Cole, Gkatzelis and Goel 2013).

Each bidder values numbers of GPUs. The allocation that maximises the product of valuations is found; then each winner
gives up the part that pays for what it takes from the others: it keeps c of its share, c being the product of the
others' valuations over what that would be without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["auction", "payment", "proportional_fair"]

Bids = Mapping[str, Mapping[int, float]]  # bidder -> GPUs -> valuation (more than 0, with an entry for 0 GPUs)


def proportional_fair(bids: Bids, gpus: int) -> dict[str, int]:
    """GPUs of each bidder at which the product of valuations is largest; among equals the fewest GPUs."""
    names = list(bids)
    best = np.zeros(gpus + 1)
    choices: list[np.ndarray] = []
    for name in names:
        values = sorted((n, math.log(v)) for n, v in bids[name].items() if n <= gpus)
        total = np.full(gpus + 1, -np.inf)
        choice = np.zeros(gpus + 1, np.int64)
        for n, value in values:
            reached = np.full(gpus + 1, -np.inf)
            reached[n:] = best[: gpus + 1 - n] + value
            better = reached > total + 1e-12
            total[better], choice[better] = reached[better], n
        best = total
        choices.append(choice)
    found: dict[str, int] = {}
    left = int(np.argmax(best > best.max() - 1e-12))  # the fewest GPUs that reach it
    for name, choice in zip(reversed(names), reversed(choices), strict=True):
        found[name] = int(choice[left])
        left -= found[name]
    return {name: found[name] for name in names}


def payment(bids: Bids, gpus: int, shares: Mapping[str, int], bidder: str) -> float:
    """The part c of its share that a bidder keeps."""
    others = {name: values for name, values in bids.items() if name != bidder}
    if not others:
        return 1.0
    without = proportional_fair(others, gpus)
    with_it = math.fsum(math.log(others[name][shares[name]]) for name in others)
    alone = math.fsum(math.log(others[name][without[name]]) for name in others)
    return math.exp(min(0.0, with_it - alone))


def auction(bids: Bids, gpus: int, sizes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Winning shares after payments, rounded down to a size that the bidder can use (no winner loses everything)."""
    shares = proportional_fair(bids, gpus)
    kept: dict[str, int] = {}
    for name, share in shares.items():
        if share == 0:
            kept[name] = 0
            continue
        part = payment(bids, gpus, shares, name) * share
        kept[name] = max((n for n in sizes[name] if n <= part + 1e-9), default=min(sizes[name]))
    return kept
