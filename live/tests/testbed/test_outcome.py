import numpy as np
import pytest

from weft_live.cli.testbed import _table
from weft_live.testbed.jobs import Timing
from weft_live.testbed.trials import Openings, Outcome


def _timing(name: str, iteration_s: float, talks_s: float, late_s: float = 0.0) -> Timing:
    """Iterations that end with communication, the first of which begins so late."""
    starts = late_s + iteration_s * np.arange(6.0)
    ends = starts + iteration_s
    return Timing(name, np.stack([starts, ends - talks_s, ends, ends, ends - talks_s], axis=1))


def test_a_row_has_the_times_and_the_overlap_of_each_phase() -> None:
    alone = {name: _timing(name, 0.5, 0.2) for name in "ab"}
    together = {name: _timing(name, 0.7, 0.4) for name in "ab"}
    shifted = {"a": _timing("a", 0.5, 0.2), "b": _timing("b", 0.5, 0.2, 0.25)}
    phases = {"alone": alone, "together": together, "shifted": shifted}
    outcome = Outcome(phases, {"alone": [25e6], "together": [10e6], "shifted": [12.5e6]})
    row = outcome.jobs()["a"]
    assert row["together_times"] == pytest.approx(1.4)
    assert row["together_overlap"] == pytest.approx(1.0)
    assert row["shifted_times"] == pytest.approx(1.0)
    assert row["shifted_overlap"] == pytest.approx(0.0)
    lines = [line.split() for line in _table(outcome, {"0 s0-s2": 0})]
    assert lines[1] == ["a", "500.0", "700.0", "1.400", "1.400", "1.00", "500.0", "1.000", "1.000", "0.00"]
    assert lines[4] == ["0", "s0-s2", "25.00", "10.00", "0.400", "12.50", "0.500"]


def test_turns_fit_if_the_last_is_over_before_the_first_comes_again() -> None:
    """Two phases of 0.2 s fit into 0.5 s. Three do not: with 0.03 of the period after each, they need 0.6 / 0.91 s."""
    two = Openings.after([_timing(name, 0.5, 0.2) for name in "ab"], 0.0)
    assert two.fits
    assert two.gates[0]["period"] == pytest.approx(0.515)
    three = Openings.after([_timing(name, 0.5, 0.2) for name in "abc"], 0.0)
    assert not three.fits
    assert three.gates[0]["period"] == pytest.approx(0.6 / 0.91)
    assert three.gates[2]["epoch"] + 0.2 < three.gates[0]["period"]
