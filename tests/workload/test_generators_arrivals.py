"""Arrival processes against their equations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.workload.arrivals import Bursts, bursty, dynamic, mean_gap_s, poisson, uniform_seconds
from weft.workload.streams import Stream


def test_mean_gap() -> None:
    """E[GPUs x duration] / (load x GPUs): jobs of 100 and 300 GPU-seconds, 50 GPUs at load 0.8 -> 200 / 40 = 5 s."""
    assert mean_gap_s([100.0, 300.0], 0.8, 50) == 5.0
    with pytest.raises(InputError, match="no jobs"):
        mean_gap_s([], 0.8, 50)


def test_poisson_gaps_are_exponential() -> None:
    """Mean g, variance g^2, and P(gap > g) = 1/e."""
    gaps = np.diff([0.0, *poisson(20_000, 3.0, Stream(5, "t"))])
    assert gaps.mean() == pytest.approx(3.0, rel=0.03)
    assert gaps.var() == pytest.approx(9.0, rel=0.06)
    assert (gaps > 3.0).mean() == pytest.approx(np.exp(-1), abs=0.01)


def test_times_are_whole_microseconds_in_order() -> None:
    for times in (poisson(500, 0.001, Stream(1, "t")), bursty(500, 0.01, Bursts(), Stream(1, "a"), Stream(1, "b"))):
        assert times == sorted(times)
        assert all(round(t * 1e6) / 1e6 == t for t in times)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), share=st.floats(0.05, 0.6), factor=st.floats(1, 20))
def test_bursty_keeps_the_mean_rate(seed: int, share: float, factor: float) -> None:
    """n arrivals take n gaps on average; the count's variance is about `dispersion` times that of Poisson."""
    n, gap = 4000, 1.0
    bursts = Bursts(share, factor, length_s=20.0)
    span = bursty(n, gap, bursts, Stream(seed, "a"), Stream(seed, "s"))[-1]
    spread = (bursts.dispersion(gap) / n) ** 0.5
    assert span == pytest.approx(n * gap, rel=5 * spread + 0.02)


def test_dispersion_of_counts() -> None:
    """Variance over mean of counts in windows much longer than a burst, against the closed form."""
    bursts = Bursts(share=0.2, factor=8.0, length_s=5.0)
    times = np.array(bursty(200_000, 0.5, bursts, Stream(3, "a"), Stream(3, "s")))
    counts = np.histogram(times, np.arange(0, times[-1], 500.0))[0]
    assert counts.var() / counts.mean() == pytest.approx(bursts.dispersion(0.5), rel=0.25)
    assert bursts.dispersion(0.5) > 5


def test_without_contrast_bursts_are_poisson() -> None:
    assert Bursts(factor=1.0).dispersion(7.0) == 1.0
    calm, burst = Bursts(share=0.25, factor=5.0).rates(2.0)
    assert burst == 5 * calm
    assert 0.75 * calm + 0.25 * burst == pytest.approx(0.5)


def test_dynamic_and_uniform() -> None:
    assert dynamic(3, 3, 9.0, 1.0, Stream(1, "t")) == [0, 0, 0]
    assert dynamic(3, 0, 9.0, 0.0, Stream(1, "t")) == [9, 9, 9]
    assert dynamic(1, 0, 9.0, 5.0, Stream(1, "t")) == [9]
    times = uniform_seconds(5000, 10, Stream(1, "t"))
    assert times == sorted(times)
    assert set(times) == set(range(11))
    assert np.mean(times) == pytest.approx(5, abs=0.2)


def test_absurd_spreads_are_refused() -> None:
    with pytest.raises(InputError, match="more than 100,000 years"):
        poisson(10, 1e15, Stream(1, "t"))
