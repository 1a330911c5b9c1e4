"""Arrival processes: when jobs are submitted, in whole microseconds so that every machine gets the same times."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError
from weft.workload.streams import Stream

US = 1e6
MAX_BURSTS = 10**6


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
    """Arrival times of a two-state Markov-modulated Poisson process in steady state: n of them in n + 1 mean gaps.

    Given the calm and the busy stretches and the number of arrivals, arrivals are independent with a density in
    proportion to the rate; the last of n + 1 gaps comes after the last arrival. If their number were not fixed, coarse
    bursts would miss the load: with 200 jobs and bursts of ten gaps by more than half in one seed, and by 15 % in the
    mean over seeds.
    """
    span_s = (n + 1) * gap_s
    _check_span(span_s)
    edges, rates = _states(span_s, bursts, bursts.rates(gap_s), switches)
    expected = np.concatenate(([0.0], np.cumsum(np.diff(edges) * rates)))
    drawn = np.sort(arrivals.uniform(n)) * expected[-1]
    whole = np.rint(np.interp(drawn, expected, edges) * US).astype(np.int64)
    times: list[float] = (whole / US).tolist()
    return times


def _states(
    span_s: float, bursts: Bursts, rates: tuple[float, float], switches: Stream
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edges of the calm and busy stretches of a span, and the arrival rate in each."""
    calm_s = bursts.length_s * (1.0 - bursts.share) / bursts.share
    pairs = span_s / (calm_s + bursts.length_s)
    if pairs > MAX_BURSTS:
        raise InputError(
            f"workload.burst_s: {pairs:.2g} bursts of {bursts.length_s:g} s would fit between the first job and the "
            f"last; raise it so that there are at most {MAX_BURSTS:,}"
        )
    state = int(switches.uniform(1)[0] < bursts.share)
    means = np.array([calm_s, bursts.length_s])[[state, 1 - state]]
    pieces: list[NDArray[np.float64]] = []
    filled = 0.0
    while filled < span_s:
        drawn = switches.exponential(2 * (int(pairs) + 8), 1.0).reshape(-1, 2) * means
        # Whole microseconds, at least one: logarithms differ in the last bit between machines.
        pieces.append(np.maximum(np.rint(drawn.ravel() * US), 1.0) / US)
        filled += float(pieces[-1].sum())
    lengths = np.concatenate(pieces)
    edges = np.minimum(np.concatenate(([0.0], np.cumsum(lengths))), span_s)
    used = int(np.searchsorted(edges, span_s)) + 1
    both = np.array(rates)[[state, 1 - state]]
    return edges[:used], np.resize(both, used - 1)


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
    _check_span(float(gaps.sum()))
    times: list[float] = (np.cumsum(np.rint(gaps * US).astype(np.int64)) / US).tolist()
    return times


def _check_span(seconds: float) -> None:
    if not seconds * US < 2.0**62:
        raise InputError("workload: arrivals would be spread over more than 100,000 years; raise load or shorten jobs")
