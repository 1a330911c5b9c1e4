"""Arrival processes against their equations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.workload.generators.arrivals import Bursts, bursty, dynamic, mean_gap_s, poisson, uniform_seconds
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


@settings(max_examples=examples(30))
@given(
    seed=st.integers(0, 2**32), gap=st.floats(1e-3, 1e5), share=st.floats(0.01, 0.9), factor=st.floats(1, 20),
    gaps_long=st.floats(0.01, 1e4),
)  # fmt: skip
def test_bursty_keeps_the_mean_gap_in_every_seed(
    seed: int, gap: float, share: float, factor: float, gaps_long: float
) -> None:
    """400 arrivals take 400 gaps, however coarse the bursts; what is left is the gap behind the last arrival."""
    n, bursts = 400, Bursts(share, factor, gaps_long * gap)
    times = bursty(n, gap, bursts, Stream(seed, "a"), Stream(seed, "s"))
    assert times == sorted(times)
    longest = 1.0 / (bursts.rates(gap)[0] * gap)  # gaps, while it is calm
    assert (n + 1) * (1 - 20 * longest / n) <= times[-1] / gap <= (n + 1) * (1 + 1e-9)


@pytest.mark.parametrize("gap", [1.0, 60.0, 600.0])
def test_bursty_load_is_unbiased(gap: float) -> None:
    """Work over (last arrival x GPUs) is the load asked for: within 1 % over 300 seeds, within 10 % in each.

    With bursts of 600 gaps as well as of one gap.
    """
    loads = [
        0.8 * 200 * gap / bursty(200, gap, Bursts(), Stream(seed, "arrivals"), Stream(seed, "switches"))[-1]
        for seed in range(300)
    ]
    assert np.mean(loads) == pytest.approx(0.8, rel=0.01)
    assert max(abs(load / 0.8 - 1) for load in loads) < 0.1


def test_bursts_come_factor_times_as_fast() -> None:
    """In seconds with a burst rate the counts are `factor` times those of calm ones: here 20 against 1 per second."""
    bursts = Bursts(share=0.2, factor=20.0, length_s=50.0)
    gap = 1.0 / (0.8 * 1.0 + 0.2 * 20.0)
    counts = np.histogram(bursty(40_000, gap, bursts, Stream(2, "a"), Stream(2, "s")), np.arange(0, 8000, 1.0))[0]
    busy = counts > 8  # e^-1 sum 1/k! beyond 8 is 1e-6; at 20 a second 8 or fewer are 0.2 %
    assert counts[busy].mean() == pytest.approx(20.0, rel=0.03)
    assert counts[~busy].mean() == pytest.approx(1.0, rel=0.1)
    assert busy.mean() == pytest.approx(0.2, abs=0.05)


def test_too_many_bursts_are_refused() -> None:
    with pytest.raises(InputError, match=r"workload\.burst_s"):
        bursty(1000, 1e6, Bursts(length_s=1e-3), Stream(1, "a"), Stream(1, "s"))


def dispersion(bursts: Bursts, mean_gap_s: float) -> float:
    """Variance over mean of the number of arrivals in a long window (a Poisson process has 1).

    For rates l1, l2 and switching rates r1 (out of state 1), r2:
    1 + 2 (l1 - l2)^2 r1 r2 / ((r1 + r2)^2 (l1 r2 + l2 r1))  (Fischer and Meier-Hellstern 1993).
    """
    calm, burst = bursts.rates(mean_gap_s)
    out_of_burst = 1.0 / bursts.length_s
    out_of_calm = out_of_burst * bursts.share / (1.0 - bursts.share)
    total = out_of_calm + out_of_burst
    spread = (calm - burst) ** 2 * out_of_calm * out_of_burst
    return 1.0 + 2.0 * spread / (total**2 * (calm * out_of_burst + burst * out_of_calm))


def test_dispersion_of_counts() -> None:
    """Variance over mean of counts in windows much longer than a burst, against the closed form."""
    bursts = Bursts(share=0.2, factor=8.0, length_s=5.0)
    times = np.array(bursty(200_000, 0.5, bursts, Stream(3, "a"), Stream(3, "s")))
    counts = np.histogram(times, np.arange(0, times[-1], 500.0))[0]
    assert counts.var() / counts.mean() == pytest.approx(dispersion(bursts, 0.5), rel=0.25)
    assert dispersion(bursts, 0.5) > 5


def test_without_contrast_bursts_are_poisson() -> None:
    assert dispersion(Bursts(factor=1.0), 7.0) == 1.0
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
