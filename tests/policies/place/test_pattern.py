"""Which worker goes to which machine, by who talks to whom."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.profile import Phase, Profile
from weft.policies.place.pattern import divide, kind_of, pattern_of, within


def kind(workers: int, collective: str = "halving-doubling") -> tuple:  # type: ignore[type-arg]
    return kind_of(Profile.from_phases("p", [Phase(1.0), Phase(bytes=1.0)], workers), collective)


@pytest.mark.parametrize(("workers", "shares"), [(8, (4, 4)), (16, (8, 8)), (16, (4, 4, 4, 4)), (8, (2, 2, 2, 2))])
def test_blocks_of_halving_doubling_cost_the_least_there_is(workers: int, shares: tuple[int, ...]) -> None:
    """m equal machines of n workers: the last log2(m) exchanges cross, n/2 pairs each, there and back:
    2 (n/2) (K/n) (1 + 2 + ... + m/2) = K (m - 1)."""
    assert divide(kind(workers), shares).across == pytest.approx(len(shares) - 1)


@given(st.integers(2, 12), st.integers(1, 4))
def test_changing_places_never_costs(workers: int, machines: int) -> None:
    shares = tuple(len(part) for part in np.array_split(np.arange(workers), machines) if len(part))
    plain, swapped = divide(kind(workers), shares), divide(kind(workers), shares, True)
    assert swapped.across <= plain.across + 1e-12
    assert [len(r) for r in swapped.ranks] == list(shares)


def test_workers_beyond_a_power_of_two_stay_with_whom_they_fold_into() -> None:
    """6 workers: ranks 1 and 3 hand their whole message to 0 and 2; on 3 + 3 GPUs neither pair is parted."""
    division = divide(kind(6), (3, 3))
    assert sorted(map(set, division.ranks), key=min) == [{0, 1, 4}, {2, 3, 5}]


def test_within_counts_each_direction() -> None:
    """A fold sends K one way at a time: a limit of K allows it."""
    pattern = pattern_of(kind(3))
    assert within(pattern, [[0, 2], [1]], lambda a, b, size: size <= 1.0)
    assert not within(pattern, [[0, 2], [1]], lambda a, b, size: size < 1.0)
