"""The placers and tables with which docs/papers/titan.md varies what the paper does not state."""

from __future__ import annotations

from tools.titan import IdleMachines, SkewOrIdle, accuracy, inside
from weft.testing import check_place


def test_placers_of_the_controls() -> None:
    """They place every job of random workloads, and keep the rules of a placer."""
    check_place(IdleMachines)
    check_place(SkewOrIdle)


def test_tables_of_the_testbed() -> None:
    """Without a limit inside a server: Exp#7 and Figure 12 as `weft reproduce titan` has them."""
    assert "| no limit | 0.69 | 2.75 | 1.64 |" in inside().splitlines()
    assert "| no limit | 1 | 9 | 0.96 | 1.06 | 0.98 | 1.06 |" in accuracy().splitlines()
