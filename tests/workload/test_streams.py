import math

import numpy as np
import pytest

from weft.workload.streams import Stream

N = 20_000
FIRST = [0.5893486986014329, 0.3238221303360629, 0.37341099566077673]


def test_the_first_draws_are_what_they_have_always_been() -> None:
    """Philox's raw output, keyed by the seed and the purpose: results of years ago must come out again."""
    assert Stream(1, "arrivals").uniform(3).tolist() == FIRST


def test_purposes_and_seeds_do_not_share_draws() -> None:
    one = Stream(1, "arrivals").uniform(N)
    assert np.array_equal(Stream(1, "arrivals").uniform(N), one)
    for other in (Stream(1, "lengths"), Stream(2, "arrivals")):
        assert abs(np.corrcoef(one, other.uniform(N))[0, 1]) < 4 / math.sqrt(N)


def test_drawing_in_parts_is_drawing_at_once() -> None:
    stream = Stream(7, "parts")
    assert [*stream.uniform(5), *stream.uniform(3)] == Stream(7, "parts").uniform(8).tolist()


def test_distributions_are_as_named() -> None:
    """Kolmogorov-Smirnov against each distribution, and chi-squared where it is discrete."""
    from scipy.stats import chisquare, kstest  # a second for each process that collects tests

    assert kstest(Stream(1, "u").uniform(N), "uniform").pvalue > 1e-3
    assert kstest(Stream(1, "e").exponential(N, 5.0), "expon", (0.0, 5.0)).pvalue > 1e-3
    assert kstest(Stream(1, "n").normal(N), "norm").pvalue > 1e-3
    whole = Stream(1, "i").integers(N, 3, 6)
    assert sorted(set(whole)) == [3, 4, 5, 6]
    assert chisquare([whole.count(k) for k in (3, 4, 5, 6)]).pvalue > 1e-3
    drawn = Stream(1, "c").choices(N, "abc", [1.0, 0.0, 3.0])
    assert "b" not in drawn
    assert drawn.count("c") / N == pytest.approx(0.75, abs=0.015)


def test_a_shuffle_keeps_every_value() -> None:
    values = list(range(50))
    shuffled = Stream(1, "s").shuffled(values)
    assert sorted(shuffled) == values != shuffled
