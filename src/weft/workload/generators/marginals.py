"""Stand-ins for traces that are published but not at hand: drawn from their published summaries, labelled synthetic.

Acme (NSDI '24). Its summary gives, over GPU jobs, the median and mean duration, the median (1), mean and maximum
(1,024) number of GPUs, and the total GPU time. We take sizes 2^k: half the jobs have one GPU (the least the median
allows), the rest fall off geometrically with the ratio that gives the mean; and durations m g^c exp(s z), log-normal
given the size g, with m, c, s such that median, mean and mean GPU time are the published ones. So large jobs are
longer, as they are there; everything else about them is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.workload.streams import Stream

__all__ = ["MARGINALS", "Marginal"]

LARGEST = 10  # 2^10 = 1,024 GPUs


@dataclass(frozen=True)
class Marginal:
    """Published figures of a trace and the parameters fitted to them."""

    title: str
    jobs: int  # GPU jobs, its weight in a mixture
    median_s: float
    mean_s: float
    mean_gpus: float
    mean_gpu_s: float
    ratio: float  # of the share of 2^(k+1) GPUs to that of 2^k
    base_s: float
    exponent: float
    sigma: float

    @property
    def sizes(self) -> dict[int, float]:
        """Share of each number of GPUs."""
        tail = [self.ratio**k for k in range(1, LARGEST + 1)]
        return {1: 0.5} | {2**k: 0.5 * w / math.fsum(tail) for k, w in enumerate(tail, 1)}

    def durations_s(self, sizes: Sequence[int], stream: Stream) -> list[float]:
        """Seconds of jobs with these numbers of GPUs."""
        drawn = zip(sizes, stream.normal(len(sizes)).tolist(), strict=True)
        return [self.base_s * gpus**self.exponent * math.exp(self.sigma * z) for gpus, z in drawn]


MARGINALS = {
    "acme-seren": Marginal(
        "Acme Seren", 663_813, 122.0, 1414.335, 5.68, 32_404.6,
        ratio=0.50488, base_s=92.572, exponent=0.40222, sigma=2.16483,
    ),
    "acme-kalos": Marginal(
        "Acme Kalos", 19_907, 124.0, 1259.689, 26.77, 267_904.8,
        ratio=0.72938, base_s=70.121, exponent=0.54425, sigma=1.84697,
    ),
}  # fmt: skip
