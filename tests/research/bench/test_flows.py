"""`weft bench flows`: every job runs, and a host decides in less than the paper's 1.5 ms."""

from __future__ import annotations

from weft.research.bench import available, load


def test_a_small_run() -> None:
    assert "flows" in available()
    figures = load("flows")(True, print)
    assert figures["jobs_started"] == 100
    assert figures["flow_decisions"] > 100_000
    assert figures["decision_ms_median"] < 1.5
