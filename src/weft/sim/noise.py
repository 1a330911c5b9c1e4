"""How jitter and stragglers stretch an iteration on average, as profiling a few iterations would show it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from weft.compiled import load

__all__ = ["slowest_worker"]

_ITERATIONS = 256
_PROFILING = 1 << 40  # a seed of its own: the iterations that are profiled are not those that will be run


@lru_cache(maxsize=1024)
def slowest_worker(workers: int, jitter: float, stragglers: float, straggler_factor: float) -> tuple[float, float]:
    """Mean and standard deviation of the factor on compute time: that of the slowest of so many workers."""
    factor = load("weft.sim.random_kernel").slow_factor
    drawn = [
        max(factor(_PROFILING, 0, i, w, jitter, stragglers, straggler_factor) for w in range(workers))
        for i in range(_ITERATIONS)
    ]
    return float(np.mean(drawn)), float(np.std(drawn))
