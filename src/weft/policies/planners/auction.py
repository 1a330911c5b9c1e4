"""Themis' auction: bids for sets of GPUs, the allocation with the largest product of valuations, and payments.

It is the partial allocation mechanism (section 5 of its paper; after Cole, Gkatzelis and Goel 2013). The allocation
that maximises the product of the bidders' valuations is found; no GPU goes to two of them. Each winner then gives up
the part that pays for what it takes from the others: it keeps the fraction c of its share, where c is the product of
the others' valuations divided by what that product would be without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np


@dataclass(frozen=True, slots=True)
class Bid:
    """What somebody values these GPUs at (more than 0). Every bidder also has a bid for none."""

    gpus: frozenset[int]
    value: float


Bids = Mapping[str, Sequence[Bid]]
Best = Callable[[str, int, frozenset[int]], Bid]  # a bidder's best bid for that many GPUs, without using these

_STEPS = 20_000  # bids tried in an auction before the best allocations so far are taken
_FEWER = 1e-9  # bonus for using one GPU less, as a logarithm: small enough to decide only between equal products


@dataclass(frozen=True, slots=True)
class _Row:
    bid: Bid
    score: float  # logarithm of the value
    n: int
    mask: int  # its GPUs as a set of bits

    @classmethod
    def of(cls, bid: Bid) -> Self:
        mask = sum(1 << gpu for gpu in bid.gpus)
        return cls(bid, math.log(bid.value) - _FEWER * len(bid.gpus), len(bid.gpus), mask)


def proportional_fair(bids: Bids, gpus: int, best: Best | None = None, steps: int = _STEPS) -> dict[str, Bid]:
    """The bid of each bidder at which the product of valuations is largest; among equals with the fewest GPUs.

    `gpus` is how many are offered. This is a search in depth, bidder by bidder, the most promising bid first. What the
    remaining bidders can add is bounded by what they could add if all GPUs were alike. With `best` the search starts
    from the allocation in which every bidder gets as many GPUs as that bound gives it, chosen in turn, so that the
    result is good even if the search is cut short.
    """
    rows = [[_Row.of(bid) for bid in table] for table in bids.values()]
    reach = _reachable(rows, gpus)
    chosen = [] if best is None else _in_turn(list(bids), rows, reach, gpus, best)
    most = math.fsum(row.score for row in chosen) if chosen else -math.inf
    picks: list[_Row] = []
    frames = [_Frame(rows[0], reach[1], 0.0, gpus, 0)]
    while frames:
        bound, row = frames[-1].next()
        if row is None or bound <= most + 1e-12 or (chosen and steps <= 0):
            frames.pop()
            if picks:
                picks.pop()
            continue
        steps -= 1
        picks.append(row)
        if len(picks) == len(rows):
            most, chosen = bound, list(picks)
            picks.pop()
        else:
            frames.append(frames[-1].after(row, rows[len(picks)], reach[len(picks) + 1]))
    return {name: row.bid for name, row in zip(bids, chosen, strict=True)}


class _Frame:
    """What one bidder may still bid, with what that can lead to at most, the most promising first."""

    def __init__(self, rows: Sequence[_Row], after: np.ndarray, so_far: float, left: int, taken: int) -> None:
        self.so_far, self.left, self.taken = so_far, left, taken
        possible = [row for row in rows if row.n <= left and not row.mask & taken]
        bounds = [(so_far + row.score + float(after[left - row.n]), row) for row in possible]
        self._bounds = iter(sorted(bounds, key=lambda entry: -entry[0]))

    def next(self) -> tuple[float, _Row | None]:
        return next(self._bounds, (-math.inf, None))

    def after(self, row: _Row, rows: Sequence[_Row], reach: np.ndarray) -> _Frame:
        """The next bidder's, when this row is taken."""
        return _Frame(rows, reach, self.so_far + row.score, self.left - row.n, self.taken | row.mask)


def _reachable(rows: Sequence[Sequence[_Row]], gpus: int) -> list[np.ndarray]:
    """By bidder and number of GPUs: the most that this bidder and those after it can add, whichever GPUs they get."""
    found = [np.zeros(gpus + 1)]
    for table in reversed(rows):
        total = np.full(gpus + 1, -np.inf)
        best: dict[int, float] = {}
        for row in table:
            best[row.n] = max(best.get(row.n, -math.inf), row.score)
        for n, score in best.items():
            total[n:] = np.maximum(total[n:], found[-1][: gpus + 1 - n] + score)
        found.append(total)
    return found[::-1]


def _in_turn(
    names: Sequence[str], rows: Sequence[Sequence[_Row]], reach: Sequence[np.ndarray], gpus: int, best: Best
) -> list[_Row]:
    found: list[_Row] = []
    taken = frozenset[int]()
    for i, name in enumerate(names):
        left = gpus - len(taken)
        possible = [row for row in rows[i] if row.n <= left]
        wanted = max(possible, key=lambda row: row.score + float(reach[i + 1][left - row.n]))
        found.append(_Row.of(best(name, wanted.n, taken) if wanted.n else wanted.bid))
        taken |= found[-1].bid.gpus
    return found


def payment(
    bids: Bids, gpus: int, won: Mapping[str, Bid], bidder: str, best: Best | None = None, steps: int = _STEPS
) -> float:
    """The part c of its share that a bidder keeps."""
    others = {name: table for name, table in bids.items() if name != bidder}
    if not others:
        return 1.0
    without = proportional_fair(others, gpus, best, steps)
    lost = math.fsum(math.log(won[name].value) - math.log(without[name].value) for name in others)
    return math.exp(min(0.0, lost))


def auction(bids: Bids, gpus: int, best: Best | None = None) -> dict[str, tuple[Bid, float]]:
    """The bids that win, and the part of them that is left after payments."""
    if not bids:
        return {}
    steps = _STEPS // len(bids)
    won = proportional_fair(bids, gpus, best, steps)
    return {name: (bid, payment(bids, gpus, won, name, best, steps) if bid.gpus else 0.0) for name, bid in won.items()}
