import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.network.analytical import MODERN, Analytical, Dimension, Hierarchy
from weft_evidence.calibration import calibrated, scaled

FOUR = Profile(
    "four",
    (
        Compute("c0", 0.025), Transfer("t0", 60e6, (0,)), Compute("c1", 0.025, (0,)), Transfer("t1", 10e6, (2,)),
        Compute("c2", 0.025, (2,)), Transfer("t2", 10e6, (4,)), Compute("c3", 0.025, (4,)), Transfer("t3", 10e6, (6,)),
    ),
    2,
)  # fmt: skip


def flat_network(dimension: Dimension) -> Hierarchy:
    return Hierarchy(dimension, dimension, dimension)


@given(st.floats(1e-6, 10.0), st.sampled_from([((2,),), ((1, 1),)]))
def test_calibration_is_within_one_percent(measured_s: float, shape: tuple[tuple[int, ...], ...]) -> None:
    flat = flat_network(Dimension("switch", 1e9, 1e-9))
    scale = calibrated(FOUR, flat, shape, measured_s)
    assert Analytical(flat, {"m": scale}).exposed_s(FOUR, "m", shape) == pytest.approx(measured_s, rel=0.01)
    assert Analytical(flat).exposed_s(scaled(FOUR, scale), "m", shape) == pytest.approx(measured_s, rel=0.01)


def test_calibration_that_cannot_be() -> None:
    slow = flat_network(Dimension("switch", 1e9, 1.0))
    with pytest.raises(InputError, match="latencies alone"):
        calibrated(FOUR, slow, ((2,),), 0.1)
    silent = Profile("silent", (Compute("c", 1.0),), 2)
    with pytest.raises(InputError, match="it sends nothing"):
        calibrated(silent, MODERN, ((2,),), 0.1)
