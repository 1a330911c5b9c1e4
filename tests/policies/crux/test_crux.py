"""Intensity, the correction factor, and priorities: the paper's two examples, and properties."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.policies.crux import Load, correction, gpu_use, intense, play, ranked

# Figure 9 (Example 1): seconds 2 and 1 on the link, 2 and 1 of computing, one after another; 10 GPUs each.
LONG, SHORT = Load(10.0, 2.0, 2.0), Load(5.0, 1.0, 1.0)
# Example 2: communication starts when half of the computing is done.
LIGHT, HEAVY = Load(10.0, 1.0, 4.0, 0.5), Load(30.0, 3.0, 2.0, 0.5)

LOADS = st.builds(
    Load, st.floats(0.1, 100.0), st.floats(0.1, 3.0), st.floats(0.0, 3.0), st.sampled_from([0.0, 0.5, 1.0])
)


def test_intensity() -> None:
    """W / t: both jobs of each example are equally intense."""
    assert LONG.intensity == SHORT.intensity == 5.0
    assert LIGHT.intensity == HEAVY.intensity == 10.0
    assert Load(3.0, 0.0, 1.0).intensity == math.inf


def test_example_1() -> None:
    """Over 12 s, communication first: link seconds 6 and 3 or 4 and 6, and 37.5 % or 41.7 % of the GPUs' time."""
    (long_s, long_idle), (short_s, short_idle) = play(LONG, SHORT, 12.0, sending=True)
    assert (long_s, short_s) == pytest.approx((6.0, 3.0))
    assert (long_idle, short_idle) == pytest.approx((6.0, 9.0))
    assert gpu_use([LONG, SHORT], [long_idle, short_idle], 12.0) == pytest.approx(0.375)
    (short_s, short_idle), (long_s, long_idle) = play(SHORT, LONG, 12.0, sending=True)
    assert (long_s, short_s) == pytest.approx((4.0, 6.0))
    assert gpu_use([LONG, SHORT], [long_idle, short_idle], 12.0) == pytest.approx(5.0 / 12.0)
    for horizon_s in (12.0, 24.0, 1200.0):
        assert correction(SHORT, LONG, horizon_s, sending=True) == pytest.approx(1.5)
    assert correction(SHORT, LONG) == pytest.approx(1.5)
    assert ranked({"long": LONG, "short": SHORT}) == ["short", "long"]  # P = 5 and 7.5


def test_example_1_over_the_common_multiple_of_periods() -> None:
    """Over 4 s the reference gains nothing: 1/0."""
    assert correction(SHORT, LONG, 4.0, sending=True) == math.inf


def test_example_2() -> None:
    """Over 13 s from the computing on, the second job's GPUs idle 7 s if the first goes first, else 6 s. The heavier
    job is the reference's partner: k is 2 over 12 s and over 300 iterations, infinite over 13 s."""
    assert play(LIGHT, HEAVY, 13.0)[1][1] == pytest.approx(7.0)
    assert play(HEAVY, LIGHT, 13.0)[0][1] == pytest.approx(6.0)
    assert correction(HEAVY, LIGHT, 12.0) == pytest.approx(2.0)
    assert correction(HEAVY, LIGHT, 13.0) == math.inf
    assert correction(HEAVY, LIGHT) == pytest.approx(2.0)
    assert ranked({"light": LIGHT, "heavy": HEAVY}) == ["heavy", "light"]


@pytest.mark.parametrize("ratio", [60.0, 600.0])
def test_iterations_that_differ_much(ratio: float) -> None:
    """A job computes 5 units and sends 1, the other computes 4 s and sends 2 s, and the units are small. If the long
    one goes first the short one sends in 4 s of 6 only: 1/6 x 4/6 instead of 1/6 of the time. If the short one goes
    first the long one has 5/6 of the link and sends for 2.4 s: 2/6.4 instead of 2/6. The quotient is 8/3."""
    unit = 1.0 / ratio
    short, long = Load(10.0 * unit, unit, 5.0 * unit), Load(8.0, 2.0, 4.0)
    assert correction(short, long) == pytest.approx(8.0 / 3.0, rel=0.1)
    assert ranked({"long": long, "short": short}) == ["short", "long"]  # I = 10 beside 4


@given(LOADS, LOADS)
def test_what_is_played_is_possible(one: Load, other: Load) -> None:
    """One job at a time sends; nobody idles for longer than there is; who has priority goes as if alone."""
    horizon_s = 50.0
    (mine, idle), (theirs, waits) = play(one, other, horizon_s)
    assert mine + theirs <= horizon_s * (1 + 1e-9)
    assert 0.0 <= idle <= horizon_s * (1 + 1e-9)
    assert 0.0 <= waits <= horizon_s * (1 + 1e-9)
    alone_s = max(one.compute_s, one.starts * one.compute_s + one.comm_s)
    assert mine == pytest.approx(horizon_s / alone_s * one.comm_s, abs=one.comm_s * (1 + 1e-6))


@given(LOADS)
def test_a_job_beside_one_like_it_is_worth_as_much(load: Load) -> None:
    assert correction(load, load) == pytest.approx(1.0, rel=1e-6)


@given(st.dictionaries(st.integers(0, 20), LOADS, max_size=6))
def test_priorities_name_everybody_once(loads: dict[int, Load]) -> None:
    assert sorted(ranked(loads)) == sorted(intense(loads)) == sorted(loads)


def test_equals_keep_their_order() -> None:
    assert ranked({"b": LONG, "a": LONG}) == ["b", "a"]
    assert intense({"b": LONG, "c": Load(1.0, 1.0, 1.0), "a": SHORT}) == ["b", "a", "c"]
