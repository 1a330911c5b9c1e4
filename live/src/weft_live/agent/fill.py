"""Limits as rates: turns the weights and levels of a rate rule into rates, all that a real sender can be given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.policies.pace.rates import Limits


def fill(
    paths: npt.NDArray[np.int32], capacity: npt.NDArray[np.float64], limits: Limits, rows: npt.NDArray[np.int64]
) -> list[float | None]:
    """Bytes per second of each flow (a path is a row of links, then -1): weighted max-min, level by level, under caps.

    None is no limit. A flow has none if it meets only flows of later levels, or equals with which TCP shares a link by
    itself.
    """
    n = len(paths)
    caps = limits.caps[rows]
    weights = limits.weights[rows].astype(float) if limits.weights is not None else np.ones(n)
    levels = limits.levels[rows] if limits.levels is not None else np.zeros(n, np.int64)
    links = [[int(k) for k in path if k >= 0] for path in paths]
    rest, rate = capacity.copy(), np.zeros(n)
    for level in np.unique(levels):
        open_rows = [i for i in range(n) if levels[i] == level]
        while open_rows:
            step = min((caps[i] - rate[i]) / weights[i] for i in open_rows)
            load: dict[int, float] = {}
            for i in open_rows:
                for k in links[i]:
                    load[k] = load.get(k, 0.0) + weights[i]
            step = max(min([step, *(rest[k] / w for k, w in load.items())]), 0.0)
            if not math.isfinite(step):
                break
            for i in open_rows:
                rate[i] += step * weights[i]
                for k in links[i]:
                    rest[k] -= step * weights[i]
            full = {k for k in load if rest[k] <= 1e-9 * capacity[k]}
            open_rows = [i for i in open_rows if rate[i] < caps[i] * (1 - 1e-12) and not full & set(links[i])]
    return [None if _free(i, links, levels, weights, caps) else float(rate[i]) for i in range(n)]


def _free(i: int, links: list[list[int]], levels: Any, weights: Any, caps: Any) -> bool:
    """Whether TCP may share a flow's links out by itself: it has no cap, and meets nobody above it or unlike it."""
    for j in range(len(links)):
        if j != i and set(links[i]) & set(links[j]) and levels[j] <= levels[i]:
            alike = levels[j] == levels[i] and weights[j] == weights[i] and math.isinf(caps[j])
            if not alike:
                return False
    return math.isinf(caps[i])
