"""Flow scheduling's claims: scenarios that load, stacks that can be made, rates that a pace sets."""

from __future__ import annotations

import pytest

from weft.papers.flows import CLAIMS
from weft.scenario import Scenario
from weft.scenario.shipped import scenario_path
from weft.stacks import resolve


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_can_be_run(name: str) -> None:
    check = CLAIMS[name]
    Scenario.load(scenario_path(check.scenario or "flows"))
    assert all(resolve(stack).pace.rates() is not None for stack in check.stacks)
    assert resolve(check.stacks[0]).pace.name.startswith("flow")
