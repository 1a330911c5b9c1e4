"""What the stack weft is held to: scenarios that load, stacks that can be made, seeds that were not used to choose."""

from __future__ import annotations

import pytest

from weft.research.weft import CLAIMS, FIRST_SEED, HELD_TO
from weft.scenario import Scenario
from weft.scenario.shipped import scenario_path
from weft.stacks import resolve


@pytest.mark.parametrize("scenario", HELD_TO)
def test_a_scenario_and_its_stacks_are_there(scenario: str) -> None:
    Scenario.load(scenario_path(scenario))
    for stack in ("weft", *HELD_TO[scenario]):
        assert resolve(stack).name


def test_it_is_held_to_every_scenario_and_reported_on_other_seeds() -> None:
    assert {name.rpartition("-")[0] for name in CLAIMS} == set(HELD_TO)
    assert FIRST_SEED > 5
