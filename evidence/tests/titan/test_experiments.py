"""The placers and tables with which docs/papers/titan.md varies what the paper does not state."""

import numpy as np
import pytest

from weft.results.series import Steps
from weft.testing import check_place
from weft_evidence.titan.experiments import IdleMachines, SkewOrIdle, accuracy, earned, inside


def test_placers_of_the_controls() -> None:
    """They place every job of random workloads, and keep the rules of a placer."""
    check_place(IdleMachines)
    check_place(SkewOrIdle)


def test_tables_of_the_testbed() -> None:
    """Without a limit inside a server: Exp#7 and Figure 12 as `weft reproduce titan` has them."""
    assert "| no limit | 0.69 | 2.75 | 1.64 |" in inside().splitlines()
    assert "| no limit | 1 | 9 | 0.96 | 1.06 | 0.98 | 1.06 |" in accuracy().splitlines()


def test_what_is_earned_until_a_moment_is_the_area_up_to_it() -> None:
    rate = Steps(np.array([0.0, 3600.0, 7200.0, 10800.0]), np.array([2.0, 1.0, 4.0, 0.0]))
    assert earned(rate, 10800.0) == pytest.approx(7.0)  # 2 + 1 + 4 units an hour, an hour each
    assert earned(rate, 5400.0) == pytest.approx(2.5)  # half an hour of the second
    assert earned(rate, 3600.0) == pytest.approx(2.0)
