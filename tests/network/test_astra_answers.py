"""The hierarchy beside what ASTRA-sim 1.0 answered, recorded with its commits and settings in astra_answers.json.

Where WEFT_ASTRA_SIM names the program, it is asked again.
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.network.analytical import Analytical, ends_s
from weft.network.astra import AstraSim
from weft.network.astra_files import by_ring
from weft.network.hierarchy import Dimension, Hierarchy

RECORDED = json.loads((Path(__file__).parent / "astra_answers.json").read_text(encoding="utf-8"))
Case = tuple[str, str, bool, list[int], float]
CASES: list[Case] = RECORDED["cases"]


def hierarchy(kind: str, algorithm: str, shrinking: bool) -> Hierarchy:
    if kind != "three tiers":
        one = Dimension(kind, 25e9, 20e-6, 3e-6, algorithm)
        return Hierarchy(one, one, one, shrinking)
    inner = (Dimension("fully-connected", 75e9), Dimension("ring", 50e9, 5e-6))
    return Hierarchy(*inner, Dimension("switch", 25e9, 100e-6, 0.0, algorithm), shrinking)


def asked(units: list[int]) -> tuple[Profile, tuple[tuple[int, ...], ...]]:
    n = units[0] * units[1] * units[2]
    return Profile("p", (Compute("c", 1e-3), Transfer("t", 1e7, (0,))), n), ((units[0],) * units[1],) * units[2]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_hierarchy_is_the_program_within_one_percent(case: Case) -> None:
    """Units 2 to 128, three kinds of links, three algorithms; what the program cannot halve and double is a ring."""
    kind, algorithm, shrinking, units, seconds = case
    tiers = hierarchy(kind, algorithm, shrinking)
    done = [replace(d, algorithm="ring") if by_ring(d, n) else d for d, n in zip(tiers.dimensions, units, strict=True)]
    profile, shape = asked(units)
    for overlapping in (False, True):  # one collective alone: it makes no difference
        found = Analytical(Hierarchy(*done, shrinking, overlapping)).exposed_s(profile, "", shape)
        assert found == pytest.approx(seconds, rel=0.01)


def test_enough_is_recorded() -> None:
    assert len(CASES) >= 40
    assert {case[0] for case in CASES} == {"ring", "switch", "fully-connected", "three tiers"}
    assert {3, 6, 12} <= {n for case in CASES if case[1] == "halving-doubling" for n in case[3]}


@pytest.mark.skipif("WEFT_ASTRA_SIM" not in os.environ, reason="WEFT_ASTRA_SIM points at no ASTRA-sim")
@pytest.mark.filterwarnings("ignore:ASTRA-sim cannot halve")
def test_the_program_answers_as_recorded() -> None:
    for kind, algorithm, shrinking, units, seconds in CASES:
        profile, shape = asked(units)
        model = AstraSim(os.environ["WEFT_ASTRA_SIM"], hierarchy(kind, algorithm, shrinking))
        assert model.exposed_s(profile, "", shape) == pytest.approx(seconds, rel=1e-6)


def test_an_algorithm_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="no algorithm"):
        Dimension("switch", 1e9, algorithm="tree")


def buckets(sizes: list[float], gap_s: float) -> Profile:
    """A bucket after each computation; collectives follow one another as on one communicator."""
    tasks: list[Compute | Transfer] = []
    for i, size in enumerate(sizes):
        tasks.append(Compute(f"c{i}", gap_s, (len(tasks) - 2,) if tasks else ()))
        tasks.append(Transfer(f"t{i}", size, (len(tasks) - 1, len(tasks) - 2) if i else (0,)))
    return Profile("b", tuple(tasks), 4)


def test_tiers_overlap_and_the_last_to_come_goes_first() -> None:
    """2 x 2 GPUs, each bucket whole on either tier: S / B1 = 10 ms, then S / B2 = 10 ms, ready at 1, 2 and 3 ms.

    The first is on the machine until 11 ms, the third until 21, the second until 31; each is then 10 ms in the rack:
    21, 31, 41 ms. One after another they take 1 + 3 (10 + 10) = 61 ms."""
    tier = Dimension("ring", 1e9)
    profile = buckets([1e7] * 3, 1e-3)
    together = Hierarchy(tier, tier, tier, shrinking=False, overlapping=True)
    assert ends_s(profile, together, (2, 2, 1))[1::2] == pytest.approx((0.021, 0.041, 0.031))
    apart = replace(together, overlapping=False)
    assert max(ends_s(profile, apart, (2, 2, 1))) == pytest.approx(0.061)


@given(st.lists(st.floats(0, 1e8), min_size=1, max_size=8), st.floats(0, 0.1), st.booleans())
def test_overlap_ends_between_the_busiest_tier_and_one_after_another(
    sizes: list[float], gap_s: float, shrinking: bool
) -> None:
    profile = buckets(sizes, gap_s)
    tiers = Hierarchy(Dimension("ring", 2e9), Dimension("ring", 1e9), Dimension("ring", 1e9), shrinking, True)
    found = ends_s(profile, tiers, (2, 2, 1))
    one_by_one = max(ends_s(profile, replace(tiers, overlapping=False), (2, 2, 1)))
    busiest = max(sum(sizes) / 2e9, sum(sizes) / (2e9 if shrinking else 1e9))
    assert busiest * (1 - 1e-9) <= max(found) <= one_by_one * (1 + 1e-9)
    assert all(found[p] <= end for task, end in zip(profile.tasks, found, strict=True) for p in computations(task))


def computations(task: Compute | Transfer) -> list[int]:
    return [p for p in task.after if p % 2 == 0]
