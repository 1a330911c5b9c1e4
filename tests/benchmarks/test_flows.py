"""`python -m benchmarks flows`: every job runs and every figure is there. How long a decision takes is not tested."""

from benchmarks import _tracked, available, load


def test_a_small_run() -> None:
    assert "flows" in available()
    figures = load("flows")(True, print)
    assert set(_tracked.Flows.params[0]) <= figures.keys()  # as make bench keeps them
    measured = {"whole_s", "cpu_s", "decision_ms_median", "decision_ms_p90"}
    counted = {key: value for key, value in figures.items() if key not in measured}
    decisions = counted.pop("flow_decisions")
    assert counted == {"servers": 200, "jobs_started": 100, "simulated_s": 60}
    assert decisions > 100_000
    assert measured <= figures.keys()
    assert figures["decision_ms_median"] <= figures["decision_ms_p90"]
