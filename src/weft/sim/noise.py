"""How much jitter and stragglers stretch an iteration on average, as profiling a few iterations would show."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_ITERATIONS = 4096


@lru_cache(maxsize=1024)
def slowest_worker(workers: int, jitter: float, stragglers: float, straggler_factor: float) -> tuple[float, float]:
    """Mean and standard deviation of the factor on compute time of an ordinary iteration: of its slowest worker.

    Ordinary: the middle nine tenths, and the deviation as half of what 68 % lie within, so that a rare straggler counts
    as what it is and not as jitter.

    From draws of the same distribution as the engine's (random_kernel.py), but other ones: the iterations that are
    profiled are not those that will be run.
    """
    bits = np.random.Philox(key=workers).random_raw(_ITERATIONS * workers * 5)
    draws = ((bits >> np.uint64(11)) * 2.0**-53).reshape(_ITERATIONS, workers, 5)
    factor = np.maximum(1.0 + jitter * (draws[..., :4].sum(axis=2) - 2.0) * 1.7320508075688772, 0.05)
    factor = np.where(draws[..., 4] < stragglers, factor * straggler_factor, factor).max(axis=1)
    low, below, above, high = np.quantile(factor, (0.05, 0.16, 0.84, 0.95))
    return float(factor[(factor >= low) & (factor <= high)].mean()), float(above - below) / 2.0
