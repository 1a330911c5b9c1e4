"""Random streams, one per purpose, that give the same draws on every machine and with every numpy.

Only the raw output of the Philox bit generator is used: numpy promises that to stay, but not what its distributions
make of it. The transforms here are plain IEEE arithmetic, or (logarithms) are rounded by the caller, which hides the
last bit in which mathematical libraries differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Floats = NDArray[np.float64]


class Stream:
    """Draws for one purpose of one seed: adding a purpose, or drawing more in another, does not change these."""

    def __init__(self, seed: int, purpose: str) -> None:
        digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=16).digest()
        self._bits = np.random.Philox(key=int.from_bytes(digest, "little"))

    def uniform(self, n: int) -> Floats:
        """Numbers in [0, 1), multiples of 2^-53."""
        return np.asarray((self._bits.random_raw(n) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    def exponential(self, n: int, mean: float) -> Floats:
        """Waiting times with this mean."""
        return -mean * np.log1p(-self.uniform(n))

    def normal(self, n: int) -> Floats:
        """Standard normal numbers."""
        inverse = NormalDist().inv_cdf
        return np.array([inverse(u + 2.0**-54) for u in self.uniform(n).tolist()], dtype=np.float64)

    def integers(self, n: int, low: int, high: int) -> list[int]:
        """Whole numbers in [low, high], each as likely."""
        return [min(high, low + int(u * (high - low + 1))) for u in self.uniform(n).tolist()]

    def choices(self, n: int, values: Sequence[T], weights: Sequence[float] | None = None) -> list[T]:
        """Values drawn with repetition, by weight."""
        bounds = np.cumsum(np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64))
        where = np.searchsorted(bounds, self.uniform(n) * bounds[-1], side="right")
        return [values[min(int(i), len(values) - 1)] for i in where]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """The values in random order."""
        keys = self.uniform(len(values))
        return [values[i] for i in np.argsort(keys, kind="stable")]
