"""Arrival processes: when jobs are submitted, in whole microseconds so that every machine gets the same times."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError
from weft.workload.streams import Stream

__all__ = ["Bursts", "bursty", "dynamic", "mean_gap_s", "poisson", "uniform_seconds"]

US = 1e6


@dataclass(frozen=True, slots=True)
class Bursts:
    """A two-state Markov-modulated Poisson process: calm, and bursts in which jobs arrive `factor` times as fast.

    A share of `share` of all time is spent in bursts, which last `length_s` on average (exponential); calm stretches
    then last length_s (1 - share) / share.
    """

    share: float = 0.1
    factor: float = 10.0
    length_s: float = 600.0

    def rates(self, mean_gap_s: float) -> tuple[float, float]:
        """Arrivals per second (calm, in a burst) with 1 / mean_gap_s on average."""
        calm = 1.0 / (mean_gap_s * (1.0 - self.share + self.share * self.factor))
        return calm, calm * self.factor

    def dispersion(self, mean_gap_s: float) -> float:
        """Variance over mean of the number of arrivals in a long window (a Poisson process has 1).

        For rates l1, l2 and switching rates r1 (out of state 1), r2:
        1 + 2 (l1 - l2)^2 r1 r2 / ((r1 + r2)^2 (l1 r2 + l2 r1))  (Fischer and Meier-Hellstern 1993).
        """
        calm, burst = self.rates(mean_gap_s)
        out_of_burst = 1.0 / self.length_s
        out_of_calm = out_of_burst * self.share / (1.0 - self.share)
        total = out_of_calm + out_of_burst
        spread = (calm - burst) ** 2 * out_of_calm * out_of_burst
        return 1.0 + 2.0 * spread / (total**2 * (calm * out_of_burst + burst * out_of_calm))


def mean_gap_s(gpu_seconds: list[float], load: float, n_gpus: int) -> float:
    """Mean time between arrivals at which jobs of this much work keep a fraction `load` of the GPUs busy.

    mean gap = E[GPUs x duration alone] / (load x GPUs of the cluster), over the jobs actually drawn.
    """
    if not gpu_seconds:
        raise InputError("workload: no jobs; a load needs at least one")
    return math.fsum(gpu_seconds) / len(gpu_seconds) / (load * n_gpus)


def poisson(n: int, gap_s: float, stream: Stream) -> list[float]:
    """Arrival times of a Poisson process with this mean gap; the first comes one gap after 0."""
    return _from_gaps(stream.exponential(n, gap_s))


def bursty(n: int, gap_s: float, bursts: Bursts, arrivals: Stream, switches: Stream) -> list[float]:
    """Arrival times of a two-state Markov-modulated Poisson process, started in its steady state.

    Exact by time change: the integral of the rate between two arrivals is a unit exponential.
    """
    rates = bursts.rates(gap_s)
    lengths = (bursts.length_s * (1.0 - bursts.share) / bursts.share, bursts.length_s)
    state = int(switches.uniform(1)[0] < bursts.share)
    left = float(switches.exponential(1, lengths[state])[0])
    gaps = np.empty(n)
    for i, need in enumerate(arrivals.exponential(n, 1.0).tolist()):
        waited = 0.0
        while need > left * rates[state]:
            need -= left * rates[state]
            waited += left
            state = 1 - state
            left = float(switches.exponential(1, lengths[state])[0])
        waited += need / rates[state]
        left -= need / rates[state]
        gaps[i] = waited
    return _from_gaps(gaps)


def dynamic(n: int, present: int, arrive_s: float, gap_s: float, stream: Stream) -> list[float]:
    """CASSINI's dynamic trace (section 5.1): `present` jobs at 0, the rest from `arrive_s` on.

    The late ones come `gap_s` apart on average, exponentially; 0 lets them come together.
    """
    late = n - present
    offsets = [0.0] * late
    if late > 1 and gap_s > 0:
        offsets[1:] = _from_gaps(stream.exponential(late - 1, gap_s))
    return [0.0] * present + [arrive_s + t for t in offsets]


def uniform_seconds(n: int, span_s: int, stream: Stream) -> list[float]:
    """Arrivals at whole seconds, each of 0..span_s as likely, in order (Ada-SRSF section V: the time unit is 1 s)."""
    return sorted(float(t) for t in stream.integers(n, 0, span_s))


def _from_gaps(gaps: NDArray[np.float64]) -> list[float]:
    whole = np.rint(gaps * US)
    if not np.all(np.isfinite(whole)) or float(whole.sum()) > 2.0**62:
        raise InputError("workload: arrivals would be spread over more than 100,000 years; raise load or shorten jobs")
    times: list[float] = (np.cumsum(whole.astype(np.int64)) / US).tolist()
    return times
